"""Jobs that must be recreated before their JobSet is resumed, so that pods have only the current settings.

Called by `reconcile`. When JobSet (0.12) resumes a Job it adds its template's
labels, annotations, node selector, tolerations and scheduling gates to what
the Job has, and removes nothing: a job that its queue moves to another flavor
would ask for the nodes of both. A recreated Job has what the template says. So
a JobSet that has run, and is to be resumed as something else,

1. is written as it is to run, but still suspended, with a stamp of that on
   the template of its pods;
2. loses its suspended Jobs without that stamp, which JobSet's controller then
   recreates;
3. is resumed.

Each step is decided on what exists, so it does not matter where an operator is
killed. The controller may create a Job from an older template that it has
cached; the stamp shows it, and the Job is deleted again. What ran is noted on
the JobSet when it is suspended, and stays there: a job that comes back as it
was, to the same flavor, keeps its Jobs, and they are not read; and `refusals`
knows for good that the job has run.

The JobSet itself is never deleted: its own volumes would be deleted with it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainyard_api import names

from ..build import templates
from ..model import Delete, Job, JobSet, Json, Suspend
from . import child_annotations, revisions


def over(jobset: JobSet, manifest: Json) -> Json:
    """The manifest to write over the JobSet: stamped, and with a note that it has run, if it ever has."""
    ran = jobset.annotations.get(names.RAN_AS_ANNOTATION) if jobset.suspend else _runs_as(jobset)
    if ran is None:
        return manifest
    stamp = {names.PLACEMENT_ANNOTATION: _stamp(manifest)}
    spec: dict[str, Any] = {**manifest["spec"]}
    spec["replicatedJobs"] = [
        templates.with_pod_metadata(job, "annotations", stamp) for job in spec["replicatedJobs"]
    ]
    metadata: Json = manifest["metadata"]
    noted = {**metadata["annotations"], names.RAN_AS_ANNOTATION: ran}
    return {**manifest, "metadata": {**metadata, "annotations": noted}, "spec": spec}


def suspension(jobset: JobSet) -> Suspend:
    """The write that suspends a JobSet that runs, with a note of what it ran as; it needs no runtime."""
    noted = {names.RAN_AS_ANNOTATION: _runs_as(jobset)}
    return Suspend(jobset.namespace, jobset.name, jobset.uid, jobset.resource_version, noted)


def is_due(jobset: JobSet, manifest: Json) -> bool:
    """Whether the JobSet is to be resumed as something other than what it ran as."""
    ran = jobset.annotations.get(names.RAN_AS_ANNOTATION)
    resumes = jobset.suspend and not manifest["spec"]["suspend"]
    return (
        resumes and ran is not None and ran != child_annotations.digest(manifest["metadata"]["annotations"])
    )


def deletions(jobset: JobSet, manifest: Json, jobs: Sequence[Job]) -> tuple[Delete, ...] | None:
    """Jobs to delete before the JobSet is resumed; None: wait for JobSet's controller.

    It must suspend the Jobs and see them suspended before they are deleted,
    and then see that they are gone: what it creates after that has a stamp, or
    is built from what the JobSet is resumed with.
    """
    stamp = _stamp(manifest)
    counted = sum(counts.suspended for counts in jobset.replicated_jobs_status)
    unfinished = [job for job in jobs if not job.finished]
    suspended = sum(job.suspended for job in unfinished)
    outworn = [job for job in unfinished if job.placement != stamp]
    if not outworn:
        return () if counted <= suspended else None
    if counted < suspended or not all(_may_go(job) for job in outworn):
        return None
    return tuple(_deletion(job) for job in outworn)


def of_the_queue(manifest: Json, jobs: Sequence[Job]) -> tuple[Delete, ...] | None:
    """Jobs to delete of a suspended JobSet that a queue holds; None: wait.

    Kueue has restored the JobSet's own templates. What it had put into its Jobs is still there. They go as
    soon as none of their pods is active, because Kueue may then place the JobSet elsewhere. Not before: the
    Job
    controller would wait five minutes for pods that it was deleting, and start none of the Job of the same
    name that JobSet makes in the place of one that is gone.
    """
    if any(names.POD_SET_LABEL in _pod_labels(job) for job in manifest["spec"]["replicatedJobs"]):
        return ()  # What is to be deleted cannot be told from what would take its place.
    outworn = [job for job in jobs if not job.finished and job.placed_by_kueue]
    if not all(_may_go(job) for job in outworn):
        return None
    return tuple(_deletion(job) for job in outworn)


def _pod_labels(replicated_job: Json) -> Json:
    labels: Json = templates.pod_template(replicated_job)["metadata"].get("labels") or {}
    return labels


def _deletion(job: Job) -> Delete:
    return Delete("batch/v1", "Job", job.namespace, job.name, job.uid, job.resource_version)


def _may_go(job: Job) -> bool:
    return job.suspended and job.active == 0 and not job.deleting


def _runs_as(jobset: JobSet) -> str:
    return child_annotations.digest(jobset.annotations) or "unknown"


def _stamp(manifest: Json) -> str:
    """A digest of the Jobs, equal whether the manifest is suspended or not."""
    return revisions.digest(manifest["spec"]["replicatedJobs"])
