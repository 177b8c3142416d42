"""Settings of the platform's own pods: where they run, before whom, and how nodes pull their images."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .external_secrets import ExternalSecret
from .runtimes import Toleration
from .value_types import Key, LabelValue, ObjectName


class Controllers(StrictModel):
    """The pods of all that the stack installs. Device plugins run where devices are, and only pull alike."""

    node_selector: dict[Key, LabelValue] = Field(default={})
    """Labels that their nodes must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that do not keep them off."""
    priority_class: ObjectName | None = None
    """PriorityClass of all but the operator, which has one of its own unless operator.priorityClass is
    false."""
    pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets, in the namespace of each, with which nodes pull their images."""
    external_secrets: dict[ObjectName, ExternalSecret] = Field(default={})
    """Secrets, by name, that the External Secrets Operator fetches from a store into the namespace of each,
    such as those of pullSecrets."""
    disruption_budgets: bool = True
    """Whether drains of nodes take one pod at a time of what has several replicas; the operator's is
    operator.disruptionBudget."""

    def of_pods(self) -> dict[str, Any]:
        """The fields of a pod's spec, as Kubernetes spells them; empty ones are left out."""
        fields = {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [
                toleration.model_dump(mode="json", exclude_none=True) for toleration in self.tolerations
            ],
            "priorityClassName": self.priority_class,
            "imagePullSecrets": [{"name": secret} for secret in self.pull_secrets],
        }
        return {name: value for name, value in fields.items() if value}
