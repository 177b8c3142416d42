"""Settings of Kueue, which queues jobs and admits them."""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from trainyard_api import names
from trainyard_api.selectors import selects
from trainyard_api.strict import StrictModel

from .value_types import (
    ComputeResources,
    Duration,
    Image,
    LabelSelector,
    PullPolicy,
    SelectorExpression,
    SelectorOperator,
)

_NEVER_SELECTED = ("kube-system", names.KUEUE_NAMESPACE)
"""Namespaces that Kueue refuses to manage jobs in, and looks for by their names alone."""
OPENSHIFTS_KUEUE = "openshift-kueue-operator"
"""Namespace of Red Hat's build of Kueue."""
OPENSHIFTS_LABEL = "kueue.openshift.io/managed"
"""Label of the namespaces whose jobs Red Hat's build of Kueue queues."""


class Integration(StrEnum):
    """Kinds of jobs that Kueue can queue, by their integration's name."""

    TRAINJOB = "trainer.kubeflow.org/trainjob"
    JOBSET = "jobset.x-k8s.io/jobset"
    JOB = "batch/job"
    POD = "pod"


def holds_jobsets(integrations: Collection[Integration]) -> bool:
    """Whether queues hold the JobSets of TrainJobs, and not the TrainJobs, if Kueue queues these kinds."""
    return Integration.JOBSET in integrations and Integration.TRAINJOB not in integrations


OF_TENANTS = LabelSelector(
    match_expressions=(SelectorExpression(key=names.TENANT_LABEL, operator=SelectorOperator.EXISTS),)
)
"""The namespaces of tenants."""


class WaitForPodsReady(StrictModel):
    """When Kueue evicts a job whose pods do not become ready."""

    timeout: Duration = "30m"
    """How long a job's pods may take to become ready after admission, image pulls included."""
    recovery_timeout: Duration = "0s"
    """How long a replacement of a lost pod may take to become ready. With 0s, Kueue waits without limit."""


class KueueController(StrEnum):
    """Who installs Kueue's controller and CRDs."""

    INSTALL = "install"
    EXISTING = "existing"


class Kueue(StrictModel):
    """Kueue: quota, borrowing, priorities and topology for TrainJobs."""

    enabled: bool = False
    """Whether Kueue queues TrainJobs."""
    controller: KueueController = KueueController.INSTALL
    """install: the platform installs Kueue. existing: the cluster already has Kueue, such as Red Hat's build,
    and you configure it outside of this stack. It must serve the API version v1beta2 and queue TrainJobs."""
    namespace: str | None = Field(default=None, min_length=1)
    """With controller existing: Kueue's namespace. Default: openshift-kueue-operator on OpenShift, else
    kueue-system."""
    image: Image | None = None
    """Image of the controller. Default: the pinned image, from the source in `artifacts`."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the controller. One is the leader; the others answer webhooks and are on standby."""
    resources: ComputeResources = ComputeResources(cpu="500m", memory="512Mi")
    """CPU and memory of each replica."""
    integrations: tuple[Integration, ...] | None = None
    """Kinds of jobs that Kueue queues. With jobset.x-k8s.io/jobset and without trainer.kubeflow.org/trainjob,
    Kueue queues the JobSets of TrainJobs. Then a change of a runtime never stops a running job. Default:
    jobset.x-k8s.io/jobset. With controller existing or with MultiKueue, the default is
    trainer.kubeflow.org/trainjob."""
    namespace_selector: LabelSelector = OF_TENANTS
    """Namespaces whose jobs Kueue manages. Default: the namespaces of tenants."""
    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    """How long a job's pods may take to become ready before Kueue evicts the job. null: no limit."""
    fair_sharing: bool = False
    """Whether Kueue divides unused quota among the queues of a cohort by their weights (fair sharing)."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's Helm chart. Values that the platform sets take precedence."""

    @property
    def installs(self) -> bool:
        """Whether the platform installs Kueue."""
        return self.enabled and self.controller is KueueController.INSTALL

    def manages(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether Kueue manages the jobs of the namespace with these labels."""
        return selects(self.namespace_selector.manifest(), {**labels, names.NAMESPACE_LABEL: namespace})

    def never_manages(self, namespace: str) -> bool:
        """Whether Kueue ignores a namespace that is no tenant's, whatever labels others give it."""
        selector = self.namespace_selector
        fixed = LabelSelector(
            match_labels={key: value for key, value in selector.match_labels.items() if _is_fixed(key)},
            match_expressions=tuple(term for term in selector.match_expressions if _is_fixed(term.key)),
        )
        return not selects(fixed.manifest(), {names.NAMESPACE_LABEL: namespace})

    def problems(self) -> Iterator[str]:
        """Settings with which no TrainJob would be queued, or Kueue would not start, each with its path."""
        if not self.enabled:
            return
        kinds = self.integrations
        if kinds is not None and not {Integration.TRAINJOB, Integration.JOBSET} & {*kinds}:
            yield (
                f"integrations: needs {Integration.JOBSET} or {Integration.TRAINJOB}: otherwise, nothing "
                "would queue TrainJobs, and no tenant could create one"
            )
        if not self.installs:
            return
        for position, kind in enumerate(kinds or ()):
            if kind in (kinds or ())[:position]:
                yield f"integrations[{position}]: {kind} is listed twice"
        system = [name for name in _NEVER_SELECTED if self.manages(name, {})]
        if system:
            excluded = f"{{key: {names.NAMESPACE_LABEL}, operator: NotIn, values: [{', '.join(system)}]}}"
            yield (
                f"namespaceSelector: selects {' and '.join(system)}, and Kueue does not start with such a "
                f"selector: add {excluded} to matchExpressions"
            )

    def useless(self) -> Iterator[str]:
        """Keys that have no effect with this `controller`."""
        if self.controller is KueueController.EXISTING:
            set_keys = self.model_fields_set & {*_OF_WHO_INSTALLS}
            yield from (
                str(type(self).model_fields[key].alias) for key in _OF_WHO_INSTALLS if key in set_keys
            )
        elif self.namespace is not None:
            yield "namespace"


def _is_fixed(key: str) -> bool:
    """Whether only the API server and the platform set this label of a namespace."""
    return key == names.NAMESPACE_LABEL or key.startswith(names.OWN_PREFIX)


_OF_WHO_INSTALLS = ("image", "image_pull_policy", "replicas", "resources", "wait_for_pods_ready", "values")
