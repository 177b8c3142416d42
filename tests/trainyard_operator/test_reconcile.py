"""What the operator does about a TrainJob, one observation at a time."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.support.core_values import (
    PLAIN,
    at,
    counts,
    jobset,
    observed,
    replicated_job,
    runtime,
    stamp,
    trainjob,
)
from trainyard_api.reasons import Reason
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide import queueing, revisions
from trainyard_operator.core.decide.reconcile import reconcile
from trainyard_operator.core.model import (
    NOTHING,
    Condition,
    Create,
    Delete,
    EventNote,
    Observed,
    Plan,
    RecordRevision,
    Rejection,
    RuntimeProblem,
    Suspend,
    Update,
)

REVISION = revisions.name_of(PLAIN)
RECORDED = replace(PLAIN, revision=REVISION)
ACTIVE = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
COUNTED = trainjob(status={"jobsStatus": [ACTIVE]})
RUNS = {"replicated_jobs_status": (counts(active=1),)}
"""Of a JobSet that has pods, as `COUNTED` says already."""


def rendered(suspend=False, revision=REVISION, built_as="3"):
    """The JobSet manifest, written out, of a TrainJob on the runtime PLAIN."""
    manifest: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "tj",
            "namespace": "team",
            "ownerReferences": [
                {
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "name": "tj",
                    "uid": "job-uid",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "annotations": ({"trainyard.dev/built-as": built_as} if built_as else {})
            | ({"trainyard.dev/runtime-revision": revision} if revision else {}),
        },
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "groupName": "default",
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {
                            "parallelism": 1,
                            "completions": 1,
                            "template": {
                                "metadata": {},
                                "spec": {"containers": [{"name": "node", "image": "img", "resources": {}}]},
                            },
                        },
                    },
                }
            ],
            "suspend": suspend,
        },
    }
    manifest["metadata"]["annotations"]["trainyard.dev/rendered"] = revisions.digest(manifest)
    return manifest


def suspended_after(ran, suspend=True):
    """The suspended JobSet, with the note of the manifest that ran and the stamp on its pods."""
    manifest = rendered(suspend=suspend)
    jobs = manifest["spec"]["replicatedJobs"]
    stamp_of_pods = {"trainyard.dev/placement": revisions.digest(jobs)}
    jobs[0]["template"]["spec"]["template"]["metadata"] = {"annotations": stamp_of_pods}
    manifest["metadata"]["annotations"]["trainyard.dev/ran-as"] = ran["trainyard.dev/rendered"]
    return manifest


def annotations(**kwargs):
    return rendered(**kwargs)["metadata"]["annotations"]


def in_sync(suspend=False, **fields):
    return jobset(suspend=suspend, annotations=annotations(suspend=suspend), **fields)


def suspended(seconds):
    return {
        "type": "Suspended",
        "status": "True",
        "reason": "Suspended",
        "message": "TrainJob is suspended",
        "lastTransitionTime": stamp(seconds),
    }


def resumed(seconds):
    return {
        "type": "Suspended",
        "status": "False",
        "reason": "Resumed",
        "message": "TrainJob is resumed",
        "lastTransitionTime": stamp(seconds),
    }


def held(spec, status=None, **fields):
    """A TrainJob that Kueue suspends and resumes."""
    return trainjob(spec, status, **{"labels": {"kueue.x-k8s.io/queue-name": "default"}, **fields})


def noted(status, seconds):
    """What JobSet says of a JobSet that was suspended, and of one that was resumed since."""
    return Condition("Suspended", status, "any", "any", stamp(seconds))


def blocked(reason, message, seconds=5):
    return {
        "type": "Blocked",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(seconds),
    }


def deadline_exceeded(seconds):
    return {
        "type": "Failed",
        "status": "True",
        "reason": "DeadlineExceeded",
        "message": "TrainJob exceeded its active deadline",
        "lastTransitionTime": stamp(seconds),
    }


JOBSET_COMPLETED = Condition(
    "Completed", "True", "AllJobsCompleted", "jobset completed successfully", stamp(3), 4
)
COMPLETE = {
    "type": "Complete",
    "status": "True",
    "reason": "AllJobsCompleted",
    "message": "jobset completed successfully",
    "lastTransitionTime": stamp(3),
    "observedGeneration": 4,
}
TIMED = {**COMPLETE, "message": "jobset completed successfully in 12 min 4 s"}
RESUMED_JOBSET = Condition("Suspended", "False", "ResumeJobs", "jobset is resumed", stamp(1))
JOBSET_FAILED = Condition(
    "Failed", "True", "FailedJobs", "jobset failed due to one or more job failures", stamp(3)
)
FAILED = {
    "type": "Failed",
    "status": "True",
    "reason": "FailedJobs",
    "message": "jobset failed due to one or more job failures",
    "lastTransitionTime": stamp(3),
}
MISSING = (
    'ClusterTrainingRuntime "rt" is not found; '
    "create it, or create the TrainJob again with another runtimeRef"
)
MISTYPED = MISSING.replace(" is not found; ", " is not found; did you mean rt-1?; ")
CONFLICT = (
    'JobSet "tj" exists and belongs to another owner; '
    "delete that object, or create the TrainJob again under another name"
)
REJECTED = "spec is wrong; correct the runtime or the TrainJob's runtimePatches"
REJECTION = Rejection(Reason.JOBSET_REJECTED, "spec is wrong", at(5))
SUSPENDED_JOB = {"suspend": True}
SUSPENSION = Suspend(
    "team", "tj", "js-uid", "9", {"trainyard.dev/ran-as": annotations()["trainyard.dev/rendered"]}
)
FLUX = runtime({"flux": {}})
UNSUPPORTED = (
    "MLPolicyNotSupported",
    'ClusterTrainingRuntime "rt": spec.mlPolicy.flux is not supported; '
    "use a runtime with one of: jax, mpi, torch, xgboost",
)
DELETE = Delete("jobset.x-k8s.io/v1alpha2", "JobSet", "team", "tj", "js-uid")


@dataclass(frozen=True)
class Case:
    """One observation and the whole plan for it; the time is five seconds after the job's creation."""

    id: str
    observed: Observed
    plan: Plan


CASES = [
    Case(
        "a new TrainJob gets a revision of its runtime recorded, then its JobSet, and no status",
        observed(),
        Plan(writes=(RecordRevision(PLAIN, REVISION), Create(rendered()))),
    ),
    Case(
        "a runtime that is recorded already is not recorded again",
        observed(rt=RECORDED),
        Plan(writes=(Create(rendered()),)),
    ),
    Case(
        "a suspended TrainJob gets a suspended JobSet and the condition",
        observed(trainjob(SUSPENDED_JOB), rt=RECORDED),
        Plan(writes=(Create(rendered(suspend=True)),), status={"conditions": [suspended(5)]}),
    ),
    Case(
        "a TrainJob of MultiKueue is left alone",
        observed(trainjob({"managedBy": "kueue.x-k8s.io/multikueue"})),
        NOTHING,
    ),
    Case(
        "a TrainJob that names the built-in manager is ours",
        observed(trainjob({"managedBy": "trainer.kubeflow.org/trainjob-controller"}), rt=RECORDED),
        Plan(writes=(Create(rendered()),)),
    ),
    Case("a TrainJob that is being deleted is left alone", observed(trainjob(deleting=True)), NOTHING),
    Case(
        "so is the JobSet of one that nobody queues",
        observed(trainjob(deleting=True), in_sync(**RUNS)),
        NOTHING,
    ),
    Case("a running JobSet is not touched", observed(COUNTED, in_sync(**RUNS)), NOTHING),
    Case(
        "a running JobSet is not touched even if the runtime has changed or is gone",
        observed(
            COUNTED, jobset(annotations={"trainyard.dev/rendered": "other"}, **RUNS), RuntimeProblem.NOT_FOUND
        ),
        NOTHING,
    ),
    Case(
        "counts of child Jobs are copied when they change",
        observed(js=in_sync(replicated_jobs_status=(counts(active=1),))),
        Plan(
            status={
                "jobsStatus": [
                    {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
                ]
            }
        ),
    ),
    Case(
        "counts that are there already are not written again",
        observed(
            trainjob(
                status={
                    "jobsStatus": [
                        {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
                    ]
                }
            ),
            in_sync(replicated_jobs_status=(counts(active=1),)),
        ),
        NOTHING,
    ),
    Case(
        "suspending a running TrainJob updates the JobSet that was seen and sets the condition",
        observed(trainjob(SUSPENDED_JOB), in_sync(), RECORDED),
        Plan(
            writes=(Update(suspended_after(annotations()), "js-uid", "9"),),
            status={"conditions": [suspended(5)]},
        ),
    ),
    Case(
        "resuming updates the JobSet and turns the condition",
        observed(trainjob(status={"conditions": [suspended(1)]}), in_sync(suspend=True), RECORDED),
        Plan(writes=(Update(rendered(), "js-uid", "9"),), status={"conditions": [resumed(5)]}),
    ),
    Case(
        "resuming a job that has run keeps the note of that",
        observed(
            trainjob(status={"conditions": [suspended(1)]}),
            jobset(suspend=True, annotations=suspended_after(annotations())["metadata"]["annotations"]),
            RECORDED,
        ),
        Plan(
            writes=(Update(suspended_after(annotations(), suspend=False), "js-uid", "9"),),
            status={"conditions": [resumed(5)]},
        ),
    ),
    Case(
        "suspending a running TrainJob needs no runtime",
        observed(trainjob(SUSPENDED_JOB), in_sync(), RuntimeProblem.NOT_FOUND),
        Plan(writes=(SUSPENSION,), status={"conditions": [suspended(5)]}),
    ),
    Case(
        "nor can a refusal of its other content keep it from being suspended",
        observed(trainjob(SUSPENDED_JOB), in_sync(), RECORDED, rejection=REJECTION),
        Plan(
            writes=(SUSPENSION,),
            status={"conditions": [blocked("JobSetRejected", REJECTED), suspended(5)]},
            events=(EventNote("Warning", "JobSetRejected", REJECTED),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "nor can a runtime from which no JobSet can be built",
        observed(trainjob(SUSPENDED_JOB, {"conditions": [blocked(*UNSUPPORTED)]}), in_sync(), FLUX),
        Plan(
            writes=(SUSPENSION,),
            status={"conditions": [blocked(*UNSUPPORTED), suspended(5)]},
            requeue_after=30.0,
        ),
    ),
    Case(
        "what is suspended and still refused is not suspended again",
        observed(
            trainjob(SUSPENDED_JOB, {"conditions": [blocked("JobSetRejected", REJECTED), suspended(1)]}),
            jobset(suspend=True, annotations=annotations() | SUSPENSION.annotations),
            RECORDED,
            rejection=REJECTION,
        ),
        Plan(requeue_after=30.0),
    ),
    Case(
        "a suspended pair that agrees is not written again",
        observed(trainjob(SUSPENDED_JOB, {"conditions": [suspended(1)]}), in_sync(suspend=True), RECORDED),
        NOTHING,
    ),
    Case(
        "a JobSet that somebody else resumed is suspended again",
        observed(
            trainjob(SUSPENDED_JOB, {"conditions": [suspended(1)]}),
            jobset(suspend=False, annotations=annotations(suspend=True)),
            RECORDED,
        ),
        Plan(writes=(Update(suspended_after(annotations(suspend=True)), "js-uid", "9"),)),
    ),
    Case(
        "a suspended JobSet whose revision is lost is rebuilt from the live runtime, with an Event",
        observed(
            trainjob(SUSPENDED_JOB, {"conditions": [suspended(1)]}),
            jobset(suspend=True, annotations={"trainyard.dev/runtime-revision": "runtime-gone"}),
            PLAIN,
            runtime_revision_lost=True,
        ),
        Plan(
            writes=(
                RecordRevision(PLAIN, REVISION),
                Update(rendered(suspend=True, built_as=""), "js-uid", "9"),
            ),
            events=(
                EventNote(
                    "Warning",
                    "RuntimeRevisionLost",
                    'ClusterTrainingRuntime "rt" has changed since the TrainJob started, and its earlier '
                    "content is no longer kept; the JobSet is built from the present one",
                ),
            ),
        ),
    ),
    Case(
        "a snapshot of another controller is built from and never recorded",
        observed(trainjob(), jobset(suspend=True), replace(PLAIN, uid="")),
        Plan(writes=(Update(rendered(revision=None, built_as=""), "js-uid", "9"),)),
    ),
    Case(
        "what is as suspended as it should be needs no runtime",
        observed(
            trainjob(SUSPENDED_JOB, {"conditions": [suspended(1)]}),
            jobset(suspend=True),
            RuntimeProblem.NOT_FOUND,
        ),
        NOTHING,
    ),
    Case(
        "a completed JobSet completes the TrainJob with a copy of its condition",
        observed(js=in_sync(conditions=(JOBSET_COMPLETED,), replicated_jobs_status=(counts(succeeded=1),))),
        Plan(
            status={
                "conditions": [COMPLETE],
                "jobsStatus": [
                    {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
                ],
            }
        ),
    ),
    Case(
        "of a JobSet whose creation is known it is told how long it took",
        observed(js=in_sync(conditions=(JOBSET_COMPLETED,), created=at(-721))),
        Plan(status={"conditions": [TIMED]}),
    ),
    Case(
        "so it is from when the JobSet was last resumed, not from when it came into its queue",
        observed(js=in_sync(conditions=(RESUMED_JOBSET, JOBSET_COMPLETED), created=at(-900))),
        Plan(status={"conditions": [{**COMPLETE, "message": "jobset completed successfully in 2 s"}]}),
    ),
    Case(
        "a JobSet that has completed at no readable time is complete all the same",
        observed(
            js=in_sync(conditions=(replace(JOBSET_COMPLETED, last_transition_time="t"),), created=at(-900))
        ),
        Plan(status={"conditions": [{**COMPLETE, "lastTransitionTime": "t"}]}),
    ),
    Case(
        "a failed JobSet fails the TrainJob with a copy of its condition, after Suspended",
        observed(
            trainjob(status={"conditions": [resumed(2)]}), in_sync(conditions=(JOBSET_FAILED,)), RECORDED
        ),
        Plan(status={"conditions": [resumed(2), FAILED]}),
    ),
    Case(
        "a JobSet that completed is believed even while it is being deleted",
        observed(js=in_sync(conditions=(JOBSET_COMPLETED,), deleting=True)),
        Plan(status={"conditions": [COMPLETE]}),
    ),
    Case(
        "a completed TrainJob never starts again though its JobSet is gone",
        observed(trainjob(status={"conditions": [COMPLETE]})),
        NOTHING,
    ),
    Case(
        "a finished TrainJob takes no counts from a JobSet as it was before the end",
        observed(trainjob(status={"conditions": [COMPLETE]}), in_sync(replicated_jobs_status=(counts(),))),
        NOTHING,
    ),
    Case(
        "a finished TrainJob takes the last counts of a JobSet that has ended",
        observed(
            trainjob(status={"conditions": [COMPLETE]}),
            in_sync(conditions=(JOBSET_COMPLETED,), replicated_jobs_status=(counts(succeeded=1),)),
        ),
        Plan(
            status={
                "jobsStatus": [
                    {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
                ]
            }
        ),
    ),
    Case(
        "a completed TrainJob that is suspended says so, and that is all",
        observed(trainjob(SUSPENDED_JOB, {"conditions": [COMPLETE]})),
        Plan(status={"conditions": [COMPLETE, suspended(5)]}),
    ),
    Case(
        "a failed TrainJob never starts again though its JobSet is gone",
        observed(trainjob(status={"conditions": [FAILED]})),
        NOTHING,
    ),
    Case(
        "a failed TrainJob keeps its JobSet",
        observed(trainjob(status={"conditions": [FAILED]}), in_sync(conditions=(JOBSET_FAILED,))),
        NOTHING,
    ),
    Case(
        "the JobSet of an earlier TrainJob of this name is not believed and not touched",
        observed(js=jobset(owner_uid="older", conditions=(JOBSET_COMPLETED,))),
        Plan(
            status={"conditions": [blocked("JobSetConflict", CONFLICT)]},
            events=(EventNote("Warning", "JobSetConflict", CONFLICT),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "the JobSet of an earlier TrainJob of this name is first waited for",
        observed(js=jobset(owner_uid="older", of_namesake=True)),
        Plan(requeue_after=3.0),
    ),
    Case(
        "the JobSet of an earlier TrainJob of this name that stays is reported after a minute",
        observed(trainjob(created=at(-60)), jobset(owner_uid="older", of_namesake=True)),
        Plan(
            status={"conditions": [blocked("JobSetConflict", CONFLICT)]},
            events=(EventNote("Warning", "JobSetConflict", CONFLICT),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "a JobSet that is being deleted is waited for, whoever owns it",
        observed(js=jobset(owner_uid="older", deleting=True)),
        Plan(requeue_after=30.0),
    ),
    Case(
        "a missing runtime blocks and is looked for again",
        observed(rt=RuntimeProblem.NOT_FOUND),
        Plan(
            status={"conditions": [blocked("RuntimeNotFound", MISSING)]},
            events=(EventNote("Warning", "RuntimeNotFound", MISSING),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "of a missing runtime the nearest name is told",
        observed(rt=RuntimeProblem.NOT_FOUND, runtimes={"rt-1", "other"}),
        Plan(
            status={"conditions": [blocked("RuntimeNotFound", MISTYPED)]},
            events=(EventNote("Warning", "RuntimeNotFound", MISTYPED),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "a block that lasts is written and announced once",
        observed(
            trainjob(status={"conditions": [blocked("RuntimeNotFound", MISSING, 1)]}),
            rt=RuntimeProblem.NOT_FOUND,
        ),
        Plan(requeue_after=30.0),
    ),
    Case(
        "a block that turns into another keeps its time and is announced",
        observed(
            trainjob(status={"conditions": [blocked("RuntimeNotFound", MISSING, 1)]}),
            jobset(owner_uid="older"),
        ),
        Plan(
            status={"conditions": [blocked("JobSetConflict", CONFLICT, 1)]},
            events=(EventNote("Warning", "JobSetConflict", CONFLICT),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "a block that is over is cleared by an empty list along with the JobSet's creation",
        observed(trainjob(status={"conditions": [blocked("RuntimeNotFound", MISSING, 1)]}), rt=RECORDED),
        Plan(writes=(Create(rendered()),), status={"conditions": []}),
    ),
    Case(
        "a block that ends with the TrainJob is cleared",
        observed(
            trainjob(status={"conditions": [blocked("RuntimeNotFound", MISSING, 1)]}),
            in_sync(conditions=(JOBSET_COMPLETED,)),
        ),
        Plan(status={"conditions": [COMPLETE]}),
    ),
    Case(
        "a refusal by the API server blocks and is not tried again at once",
        observed(rt=RECORDED, rejection=REJECTION),
        Plan(
            status={"conditions": [blocked("JobSetRejected", REJECTED)]},
            events=(EventNote("Warning", "JobSetRejected", REJECTED),),
            requeue_after=30.0,
        ),
    ),
    Case(
        "a refusal of half a minute ago is tried again",
        observed(
            trainjob(status={"conditions": [blocked("JobSetRejected", REJECTED, -25)]}),
            rt=RECORDED,
            rejection=replace(REJECTION, at=at(-25)),
        ),
        Plan(writes=(Create(rendered()),), status={"conditions": []}),
    ),
    Case(
        "a refusal is tried again after the clock was set back",
        observed(
            trainjob(status={"conditions": [blocked("JobSetRejected", REJECTED, 3600)]}),
            rt=RECORDED,
            rejection=replace(REJECTION, at=at(3600)),
        ),
        Plan(writes=(Create(rendered()),), status={"conditions": []}),
    ),
    Case(
        "a refusal of what is not wanted any more does not block",
        observed(COUNTED, in_sync(**RUNS), RECORDED, rejection=REJECTION),
        NOTHING,
    ),
    Case(
        "a runtime of an unknown kind fails the TrainJob for good",
        observed(
            trainjob({"runtimeRef": {"name": "x", "kind": "Foo", "apiGroup": "trainer.kubeflow.org"}}),
            rt=RuntimeProblem.NOT_SUPPORTED,
        ),
        Plan(
            status={
                "conditions": [
                    {
                        "type": "Failed",
                        "status": "True",
                        "reason": "TrainingRuntimeNotSupported",
                        "message": "unsupported runtime: Foo.trainer.kubeflow.org",
                        "lastTransitionTime": stamp(5),
                    }
                ]
            }
        ),
    ),
    Case(
        "before its deadline a TrainJob is looked at again when it comes",
        observed(trainjob({"activeDeadlineSeconds": 65}, COUNTED.status), in_sync(**RUNS), RECORDED),
        Plan(requeue_after=60.0),
    ),
    Case(
        "it has all of its last second",
        observed(trainjob({"activeDeadlineSeconds": 6}), in_sync(), RECORDED),
        Plan(requeue_after=1.0),
    ),
    Case(
        "past its deadline the TrainJob fails first, and its JobSet is left for the next round",
        observed(trainjob({"activeDeadlineSeconds": 5}), in_sync(), RECORDED),
        Plan(status={"conditions": [deadline_exceeded(5)]}, requeue_after=0.0),
    ),
    Case(
        "in the next round the JobSet is deleted",
        observed(
            trainjob({"activeDeadlineSeconds": 5}, {"conditions": [deadline_exceeded(5)]}),
            in_sync(),
            RECORDED,
        ),
        Plan(writes=(DELETE,)),
    ),
    Case(
        "a JobSet that is on its way out is not deleted twice",
        observed(
            trainjob({"activeDeadlineSeconds": 5}, {"conditions": [deadline_exceeded(5)]}),
            in_sync(deleting=True),
        ),
        NOTHING,
    ),
    Case(
        "past its deadline a JobSet of somebody else is not deleted",
        observed(
            trainjob({"activeDeadlineSeconds": 5}, {"conditions": [deadline_exceeded(5)]}),
            jobset(owner_uid="older"),
        ),
        NOTHING,
    ),
    Case(
        "a deadline that passed before there was a JobSet leaves none to be created",
        observed(trainjob({"activeDeadlineSeconds": 1}), rt=RECORDED),
        Plan(status={"conditions": [deadline_exceeded(5)]}),
    ),
    Case(
        "a JobSet that completed in time counts though the deadline has passed by now",
        observed(trainjob({"activeDeadlineSeconds": 4}), in_sync(conditions=(JOBSET_COMPLETED,))),
        Plan(status={"conditions": [COMPLETE]}),
    ),
    Case(
        "the deadline does not run while suspended",
        observed(
            trainjob({"activeDeadlineSeconds": 1, "suspend": True}, {"conditions": [suspended(1)]}),
            in_sync(suspend=True),
            RECORDED,
        ),
        NOTHING,
    ),
    Case(
        "the deadline starts anew at the resumption",
        observed(trainjob({"activeDeadlineSeconds": 3}, {"conditions": [resumed(4)]}), in_sync(), RECORDED),
        Plan(requeue_after=2.0),
    ),
    Case(
        "what Kueue suspends says so",
        observed(held({"suspend": True}), in_sync(suspend=True), RECORDED),
        Plan(status={"conditions": [suspended(5)]}),
    ),
    Case(
        "what Kueue resumes has no condition any more, which the SDK would take for one that does not run",
        observed(held({}, {**COUNTED.status, "conditions": [suspended(1)]}), in_sync(**RUNS), RECORDED),
        Plan(status={"conditions": []}),
    ),
    Case(
        "nor has what it resumed before, and runs",
        observed(
            held({}, {**COUNTED.status, "conditions": [resumed(1)]}, labels={}, held_by_kueue=True),
            in_sync(**RUNS),
            RECORDED,
        ),
        Plan(status={"conditions": []}),
    ),
    Case(
        "what has ended keeps what was said of it",
        observed(held({}, {"conditions": [resumed(1), COMPLETE]}), in_sync(), RECORDED),
        NOTHING,
    ),
    Case(
        "its deadline starts when JobSet has noted that it is resumed",
        observed(held({"activeDeadlineSeconds": 3}), in_sync(conditions=(noted("False", 4),)), RECORDED),
        Plan(requeue_after=2.0),
    ),
    Case(
        "and does not run until then",
        observed(
            held({"activeDeadlineSeconds": 3}, COUNTED.status),
            in_sync(conditions=(noted("True", 1),), **RUNS),
            RECORDED,
        ),
        NOTHING,
    ),
    Case(
        "the deadline of one that was never suspended starts with its JobSet",
        observed(held({"activeDeadlineSeconds": 3}), in_sync(created=at(4)), RECORDED),
        Plan(requeue_after=2.0),
    ),
    Case(
        "nor while there is no JobSet: most of the time since its creation it may have waited in its queue",
        observed(held({"activeDeadlineSeconds": 1}), rt=RECORDED),
        Plan(writes=(Create(rendered()),)),
    ),
    Case(
        "a deadline after no time at all is none",
        observed(trainjob({"activeDeadlineSeconds": 0}, COUNTED.status), in_sync(**RUNS), RECORDED),
        NOTHING,
    ),
    Case(
        "a deadline in a billion years is no reason to wait as long",
        observed(trainjob({"activeDeadlineSeconds": 2**63 - 1}, COUNTED.status), in_sync(**RUNS), RECORDED),
        Plan(requeue_after=86400.0),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reconcile(case):
    assert reconcile(case.observed, at(5)) == case.plan


KEEPS_RESUMED = Settings(keeps_resumed=True)


@pytest.mark.parametrize(
    ("before", "plan"),
    [
        ([suspended(1)], Plan(status={"conditions": [resumed(5)]})),
        ([resumed(1)], NOTHING),
        ([], NOTHING),
    ],
    ids=["is resumed", "was resumed", "was never suspended"],
)
def test_what_kueue_resumes_keeps_its_condition_as_with_trainer_where_the_stack_says_so(before, plan):
    job = held({}, {**COUNTED.status, "conditions": before})
    assert reconcile(observed(job, in_sync(**RUNS), RECORDED), at(5), KEEPS_RESUMED) == plan


def test_its_deadline_then_starts_at_the_time_of_that_condition():
    job = held({"activeDeadlineSeconds": 3}, {"conditions": [resumed(4)]})
    assert reconcile(observed(job, in_sync(), RECORDED), at(5), KEEPS_RESUMED) == Plan(requeue_after=2.0)


GOING = held({}, deleting=True)
QUEUED_JOBSETS = Settings(queue_holds_jobset=True)


def test_while_a_finalizer_keeps_a_deleted_job_that_kueue_held_its_jobset_goes_for_it_has_no_quota():
    marked = trainjob(deleting=True, held_by_kueue=True)
    for job in (GOING, marked, replace(GOING, status={"conditions": [deadline_exceeded(5)]})):
        plan = Plan(writes=(DELETE,), requeue_after=30.0)
        assert reconcile(observed(job, in_sync(**RUNS)), at(5)) == plan


@pytest.mark.parametrize(
    ("job", "js", "settings"),
    [
        pytest.param(GOING, in_sync(), QUEUED_JOBSETS, id="of a queue that holds the JobSet"),
        pytest.param(replace(GOING, collected=True), in_sync(), Settings(), id="that is collected"),
        pytest.param(GOING, in_sync(deleting=True), Settings(), id="that goes already"),
        pytest.param(GOING, in_sync(suspend=True), Settings(), id="without pods"),
        pytest.param(GOING, in_sync(conditions=(JOBSET_FAILED,)), Settings(), id="that has ended"),
        pytest.param(GOING, jobset(owner_uid="older"), Settings(), id="of another TrainJob"),
        pytest.param(GOING, None, Settings(), id="that is gone"),
    ],
)
def test_every_other_jobset_of_a_deleted_job_is_left_to_the_garbage_collector(job, js, settings):
    assert reconcile(observed(job, js), at(5), settings) == NOTHING


NOT_BUILT = 'no JobSet can be built from ClusterTrainingRuntime "rt": '
STEP = "; correct the runtime or the TrainJob"
JOBS = "spec.template.spec.replicatedJobs"


def nested(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


INVALID = [
    (
        "flux is not supported",
        FLUX,
        {},
        *UNSUPPORTED,
    ),
    (
        "a gang scheduler without a plugin is not ignored",
        replace(PLAIN, spec={**PLAIN.spec, "podGroupPolicy": {"gang": {}}}),
        {},
        "RuntimeInvalid",
        f'{NOT_BUILT}spec.podGroupPolicy: Unsupported value: "gang": no such gang scheduler here{STEP}',
    ),
    (
        "a number of nodes is no gang scheduler",
        replace(PLAIN, spec={**PLAIN.spec, "podGroupPolicy": {"numNodes": 2}}),
        {},
        "RuntimeInvalid",
        f'{NOT_BUILT}spec.podGroupPolicy: Unsupported value: "numNodes": no such gang scheduler here{STEP}',
    ),
    (
        "a runtime without ReplicatedJobs",
        replace(PLAIN, spec={"template": {"spec": {}}}),
        {},
        "RuntimeInvalid",
        f"{NOT_BUILT}{JOBS}: Required value: a runtime needs at least one ReplicatedJob{STEP}",
    ),
    (
        "a runtime that is nested too deep",
        runtime({}, [replicated_job(unknown=nested(200))]),
        {},
        "RuntimeInvalid",
        f'{NOT_BUILT}spec.template.spec: Invalid value: "...": '
        f"must not be nested deeper than 100 levels{STEP}",
    ),
    (
        "a patch that is nested too deep",
        PLAIN,
        {"runtimePatches": [{"trainingRuntimeSpec": {"template": {"spec": {"unknown": nested(2000)}}}}]},
        "RuntimeInvalid",
        f'{NOT_BUILT}spec.runtimePatches[0].trainingRuntimeSpec.template: Invalid value: "...": '
        f"must not be nested deeper than 100 levels{STEP}",
    ),
    (
        "a number of pods that is none",
        runtime({}, [replicated_job(), replicated_job("helper", None, parallelism="two")]),
        {},
        "RuntimeInvalid",
        f'{NOT_BUILT}{JOBS}[1].template.spec.parallelism: Invalid value: "two": must be an integer{STEP}',
    ),
    (
        "no job that trains, though the TrainJob sets a trainer",
        runtime({"torch": {}}, [replicated_job(ancestor=None)]),
        {"trainer": {}},
        "RuntimeInvalid",
        f"{NOT_BUILT}{JOBS}: Required value: one job template must have the label "
        f"trainer.kubeflow.org/trainjob-ancestor-step: trainer, because the TrainJob sets spec.trainer{STEP}",
    ),
    (
        "no container to train in, though the TrainJob sets a trainer",
        runtime({"torch": {}}, [replicated_job(containers=[{"name": "main", "image": "i"}])]),
        {"trainer": {}},
        "RuntimeInvalid",
        f"{NOT_BUILT}{JOBS}[0].template.spec.template.spec.containers: Required value: "
        f"must have the container node, because the TrainJob sets spec.trainer{STEP}",
    ),
    (
        "an amount that is none",
        PLAIN,
        {"trainer": {"resourcesPerNode": {"limits": {"cpu": "many"}}}},
        "RuntimeInvalid",
        f'{NOT_BUILT}spec.trainer.resourcesPerNode.limits[cpu]: Invalid value: "many": '
        f"must be a quantity, such as 500m or 4Gi{STEP}",
    ),
    (
        "a patch that is no object",
        PLAIN,
        {"runtimePatches": [{"trainingRuntimeSpec": "none"}]},
        "RuntimeInvalid",
        f'{NOT_BUILT}spec.runtimePatches[0].trainingRuntimeSpec: Invalid value: "none": '
        f"must be an object{STEP}",
    ),
    (
        "a patch that cannot be applied",
        PLAIN,
        {
            "runtimePatches": [
                {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"template": {}}]}}}}
            ]
        },
        "RuntimeInvalid",
        f"{NOT_BUILT}spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].name: "
        f"Required value: elements of this list are matched by it{STEP}",
    ),
]


@pytest.mark.parametrize(
    ("rt", "spec", "reason", "message"), [case[1:] for case in INVALID], ids=[case[0] for case in INVALID]
)
def test_what_cannot_be_built_blocks_with_its_field_and_the_next_step(rt, spec, reason, message):
    assert reconcile(observed(trainjob(spec), rt=rt), at(5)) == Plan(
        status={"conditions": [blocked(reason, message)]},
        events=(EventNote("Warning", reason, message),),
        requeue_after=30.0,
    )


def test_a_very_long_cause_leaves_room_for_the_next_step():
    refusal = Rejection(Reason.QUOTA_EXCEEDED, "exceeded quota " * 500, at(5))
    (event,) = reconcile(observed(rt=RECORDED, rejection=refusal), at(5)).events
    assert len(event.message) <= 1000
    assert event.message.endswith(
        "...; wait for other jobs to end, or have the namespace's ResourceQuota raised"
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_patch_that_makes_the_jobset_malformed_is_named_wherever_it_is(place: int) -> None:
    def patch(**spec: object) -> dict[str, object]:
        jobs = [{"name": "node", "template": {"spec": {"template": {"spec": spec}}}}]
        return {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}

    patches = [patch(), patch(hostNetwork=True)]
    patches.insert(place, patch(volumes=[{"name": ""}]))
    (event,) = reconcile(observed(trainjob({"runtimePatches": patches}), rt=PLAIN), at(5)).events
    assert event.message == (
        f"{NOT_BUILT}spec.runtimePatches[{place}].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
        f".template.spec.template.spec.volumes[0].name: Required value{STEP}"
    )


def test_annotations_of_the_operator_that_a_patch_sets_are_left_out():
    given = {"trainyard.dev/feature-gates": "TrainJobStatus", "trainyard.dev/ran-as": "x", "a.io/b": "c"}
    patch = {"manager": "a.io/b", "trainingRuntimeSpec": {"template": {"metadata": {"annotations": given}}}}
    plan = reconcile(observed(trainjob({"runtimePatches": [patch]}), rt=RECORDED), at(5))
    (create,) = plan.writes
    assert isinstance(create, Create)
    assert sorted(create.manifest["metadata"]["annotations"]) == [
        "a.io/b",
        "trainyard.dev/built-as",
        "trainyard.dev/rendered",
        "trainyard.dev/runtime-revision",
    ]


OF_KUEUE = held({"suspend": True}, {"conditions": [suspended(1)]}, held_by_kueue=True)
WAITS = in_sync(suspend=True)
EDITED = replace(PLAIN, spec={**PLAIN.spec, "mlPolicy": {"numNodes": 2}})
OUTDATED = replace(DELETE, resource_version="9", foreground=True)
RAN = {**WAITS.annotations, "trainyard.dev/ran-as": "x"}


@pytest.mark.parametrize(
    ("job", "js", "rt", "writes"),
    [
        pytest.param(OF_KUEUE, WAITS, EDITED, (OUTDATED,), id="while it waits"),
        pytest.param(held({}, held_by_kueue=True), WAITS, EDITED, (OUTDATED,), id="once it is admitted"),
        pytest.param(OF_KUEUE, replace(WAITS, annotations=RAN), EDITED, (OUTDATED,), id="once evicted"),
        pytest.param(OF_KUEUE, replace(WAITS, **RUNS), EDITED, (), id="not before its pods have ended"),
        pytest.param(OF_KUEUE, WAITS, RECORDED, (), id="not if it is as it was"),
    ],
)
def test_where_kueue_holds_the_trainjob_its_jobset_is_of_the_runtime_that_kueue_counts(job, js, rt, writes):
    assert reconcile(observed(job, js, rt), at(5)).writes == writes


@pytest.mark.parametrize(
    ("job", "js", "settings", "counts_live"),
    [
        pytest.param(OF_KUEUE, None, Settings(), True, id="a TrainJob that has no JobSet"),
        pytest.param(OF_KUEUE, WAITS, Settings(), True, id="one that waits"),
        pytest.param(OF_KUEUE, in_sync(), Settings(), False, id="not one that runs"),
        pytest.param(
            OF_KUEUE, WAITS, Settings(queue_holds_jobset=True), False, id="nor where it holds JobSets"
        ),
        pytest.param(held({}), WAITS, Settings(), False, id="nor one that Kueue has not taken"),
        pytest.param(trainjob(held_by_kueue=True), WAITS, Settings(), False, id="nor one without a queue"),
        pytest.param(
            OF_KUEUE, replace(WAITS, owns_volumes=True), Settings(), True, id="nothing is on its volumes yet"
        ),
        pytest.param(
            OF_KUEUE,
            replace(WAITS, annotations=RAN, owns_volumes=True),
            Settings(),
            False,
            id="nor what would lose its checkpoints",
        ),
    ],
)
def test_kueue_counts_the_runtime_as_it_is_now(job, js, settings, counts_live):
    assert queueing.counts_live_runtime(job, js, settings) is counts_live


def test_a_runtime_that_gets_gpus_while_a_job_waits_gives_it_none_that_kueue_does_not_count():
    gpus = {"name": "node", "image": "img", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {**OF_KUEUE.spec, "trainer": {"resourcesPerNode": {"requests": {"cpu": 4}}}}
    there = observed(replace(OF_KUEUE, spec=spec), rt=runtime({}, [replicated_job(containers=[gpus])]))
    plan = reconcile(there, at(5))
    assert plan.writes == ()
    assert plan.status is not None
    assert [c["message"] for c in plan.status["conditions"] if c["type"] == "Blocked"] == [
        'no JobSet can be built from ClusterTrainingRuntime "rt": spec.trainer.resourcesPerNode: Forbidden: '
        "add nvidia.com/gpu: 8: the pods get this from runtime rt, but queue default holds TrainJobs, and "
        "counts only what resourcesPerNode names; correct the runtime or the TrainJob"
    ]
