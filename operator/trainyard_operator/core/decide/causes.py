"""Why a TrainJob does not continue: what is wrong with it, and the next step.

Called by `reconcile`, which decides which of them is due, and when.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from trainyard_api import names, runtime_ref, similar
from trainyard_api.reasons import Reason

from ..build.framework import Framework
from ..model import Cause, Companion, EventNote, Json, Observed, Refused, Rejection, Runtime, TrainJob
from ..status import conditions
from ..status.sentences import with_step
from . import refusals

_LONGEST_NAME: Final = 63
"""The most characters of a name in a message: the name may be invalid."""
_KUEUE_SAYS: Final = "Kueue says: "

MEND_QUOTA: Final = "wait for other jobs to end, or have the namespace's ResourceQuota raised"
_NEXT_STEPS: Final[Mapping[str, str]] = {
    Reason.JOBSET_CONFLICT: "delete that object, or create the TrainJob again under another name",
    Reason.JOBSET_REJECTED: "correct the runtime or the TrainJob's runtimePatches",
    Reason.FORBIDDEN: "have the platform team grant the operator the permission that the message names",
    Reason.QUOTA_EXCEEDED: MEND_QUOTA,
}
_KEPT: Final = (
    "have the owners of the finalizers remove them, or create the TrainJob again under another name"
)
MEND_CONTENT: Final = (
    "have the runtime or the policy corrected: the TrainJob then continues by itself. Otherwise, create it "
    "again without the settings that the message names"
)
"""The next step where Jobs or pods are refused of a job that has never run."""
_HAS_RUN: Final = (
    "have the policy corrected, or create the TrainJob again: changes of the runtime have no effect on a "
    "TrainJob that has run"
)
AFTER_THE_SAME_FAILURE: Final = (
    "correct the cause of the failure, and create the TrainJob again. With the annotation "
    f"{names.MAX_RESTARTS_ANNOTATION}, the operator retries a TrainJob even after the same failure"
)
"""The next step where two attempts failed alike."""
MEND_WEBHOOK: Final = (
    "have the platform team look at the service of the webhook, which does not answer: the TrainJob then "
    "continues by itself"
)
"""The next step where nobody refuses them, but a webhook could not be asked."""
_PODS_OVER_QUOTA: Final = (
    "wait for other jobs to end, request fewer resources, or have the namespace's ResourceQuota raised"
)
NO_SUCH_QUEUE: Final = (
    f"correct the label {names.QUEUE_LABEL}, or ask the platform team for a queue in this namespace"
)
TOO_MUCH: Final = "request fewer resources, use another queue, or ask the platform team for more quota"
"""The next steps where a queue will never admit a job."""
_SERVED_BY: Final = {
    "jobsets.jobset.x-k8s.io": "JobSet",
    "podgroups.scheduling.x-k8s.io": "the coscheduling plugin of scheduler-plugins",
    "podgroups.scheduling.volcano.sh": "Volcano",
}
"""The component that installs a CRD."""


OVERDUE: Final = Cause(Reason.DEADLINE_EXCEEDED, "TrainJob exceeded its active deadline")


def failed_alike(first: int, second: int, how: str) -> Cause:
    """Two attempts, counted from 1, failed alike."""
    message = f"attempts {first} and {second} failed in the same way, so there is no further attempt: {how}"
    return Cause(Reason.SAME_FAILURE, with_step(message, AFTER_THE_SAME_FAILURE))


def unsupported(job: TrainJob) -> Cause:
    """The runtime's kind is not supported."""
    group, kind, _ = runtime_ref.of(job.spec)
    return Cause(Reason.RUNTIME_NOT_SUPPORTED, f"unsupported runtime: {kind}.{group}")


def runtime_missing(job: TrainJob, runtimes: Collection[str]) -> Cause:
    """There is no such runtime; `runtimes` are the names of those of its kind."""
    _, _, name = runtime_ref.of(job.spec)
    hint = similar.hint(name, sorted(runtimes))
    step = "create it, or create the TrainJob again with another runtimeRef"
    return Cause(Reason.RUNTIME_NOT_FOUND, with_step(f"{_reference(job)} is not found{hint}", step))


def runtime_invalid(runtime: Runtime, problem: str) -> Cause:
    """No JobSet can be built from the runtime."""
    where = f'{runtime.kind} "{runtime.name}"'
    step = "correct the runtime or the TrainJob"
    return Cause(Reason.RUNTIME_INVALID, with_step(f"no JobSet can be built from {where}: {problem}", step))


def policy_unsupported(runtime: Runtime, problem: str, using: Framework) -> Cause:
    """The runtime has a policy that no plugin implements."""
    supported = ", ".join(sorted(using.implemented("mlPolicy")))
    message = with_step(
        f'{runtime.kind} "{runtime.name}": {problem}', f"use a runtime with one of: {supported}"
    )
    return Cause(Reason.POLICY_UNSUPPORTED, message)


def foreign(kind: str, name: str) -> Cause:
    """An object with the name of a child belongs to another owner."""
    message = f'{kind} "{name}" exists and belongs to another owner'
    return Cause(Reason.JOBSET_CONFLICT, with_step(message, _NEXT_STEPS[Reason.JOBSET_CONFLICT]))


def kept(companion: Companion, since: datetime) -> Cause:
    """A companion, or another object of its name, is being deleted since then, and does not go."""
    finalizers = ", ".join(companion.finalizers) or "none"
    message = (
        f'{companion.kind} "{companion.name}" is being deleted since {conditions.timestamp(since)}, but '
        f"still exists. Its finalizers: {finalizers}"
    )
    return Cause(Reason.JOBSET_CONFLICT, with_step(message, _KEPT))


def rejected(rejection: Rejection) -> Cause:
    """The API server rejects a write."""
    if rejection.reason == Reason.CRD_MISSING:
        provider = _SERVED_BY.get(rejection.resource, "the component that serves it")
        step = f"install {provider}, or have the platform team do so"
    else:
        step = _NEXT_STEPS.get(rejection.reason, "see the operator's log")
    return Cause(rejection.reason, with_step(rejection.message, step))


def refused(refused_objects: Sequence[Refused], standing: Cause | None, *, has_run: bool) -> Cause:
    """Jobs of the JobSet or their pods are refused. Of several messages, the one already reported stays."""
    step = _HAS_RUN if has_run else MEND_CONTENT
    causes = [
        Cause(refusal.reason, with_step(refusal.message, _step_after(refusal) or step))
        for refusal in refused_objects
    ]
    return standing if standing in causes else causes[0]


def _step_after(refusal: Refused) -> str:
    """The next step where the content is not at fault; empty if it may be."""
    if refusals.OVER_QUOTA in refusal.message:
        return _PODS_OVER_QUOTA if refusal.reason == Reason.PODS_OVER_QUOTA else MEND_QUOTA
    return MEND_WEBHOOK if names.UNANSWERED in refusal.message else ""


def standing(job: TrainJob, reasons: Collection[str] = refusals.OF_A_JOBSET) -> Cause | None:
    """The reported condition with one of these reasons, by default about refused Jobs or pods."""
    blocked = conditions.find(conditions.of(job.status), names.BLOCKED) or {}
    if blocked.get("reason") not in reasons:
        return None
    return Cause(blocked["reason"], str(blocked.get("message")))


def no_such_queue(queue: str, namespace: str, hint: str) -> Cause:
    """The TrainJob names a LocalQueue that is not there."""
    problem = f"there is no LocalQueue {queue[:_LONGEST_NAME]} in namespace {namespace}{hint}"
    return Cause(Reason.QUEUE_NOT_FOUND, with_step(problem, NO_SUCH_QUEUE))


def queue_too_small(queue: str, request: str, most: str) -> Cause:
    """The TrainJob asks for more than its queue can ever give it."""
    problem = f"it asks for {request}, and LocalQueue {queue} {most}"
    return Cause(Reason.QUEUE_TOO_SMALL, with_step(problem, TOO_MUCH))


def with_words_of_kueue(cause: Cause, words: str) -> Cause:
    """The cause with what Kueue says of it before the next step."""
    problem, _, step = cause.message.rpartition("; ")
    return Cause(cause.reason, with_step(f"{problem}; {_KUEUE_SAYS}{words}", step))


def has_words_of_kueue(standing: Cause | None, cause: Cause) -> bool:
    """Whether this is reported already, with Kueue's words."""
    problem, _, _ = cause.message.rpartition("; ")
    return standing is not None and standing.message.startswith(f"{problem}; {_KUEUE_SAYS}")


def other_content(observed: Observed) -> tuple[EventNote, ...]:
    """The Event for a JobSet built from other content than the TrainJob was created or started with."""
    reference = _reference(observed.trainjob)
    if observed.runtime_renewed:
        message = (
            f"the content that {reference} had when the TrainJob was created is refused, and no pod has run; "
            "the JobSet is built from the present one"
        )
        return (EventNote("Normal", Reason.RUNTIME_RENEWED, message),)
    if observed.runtime_revision_lost:
        message = (
            f"{reference} has changed since the TrainJob started, and its earlier content "
            "is no longer kept; the JobSet is built from the present one"
        )
        return (EventNote("Warning", Reason.RUNTIME_REVISION_LOST, message),)
    return ()


def undone(manifest: Json, other: str, seconds: float) -> EventNote:
    """The Event about an object that somebody keeps changing back; `other` is their manager, or empty."""
    title = f"{manifest['kind']} {manifest['metadata']['name']}"
    message = f"{other or 'another client'} keeps changing {title} back; the next write is in {seconds:.0f} s"
    step = "have the platform team find and stop this client"
    return EventNote("Warning", Reason.WRITE_UNDONE, with_step(message, step))


def _reference(job: TrainJob) -> str:
    _, kind, name = runtime_ref.of(job.spec)
    return f'{kind} "{name}"'
