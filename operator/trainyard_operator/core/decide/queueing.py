"""A queue that holds the JobSet: what is Kueue's then, and what stays with the operator (ADR 30).

Called by `reconcile`, `display_state` and the JobSet plugin where Kueue queues JobSets
in place of TrainJobs (`Settings.queue_holds_jobset`). Kueue then looks at the
JobSet, which a change of the runtime leaves as it is, and not at the live
runtime. Of a JobSet in a queue,

- `spec.suspend` and the placement in its pod templates are Kueue's while it
  runs; the operator writes over it only while it is suspended, and never
  changes `suspend`;
- a TrainJob that is created suspended gives its JobSet a gate, which goes when
  it is resumed. Kueue takes a gate only at the creation;
- a TrainJob that is suspended later has its Workload deactivated, and
  activated again when it is resumed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from trainyard_api import names

from ..build.info import Settings
from ..model import Activate, JobSet, Json, Label, TrainJob
from ..status.conditions import moment

_LABELS: Final = frozenset(
    {
        names.QUEUE_LABEL,
        names.PRIORITY_CLASS_LABEL,
        names.MAX_EXECUTION_TIME_LABEL,
    }
)
_OF_KUEUE: Final = f"{names.KUEUE_GROUP}/"
"""How the labels and annotations begin that Kueue writes on a job, and most of those that it reads."""
_OF_THE_USER: Final = frozenset({names.MAX_EXECUTION_TIME_LABEL, names.QUEUE_GATES_ANNOTATION})
"""Those of them that only a TrainJob gives, and that Kueue lets go of a suspended job."""
PATIENCE: Final = 10.0
"""Seconds that a JobSet waits in its queue before anybody asks whether the queue can ever admit it.

By then Kueue has made its Workload, if it ever does.
"""
_MOST_PARAMETERS: Final = 100
_LONGEST_VALUE: Final = 255
"""Of a parameter of a ProvisioningRequest, as Kubernetes' autoscaler has it."""
_LONGEST_GATES: Final = 4096


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Those of a TrainJob's labels that Kueue (0.19) reads of a job.

    Without the name of a Workload that exists: Kueue creates that of the JobSet.
    """
    return {name: value for name, value in labels.items() if name in _LABELS}


def annotations_of(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those of a TrainJob's annotations that Kueue (0.19) reads of a job: its gates and parameters.

    No more and no longer ones than it can use: they are kept in memory.
    """
    if not annotations:
        return {}
    parameters = [
        (name, value)
        for name, value in annotations.items()
        if name.startswith(names.PROVISIONING_PREFIX) and len(value) <= _LONGEST_VALUE
    ]
    read = dict(sorted(parameters)[:_MOST_PARAMETERS])
    gates = annotations.get(names.QUEUE_GATES_ANNOTATION)
    if gates is not None:
        read[names.QUEUE_GATES_ANNOTATION] = gates[:_LONGEST_GATES]
    return read


def holds(job: TrainJob, jobset: JobSet | None, settings: Settings) -> bool:
    """Whether a queue holds the JobSet, which Kueue puts into a namespace's default queue by itself.

    A queue that the TrainJob has got since its JobSet runs holds it only once it is suspended.
    """
    if not settings.queue_holds_jobset:
        return False
    if jobset is not None and (jobset.queue or not jobset.suspend):
        return bool(jobset.queue)
    return bool(job.labels.get(names.QUEUE_LABEL))


def counts_live_runtime(job: TrainJob, jobset: JobSet | None, settings: Settings) -> bool:
    """Whether a queue holds the TrainJob, so that Kueue counts its pods by the runtime as it is now.

    Once it runs, and its runtime changes, Kueue evicts it. A JobSet that has run, and has volumes of its own,
    stays as it is: what it has saved on them would be deleted with it.
    """
    if settings.queue_holds_jobset or not (job.held_by_kueue and job.labels.get(names.QUEUE_LABEL)):
        return False
    if jobset is None:
        return True
    return jobset.suspend and not (jobset.owns_volumes and names.RAN_AS_ANNOTATION in jobset.annotations)


def queued(manifest: Json, job: TrainJob, jobset: JobSet | None) -> Json:
    """The JobSet with what Kueue reads of its TrainJob, and with the gate of one that was sent suspended.

    Args:
        manifest: The JobSet as it is built from its runtime.
        job: The TrainJob.
        jobset: The JobSet as it is; None if there is none yet.
    """
    metadata = manifest["metadata"]
    noted = annotations_of(job.annotations)
    gates = [gate for gate in noted.pop(names.QUEUE_GATES_ANNOTATION, "").split(",") if gate]
    if job.suspended and (jobset is None or is_gated(jobset)):
        gates.append(names.SENT_SUSPENDED)
    if gates:
        noted[names.QUEUE_GATES_ANNOTATION] = ",".join(gates)
    for field, added in (("labels", labels_of(job.labels)), ("annotations", noted)):
        if added:
            metadata = {**metadata, field: {**metadata.get(field, {}), **added}}
    return {**manifest, "metadata": metadata}


def queue_of(manifest: Json, jobset: JobSet) -> str:
    """The queue that the JobSet is to be in: the manifest's, else the one that Kueue has put it into."""
    queue: str = manifest["metadata"].get("labels", {}).get(names.QUEUE_LABEL, jobset.queue)
    return queue


def is_gated(jobset: JobSet) -> bool:
    """Whether Kueue does not admit it because its TrainJob was created suspended."""
    return names.SENT_SUSPENDED in jobset.queue_gates.split(",")


def waits(job: TrainJob, jobset: JobSet) -> bool:
    """Whether nothing but Kueue keeps the JobSet from running."""
    return bool(jobset.queue) and jobset.suspend and not jobset.queue_gates and not job.suspended


def with_suspend(manifest: Json, suspend: bool) -> Json:
    """The JobSet with this `spec.suspend`."""
    return {**manifest, "spec": {**manifest["spec"], "suspend": suspend}}


def resumed_at(jobset: JobSet) -> datetime | None:
    """When it was last let run; None while it waits.

    JobSet's controller notes the time only of a suspension that it has noted before: one that Kueue
    ended sooner is known by who wrote `spec.suspend` last.
    """
    if jobset.suspend:
        return None
    condition = next(
        (c for c in jobset.conditions if c.type == names.SUSPENDED and c.status == "False"), None
    )
    return jobset.suspend_written if condition is None else moment(condition.last_transition_time)


def started_at(jobset: JobSet) -> datetime | None:
    """When it was last resumed, or created if it was never suspended; None while it waits."""
    suspended = any(condition.type == names.SUSPENDED for condition in jobset.conditions)
    return resumed_at(jobset) or (None if jobset.suspend or suspended else jobset.created)


def activation(
    job: TrainJob, jobset: JobSet, *, reported: bool, deactivated: bool, waited: float
) -> Activate | None:
    """The write that activates the JobSet's Workload, or deactivates it if the TrainJob is suspended.

    Kueue deactivates Workloads as well, for reasons of its own: one is activated only when its
    TrainJob is resumed. Where Kueue does not manage the namespace, there is no Workload, and no
    need for one: the JobSet stays suspended.

    Args:
        job: The TrainJob.
        jobset: Its JobSet, which a queue holds.
        reported: Whether the TrainJob's status says that it is suspended.
        deactivated: Whether its Workload is known to have been deactivated.
        waited: Seconds for which the queue has been seen to hold the JobSet back.
    """
    if is_gated(jobset):
        return None
    if job.suspended and not (deactivated and jobset.suspend):
        fresh = bool(jobset.queue) and jobset.suspend and waited < PATIENCE
        return Activate(jobset.namespace, jobset.name, jobset.uid, active=False, awaited=fresh)
    if (reported or deactivated) and not job.suspended:
        return Activate(jobset.namespace, jobset.name, jobset.uid, active=True)
    return None


def relabelling(job: TrainJob, jobset: JobSet, settings: Settings) -> Label | None:
    """The write of the TrainJob's priority to a running JobSet; Kueue allows changes, but no addition."""
    priority = job.labels.get(names.PRIORITY_CLASS_LABEL)
    has_both = settings.queue_holds_jobset and jobset.queue and jobset.priority_class and priority
    if not has_both or priority == jobset.priority_class:
        return None
    labels = {names.PRIORITY_CLASS_LABEL: str(priority)}
    return Label(jobset.namespace, jobset.name, jobset.uid, jobset.resource_version, labels)


def kept(live: Mapping[str, str], written: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations to write over `live`: what Kueue has added stays, or refuses to lose."""
    added = {
        name: value for name, value in live.items() if name.startswith(_OF_KUEUE) and name not in _OF_THE_USER
    }
    return added | dict(written)
