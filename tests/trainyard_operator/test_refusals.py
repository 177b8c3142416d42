"""A job whose Jobs or pods are refused says so, and takes the newest runtime if no pod of it has run."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support import objects
from tests.support.controller_scene import JOB, JOBSET, RUNTIME, Scene, scene
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
from tests.support.fake_api import FakeApi, run, status
from trainyard_api.reasons import Reason
from trainyard_operator.core.decide import refusals, revisions
from trainyard_operator.core.decide.reconcile import reconcile
from trainyard_operator.core.decide.refusals import Warned
from trainyard_operator.core.model import (
    Create,
    Delete,
    Job,
    JobSet,
    Json,
    Needs,
    Observed,
    Plan,
    Refused,
    ReplicatedJobStatus,
    Runtime,
)
from trainyard_operator.work.event_lists import AGE
from trainyard_operator.work.jobs import Jobs
from trainyard_operator.work.refusal_events import Refusals

JOBS = "/apis/batch/v1/namespaces/team/jobs"
BAD = replace(PLAIN, changed=at(-60), created=at(-90))
BAD = replace(BAD, revision=revisions.name_of(BAD))
GOOD = replace(
    runtime({"numNodes": 1}, [replicated_job(containers=[{"name": "node", "image": "good"}])]),
    changed=at(300),
)
OF_BAD = {"trainyard.dev/runtime-revision": str(BAD.revision)}
MESSAGE = 'Job tj-node-0: pods "tj-node-0-..." is forbidden: no such volume'
STEP = (
    "have the runtime or the policy corrected: the TrainJob then continues by itself. Otherwise, create it "
    "again without the settings that the message names"
)
PODS = Refused(Reason.PODS_REFUSED, MESSAGE, first=at(2), started=at(1))
BLOCKED = {
    "type": "Blocked",
    "status": "True",
    "reason": "PodsRefused",
    "message": f"{MESSAGE}; {STEP}",
    "lastTransitionTime": stamp(40),
}
DELETION = Delete("jobset.x-k8s.io/v1alpha2", "JobSet", "team", "tj", "js-uid", "9", foreground=True)


def started(job: Any = None, idle: float = 30.0, **fields: Any) -> Observed:
    """A job whose JobSet, built from what was bad, has run nothing for so long."""
    made: JobSet = jobset(**{"annotations": OF_BAD, **fields})
    there: Observed = observed(job or trainjob(), made, BAD, idle=idle)
    return there


def looked(there: Observed, *refused: Refused, newest: Runtime | None = GOOD) -> Observed:
    return replace(there, refused=refused, newest=newest)


def blocked() -> Any:
    return trainjob(status={"conditions": [BLOCKED]})


# --- when it looks ------------------------------------------------------------


def test_nobody_looks_before_nothing_has_run_for_thirty_seconds_and_then_as_long_as_nothing_does() -> None:
    assert reconcile(started(idle=0.0), at(10)) == Plan(requeue_after=30.0)
    assert reconcile(started(idle=10.0), at(20)) == Plan(requeue_after=20.0)
    assert reconcile(started(), at(40)) == Plan(needs=Needs(refused=True))
    assert reconcile(looked(started()), at(40)) == Plan(requeue_after=30.0)


def test_one_that_was_refused_already_is_looked_at_each_time() -> None:
    assert reconcile(started(blocked(), idle=0.0), at(40)) == Plan(needs=Needs(refused=True))


@pytest.mark.parametrize("state", ["active", "ready", "suspended"])
def test_nobody_looks_where_something_is_counted(state: str) -> None:
    counted: ReplicatedJobStatus = counts("node", **{state: 1})
    there = started(replicated_jobs_status=(counted,))
    assert reconcile(there, at(100)).needs is None


# --- what is found --------------------------------------------------------------


def job(name: str = "tj-node-0", **fields: Any) -> Job:
    values = {"uid": f"uid-{name}", "suspended": False, "active": 0, "finished": False, "started": at(1)}
    return Job("team", name, resource_version="1", **{**values, **fields})


def refusal_of(pod: str, second: float, why: str = "is forbidden: no such volume", said: str = "") -> Warned:
    name = pod.rpartition("-")[0]
    message = f'{said}Error creating: pods "{pod}" {why}'
    return Warned(f"uid-{name}", "FailedCreate", message, at(second), at(second))


@pytest.mark.parametrize(
    ("jobs", "events", "expected"),
    [
        pytest.param(
            [job()],
            [
                refusal_of("tj-node-0-x7", 9, said="(combined from similar events): "),
                refusal_of("tj-node-0-a1", 2),
            ],
            [PODS],
            id="pods, each of another name: one message, and when it was said first",
        ),
        pytest.param(
            [job()],
            [refusal_of("tj-node-0-a1", 2), refusal_of("tj-node-0-x7", 9, "is forbidden: by a policy")],
            [replace(PODS, message='Job tj-node-0: pods "tj-node-0-..." is forbidden: by a policy')],
            id="what was said last",
        ),
        pytest.param(
            [job("tj-node-1"), job()],
            [refusal_of("tj-node-1-a", 2), refusal_of("tj-node-0-a", 2)],
            [PODS, replace(PODS, message=MESSAGE.replace("node-0", "node-1"))],
            id="of several Jobs, in the order of their names",
        ),
        pytest.param(
            [job()],
            [refusal_of("tj-node-0-a", 2, "is forbidden: exceeded quota: gpus, requested: 1, limited: 0")],
            [
                Refused(
                    Reason.PODS_OVER_QUOTA,
                    'Job tj-node-0: pods "tj-node-0-..." is forbidden: exceeded quota: gpus, requested: 1, '
                    "limited: 0",
                    at(2),
                    at(1),
                )
            ],
            id="a quota",
        ),
        pytest.param(
            [],
            [Warned("js-uid", "JobCreationFailed", "jobs.batch is forbidden", at(2), at(2))],
            [Refused(Reason.JOBS_REFUSED, "jobs.batch is forbidden")],
            id="Jobs",
        ),
        pytest.param(
            [],
            [
                Warned("other", "JobCreationFailed", "of another JobSet", at(2), at(2)),
                Warned("js-uid", "Unhealthy", "something else", at(2), at(2)),
            ],
            [],
            id="nothing that is about it",
        ),
        pytest.param([job(active=1)], [refusal_of("tj-node-0-a", 2)], [], id="a Job that has pods by now"),
        pytest.param([job(suspended=True)], [refusal_of("tj-node-0-a", 2)], [], id="a Job that is suspended"),
        pytest.param([job(finished=True)], [refusal_of("tj-node-0-a", 2)], [], id="a Job that has ended"),
    ],
)
def test_what_is_refused(jobs: list[Job], events: list[Warned], expected: list[Refused]) -> None:
    assert refusals.of_jobset(jobset(), jobs, events) == tuple(expected)


# --- what follows ---------------------------------------------------------------


def test_it_says_what_is_refused_before_anything_is_deleted() -> None:
    plan = reconcile(looked(started(), PODS), at(40))
    assert plan.writes == ()
    assert plan.status == {"conditions": [BLOCKED]}
    assert [(event.reason, event.message) for event in plan.events] == [("PodsRefused", BLOCKED["message"])]
    assert plan.requeue_after == 30.0


def test_then_the_jobset_is_deleted_if_the_runtime_has_other_content() -> None:
    assert reconcile(looked(started(blocked()), PODS), at(70)) == Plan(writes=(DELETION,), requeue_after=30.0)


@pytest.mark.parametrize(
    "newest", [pytest.param(BAD, id="the same content"), pytest.param(None, id="no runtime any more")]
)
def test_it_stays_as_long_as_there_is_nothing_better(newest: Runtime | None) -> None:
    there = looked(started(blocked()), PODS, newest=newest)
    assert reconcile(there, at(70)) == Plan(requeue_after=30.0)


def test_a_jobset_of_trainers_own_controller_stays() -> None:
    there = looked(started(blocked(), annotations={}), PODS)
    assert reconcile(there, at(70)) == Plan(requeue_after=30.0)


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        pytest.param({"restarts": 1}, PODS, id="it was restarted"),
        pytest.param(
            {"replicated_jobs_status": (counts("initializer", succeeded=1), counts())},
            PODS,
            id="one of its Jobs has ended",
        ),
        pytest.param(
            {"annotations": {**OF_BAD, "trainyard.dev/ran-as": "digest"}},
            PODS,
            id="it was suspended meanwhile",
        ),
        pytest.param({"queue": "gpus", "generation": 4}, PODS, id="its queue suspended it meanwhile"),
        pytest.param({}, replace(PODS, first=at(500)), id="its pods were refused later than at the start"),
        pytest.param({}, replace(PODS, started=None), id="nobody knows when it started"),
    ],
)
def test_what_may_have_run_keeps_its_runtime_and_says_so(fields: dict[str, Any], refused: Refused) -> None:
    late = trainjob(status={"conditions": [{**BLOCKED, "lastTransitionTime": stamp(600)}]})
    plan = reconcile(looked(started(late, **fields), refused), at(700))
    assert plan.writes == ()
    assert plan.status is not None
    (condition,) = plan.status["conditions"]
    assert condition["message"] == (
        f"{MESSAGE}; have the policy corrected, or create the TrainJob again: "
        "changes of the runtime have no effect on a TrainJob that has run"
    )


def test_of_a_webhook_that_does_not_answer_nothing_in_the_content_is_to_be_corrected() -> None:
    message = 'Job tj-node-0: Internal error occurred: failed calling webhook "mpod.kb.io": refused'
    plan = reconcile(looked(started(), replace(PODS, message=message)), at(70))
    assert plan.status is not None
    (condition,) = plan.status["conditions"]
    assert condition["message"] == (
        f"{message}; have the platform team look at the service of the webhook, which does not answer: the "
        "TrainJob then continues by itself"
    )


def test_what_its_queue_has_resumed_once_has_not_run() -> None:
    there = looked(started(blocked(), queue="gpus", generation=2), PODS)
    assert reconcile(there, at(70)).writes == (DELETION,)


def test_that_it_never_ran_is_known_from_the_condition_where_the_events_are_gone() -> None:
    there = looked(started(blocked()), replace(PODS, first=at(90_000)))
    assert reconcile(there, at(90_001)).writes == (DELETION,)


def test_of_several_refusals_the_one_that_was_said_is_said_again() -> None:
    first = replace(PODS, message="Job tj-a-0: refused")
    assert reconcile(looked(started(blocked()), first, PODS, newest=BAD), at(70)) == Plan(requeue_after=30.0)


def test_a_job_for_which_the_namespace_has_no_room_waits_for_room_and_nothing_is_to_be_corrected() -> None:
    message = "jobs.batch is forbidden: exceeded quota: tenant"
    there = looked(started(), Refused(Reason.JOBS_REFUSED, message))
    (condition,) = (reconcile(there, at(70)).status or {})["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "JobsRefused",
        f"{message}; wait for other jobs to end, or have the namespace's ResourceQuota raised",
    )


def test_it_is_not_blocked_any_more_once_something_runs_or_nothing_is_refused() -> None:
    runs = started(blocked(), replicated_jobs_status=(counts(active=1),))
    assert (reconcile(runs, at(70)).status or {})["conditions"] == []
    assert (reconcile(looked(started(blocked())), at(70)).status or {})["conditions"] == []


def test_it_stays_blocked_while_the_jobset_goes() -> None:
    assert reconcile(started(blocked(), deleting=True), at(71)) == Plan(requeue_after=30.0)


# --- which content it takes -------------------------------------------------------


@pytest.mark.parametrize(
    "reason",
    ["JobsRefused", "PodsRefused", "PodsOverQuota", "JobSetRejected", "RuntimeInvalid", "Forbidden"],
)
def test_without_a_jobset_a_job_whose_content_was_refused_takes_the_newest(reason: str) -> None:
    job = trainjob(status={"conditions": [{**BLOCKED, "reason": reason}]})
    assert revisions.choose(job, None, GOOD, [BAD]) == revisions.Chosen(GOOD, renewed=True)
    again = replace(BAD, changed=at(500), revision=None)
    assert revisions.choose(job, None, again, [BAD]) == revisions.Chosen(BAD), "it is the same content"


@pytest.mark.parametrize("reason", ["RuntimeNotFound", "QuotaExceeded", "CRDMissing", "JobSetConflict"])
def test_what_is_no_fault_of_the_content_changes_nothing(reason: str) -> None:
    job = trainjob(status={"conditions": [{**BLOCKED, "reason": reason}]})
    assert revisions.choose(job, None, GOOD, [BAD]) == revisions.Chosen(BAD)


@pytest.mark.parametrize("state", ["active", "ready", "succeeded", "failed"])
def test_a_job_that_has_run_keeps_its_content_though_its_jobset_is_gone(state: str) -> None:
    job = trainjob(status={"conditions": [BLOCKED], "jobsStatus": [{"name": "node", state: 1}]})
    assert revisions.choose(job, None, GOOD, [BAD]) == revisions.Chosen(BAD)


def test_that_it_is_built_from_another_content_is_said() -> None:
    there = observed(blocked(), None, GOOD, runtime_renewed=True)
    plan = reconcile(there, at(72))
    (event,) = plan.events
    assert (event.type, event.reason) == ("Normal", "RuntimeRenewed")
    assert event.message == (
        'the content that ClusterTrainingRuntime "rt" had when the TrainJob was created is refused, '
        "and no pod has run; "
        "the JobSet is built from the present one"
    )
    assert plan.status == {"conditions": []}


# --- wherever it is killed ----------------------------------------------------------


@dataclass
class World:
    """An API server with a TrainJob, its JobSet, and who refuses the pods of what is bad."""

    status: dict[str, Any] = field(default_factory=dict)
    jobset: JobSet | None = None
    live: Runtime = BAD
    made: list[str] = field(default_factory=list)

    def round(self, second: float, steps: int = 99) -> None:
        """One reconciliation of which only the first `steps` writes happen before a crash."""
        job = trainjob(status=self.status)
        chosen = revisions.choose(job, self.jobset, self.live, [BAD])
        there = observed(job, self.jobset, chosen.runtime, runtime_renewed=chosen.renewed, idle=30.0)
        plan = reconcile(there, at(second))
        if plan.needs == Needs(refused=True):
            bad = self.jobset is not None and self.jobset.annotations == OF_BAD
            plan = reconcile(looked(there, *([PODS] if bad else []), newest=self.live), at(second))
        operations: list[Any] = [*plan.writes, *([plan.status] if plan.status is not None else [])]
        for operation in operations[:steps]:
            self.carry_out(operation)

    def carry_out(self, operation: Any) -> None:
        match operation:
            case Create(manifest):
                assert self.jobset is None
                revision = manifest["metadata"]["annotations"]["trainyard.dev/runtime-revision"]
                self.made.append(revision)
                self.jobset = jobset(
                    uid=f"js-{len(self.made)}", annotations={"trainyard.dev/runtime-revision": revision}
                )
            case Delete(uid=uid):
                assert self.jobset is not None
                assert uid == self.jobset.uid
                self.jobset = None if self.jobset.deleting else replace(self.jobset, deleting=True)
            case dict():
                self.status = {**self.status, **operation}

    def gone(self) -> None:
        """What the JobSet owned is gone, and so it goes."""
        if self.jobset is not None and self.jobset.deleting:
            self.jobset = None


@pytest.mark.parametrize("crashes", list(itertools.product((0, 1, 2, 99), repeat=3)))
def test_a_revert_heals_it_wherever_the_operator_crashes(crashes: tuple[int, ...]) -> None:
    world = World()
    world.round(1)
    for second in (40, 41, 42):
        world.round(second)
    assert [c["reason"] for c in world.status["conditions"]] == ["PodsRefused"]
    world.live = GOOD
    for second, steps in enumerate(crashes, start=400):
        world.round(second, steps)
        world.gone()
    for second in range(500, 506):
        world.round(second)
        world.gone()
    assert world.made == [BAD.revision, revisions.name_of(GOOD)]
    assert world.status["conditions"] == []


# --- with an API server -----------------------------------------------------------------


def refuses_pods(s: Scene) -> None:
    """The Job of the JobSet is there, and its pods are refused."""
    owner = {"uid": s.api.objects[JOBSET]["metadata"]["uid"], "controller": True}
    owner |= {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    made = s.api.put(
        f"{JOBS}/tj-node-0",
        {
            "metadata": {"ownerReferences": [owner]},
            "spec": {"template": {}},
            "status": {"startTime": "2026-01-01T00:00:01Z"},
        },
    )
    event: Json = {
        "involvedObject": {"kind": "Job", "uid": made["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'Error creating: pods "tj-node-0-ab" is forbidden: no such volume',
        "firstTimestamp": "2026-01-01T00:00:02Z",
        "lastTimestamp": "2026-01-01T00:00:30Z",
    }
    s.api.put(f"{objects.EVENTS}/tj-node-0.1", dict(event))


def test_a_revert_reaches_a_job_whose_pods_are_refused() -> None:
    async def test() -> None:
        async with scene() as s:
            assert await s.settle() == 30.0
            s.see_jobset()
            first = s.api.objects[JOBSET]["metadata"]["uid"]
            refuses_pods(s)
            s.second = 20.0
            s.controller.everything()
            assert await s.settle() == 10.0
            s.second = 40.0
            s.controller.everything()
            await s.settle()
            assert s.conditions() == {"Blocked": "PodsRefused"}

            better = objects.runtime()
            (replicated,) = better["spec"]["template"]["spec"]["replicatedJobs"]
            replicated["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "good"
            better["metadata"]["generation"] = 2
            s.api.put(RUNTIME, better)
            s.second = 400.0
            s.see(JOB, "MODIFIED")
            s.see(RUNTIME, "MODIFIED")
            await s.settle()
            assert s.api.objects[JOBSET]["metadata"]["uid"] != first
            (made,) = s.api.objects[JOBSET]["spec"]["replicatedJobs"]
            assert made["template"]["spec"]["template"]["spec"]["containers"][0]["image"] == "good"
            said = [body["reason"] for path, body in s.api.objects.items() if "/events/tj." in path]
            assert sorted(said) == ["PodsRefused", "RuntimeRenewed"]

    run(test)


def test_an_operator_that_may_not_list_events_goes_on_without(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            refuses_pods(s)
            s.second = 40.0
            s.api.refuse_next("GET", "/events", status(403, "Forbidden", "events is forbidden"))
            s.controller.everything()
            assert await s.settle() == 30.0
            assert s.conditions() == {}

    run(test)
    assert "team/tj: could not read what blocks it: Forbidden" in caplog.text


@pytest.mark.parametrize("path", ["/jobs", "/events"])
def test_a_list_whose_next_page_has_expired_is_read_again_and_neither_blocks_nor_ends_a_block(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            refuses_pods(s)
            for s.second in (0.0, 40.0):
                s.controller.everything()
                await s.settle()
            assert s.conditions() == {"Blocked": "PodsRefused"}
            s.second = 80.0
            s.api.refuse_next("GET", path, status(410, "Expired", "continue parameter is too old"))
            s.controller.everything()
            await s.settle()
            assert s.conditions() == {"Blocked": "PodsRefused"}

    run(test)
    assert "team/tj: 410 Expired" in caplog.text


def test_a_list_of_events_serves_all_jobsets_of_a_namespace_for_a_while() -> None:
    """If JobSet's controller is down, hundreds ask at a time, and each list reads all Events there are."""

    async def test() -> None:
        api, second = FakeApi(), [0.0]
        refused = {
            "involvedObject": {"kind": "JobSet", "uid": "uid-1"},
            "type": "Warning",
            "reason": "JobCreationFailed",
            "message": "no such volume",
        }
        api.put(f"{objects.EVENTS}/tj-1.1", refused)
        jobsets = [jobset(name=f"tj-{number}", uid=f"uid-{number}") for number in range(3)]
        async with api.client() as client:
            refusals = Refusals(client, Jobs(client), clock=lambda: second[0])

            async def lists() -> int:
                answers = await asyncio.gather(*(refusals.of(each) for each in jobsets))
                assert answers == [(), (Refused(Reason.JOBS_REFUSED, "no such volume"),), ()]
                return api.requests.count(("GET", objects.EVENTS))

            assert [await lists(), await lists()] == [1, 1]
            second[0] = AGE
            assert await lists() == 2

    run(test)
