"""Settings of the platform's own pods: scheduling, priority and image pulls."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import Key, LabelValue, StrictModel

from .external_secrets import ExternalSecret
from .tolerations import Toleration
from .value_types import ObjectName


class Controllers(StrictModel):
    """Settings of all pods that the stack installs. Device plugins use only the image pull settings."""

    node_selector: dict[Key, LabelValue] = Field(default={})
    """Node labels that the pods require."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of the pods."""
    priority_class: ObjectName | None = None
    """PriorityClass of the pods. The operator has its own, unless operator.priorityClass is false."""
    pull_secrets: tuple[ObjectName, ...] = ()
    """Image pull secrets. Each namespace of the platform must contain them."""
    external_secrets: dict[ObjectName, ExternalSecret] = Field(default={})
    """Secrets, by name, such as those in pullSecrets. The External Secrets Operator fetches them from a store
    into each namespace of the platform."""
    disruption_budgets: bool = True
    """Whether Deployments with several replicas get a PodDisruptionBudget, so that drains of nodes evict one
    pod at a time. For the operator, see operator.disruptionBudget."""

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
