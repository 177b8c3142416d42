"""Settings of Kueue, which decides when jobs start."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Any

from pydantic import Field

from trainyard_api import names
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

KUEUE_NAMESPACE = "kueue-system"
OPENSHIFTS_KUEUE = "openshift-kueue-operator"
"""Where Red Hat's build of Kueue runs."""
OPENSHIFTS_LABEL = "kueue.openshift.io/managed"
"""Of namespaces whose jobs it queues."""


class Integration(StrEnum):
    """Kinds of jobs that Kueue can queue, in its own words."""

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
    """When Kueue takes a job back that does not get all of its pods up."""

    timeout: Duration = "30m"
    """Time from admission until every pod is ready; pulling images counts."""
    recovery_timeout: Duration = "0s"
    """Time for a pod that was lost to be ready again; 0s waits for ever."""


class KueueController(StrEnum):
    """Who has Kueue's controller and CRDs in the cluster."""

    INSTALL = "install"
    EXISTING = "existing"


class Kueue(StrictModel):
    """Kueue: quota, borrowing, priorities and topology for TrainJobs."""

    enabled: bool = False
    """Whether TrainJobs are queued."""
    controller: KueueController = KueueController.INSTALL
    """install: by the platform; existing: it is there already, such as Red Hat's build of Kueue, and whoever
    installed it configures it. It must serve v1beta2 and queue TrainJobs."""
    namespace: str | None = Field(default=None, min_length=1)
    """With controller existing: where it runs; openshift-kueue-operator on OpenShift, else kueue-system."""
    image: Image | None = None
    """Its image; the pinned one from the artifacts' source if left out."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the controller; one leads, the others answer webhooks and wait."""
    resources: ComputeResources = ComputeResources(cpu="500m", memory="512Mi")
    """CPU and memory of a replica."""
    integrations: tuple[Integration, ...] | None = None
    """Kinds of jobs that it queues. With jobset.x-k8s.io/jobset, and without trainer.kubeflow.org/trainjob,
    its queues hold the JobSets that TrainJobs become, and a change of a runtime never stops a running job.
    If left out, that is so unless Kueue is there already or the stack uses MultiKueue."""
    namespace_selector: LabelSelector = OF_TENANTS
    """Namespaces whose jobs it sees at all; those of tenants if left out."""
    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    """When a job whose pods do not get ready gives its quota back; null waits for ever."""
    fair_sharing: bool = False
    """True shares what is borrowed in a cohort by the weights of its queues."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's chart; what the platform states there itself stands."""

    @property
    def installs(self) -> bool:
        """Whether the platform installs it."""
        return self.enabled and self.controller is KueueController.INSTALL

    def useless(self) -> Iterator[str]:
        """Keys for whoever installs it, if that is not the platform."""
        if self.controller is KueueController.EXISTING:
            set_keys = self.model_fields_set & {*_OF_WHO_INSTALLS}
            yield from (
                str(type(self).model_fields[key].alias) for key in _OF_WHO_INSTALLS if key in set_keys
            )
        elif self.namespace is not None:
            yield "namespace"


_OF_WHO_INSTALLS = ("image", "image_pull_policy", "replicas", "resources", "wait_for_pods_ready", "values")
