"""Where the queue holds the JobSet: what the operator writes, and what it leaves to Kueue."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import pytest

from tests.support import objects
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
from trainyard_operator.core.decide.reconcile import COLLECT_SECONDS, RETRY_SECONDS, reconcile
from trainyard_operator.core.decide.views import jobset_of
from trainyard_operator.core.model import (
    NOTHING,
    Activate,
    Condition,
    Create,
    Delete,
    Job,
    JobSet,
    Json,
    Label,
    Needs,
    Observed,
    Plan,
    RecordRevision,
    Rejection,
    RuntimeProblem,
    TrainJob,
    Update,
)
from trainyard_operator.core.status import display_state

JOBSETS = Settings(queue_holds_jobset=True)
QUEUE = "kueue.x-k8s.io/queue-name"
GATES = "kueue.x-k8s.io/admission-gated-by"
GATE = "trainyard.dev/sent-suspended"
RECORDED = replace(PLAIN, revision=revisions.name_of(PLAIN))
ACTIVATED = Activate("team", "tj", "js-uid", active=True)
WAITS = Plan(requeue_after=10.0)
"""Then it is asked once whether its queue can ever admit it."""
DEACTIVATED = replace(ACTIVATED, active=False)
AWAITED = replace(DEACTIVATED, awaited=True)
SUSPENDED = {
    "type": "Suspended",
    "status": "True",
    "reason": "Suspended",
    "message": "TrainJob is suspended",
    "lastTransitionTime": stamp(0),
}


def queued(spec: Json | None = None, status: Json | None = None, **others: Any) -> TrainJob:
    return trainjob(spec, status, **{"labels": {QUEUE: "default"}, **others})


def plan(job: TrainJob, js: JobSet | None = None, settings: Settings = JOBSETS, **fields: Any) -> Plan:
    return reconcile(observed(job, js, RECORDED, **fields), at(10), settings)


def created(job: TrainJob) -> Json:
    """The JobSet that is created for it."""
    [write] = plan(job).writes
    assert isinstance(write, Create)
    return write.manifest


def stored(job: TrainJob, *, suspend: bool = True, **fields: Any) -> JobSet:
    """The JobSet as it was created for the TrainJob."""
    metadata = created(job)["metadata"]
    own = {name: value for name, value in metadata["annotations"].items() if name.startswith("trainyard.dev")}
    values = {
        "queue": metadata.get("labels", {}).get(QUEUE, ""),
        "queue_gates": metadata["annotations"].get(GATES, ""),
        "annotations": own,
    }
    return jobset(suspend=suspend, **{**values, **fields})


def test_a_jobset_is_created_suspended_with_what_kueue_reads_of_its_trainjob() -> None:
    labels = {
        QUEUE: "default",
        "kueue.x-k8s.io/priority-class": "high",
        "kueue.x-k8s.io/max-exec-time-seconds": "60",
        "team": "not Kueue's",
    }
    annotations = {GATES: "budget", "provreq.kueue.x-k8s.io/ValidUntilSeconds": "60", "note": "not Kueue's"}
    manifest = created(queued(labels=labels, annotations=annotations))
    assert manifest["metadata"]["labels"] == {name: labels[name] for name in labels if name != "team"}
    kept = {name: value for name, value in manifest["metadata"]["annotations"].items() if "kueue" in name}
    assert kept == {name: annotations[name] for name in annotations if name != "note"}
    assert manifest["spec"]["suspend"] is True


def test_what_kueue_reads_is_bounded_since_it_is_kept_in_memory() -> None:
    prefix = "provreq.kueue.x-k8s.io/"
    many = {f"{prefix}{number:03}": "x" for number in range(200)}
    read = queueing.annotations_of({**many, f"{prefix}long": "x" * 256, GATES: "g" * 10_000})
    assert read == {**dict(sorted(many.items())[:100]), GATES: "g" * 4096}


@pytest.mark.parametrize(
    ("job", "settings"),
    [
        pytest.param(trainjob(), JOBSETS, id="it names no queue"),
        pytest.param(queued(), Settings(), id="the queue holds TrainJobs"),
    ],
)
def test_a_job_that_no_queue_holds_by_its_jobset_gets_the_jobset_that_it_always_got(
    job: TrainJob, settings: Settings
) -> None:
    [write] = plan(job, settings=settings).writes
    assert plan(trainjob(), settings=Settings()).writes == (write,)


def test_an_entry_of_kueues_in_runtime_patches_that_a_user_wrote_changes_nothing() -> None:
    assert created(queued(held_by_kueue=True)) == created(queued())
    status = {"conditions": [SUSPENDED]}
    assert (
        display_state.of(queued(held_by_kueue=True), status, jobset(queue="default", suspend=True))
        == "Suspended"
    )


def test_a_jobset_that_waits_or_runs_is_left_alone() -> None:
    job = queued(status={"jobsStatus": []})
    waiting = stored(job)
    assert plan(job, waiting) == WAITS
    counted = {"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    running = replace(
        waiting, suspend=False, generation=2, replicated_jobs_status=(counts(active=1, ready=1),)
    )
    assert plan(queued(status={"jobsStatus": [counted]}), running, jobset_checked=False) == NOTHING


def test_a_jobset_that_kueue_has_put_into_the_default_queue_is_not_written_again() -> None:
    job = trainjob(status={"jobsStatus": []})
    assert plan(job, stored(job, queue="default")) == WAITS


def test_a_waiting_jobset_is_written_over_when_its_trainjob_changes_and_stays_suspended() -> None:
    job = queued(status={"jobsStatus": []})
    moved = replace(job, labels={QUEUE: "other"})
    [write] = plan(moved, stored(job)).writes
    assert isinstance(write, Update)
    assert write.manifest["metadata"]["labels"] == {QUEUE: "other"}
    assert write.manifest["spec"]["suspend"] is True


def test_a_queues_label_that_was_taken_off_by_hand_comes_back() -> None:
    job = queued(status={"jobsStatus": []})
    [write] = plan(job, stored(job, queue="")).writes
    assert isinstance(write, Update)
    assert write.manifest["metadata"]["labels"] == {QUEUE: "default"}


PRIORITY = "kueue.x-k8s.io/priority-class"
LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
PARAMETER = "provreq.kueue.x-k8s.io/ValidUntilSeconds"


@pytest.mark.parametrize(
    ("before", "after", "writes"),
    [
        ("low", "high", (Label("team", "tj", "js-uid", "9", {PRIORITY: "high"}),)),
        ("low", "low", ()),
        ("low", None, ()),
        ("", "high", ()),
    ],
)
def test_a_job_that_runs_gets_another_priority_as_far_as_kueue_lets_it(
    before: str, after: str | None, writes: tuple[Label, ...]
) -> None:
    labels = {QUEUE: "default"} | ({PRIORITY: after} if after else {})
    job = queued(status={"jobsStatus": []}, labels=labels)
    runs = stored(job, suspend=False, priority_class=before, replicated_jobs_status=(counts(active=1),))
    assert plan(job, runs).writes == writes


# --- suspend -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [{QUEUE: "default"}, {}], ids=["named", "default queue"])
def test_a_job_that_is_sent_suspended_has_a_gate_until_it_is_resumed(labels: dict[str, str]) -> None:
    sent = queued({"suspend": True}, {"conditions": [SUSPENDED], "jobsStatus": []}, labels=labels)
    assert created(sent)["metadata"]["annotations"][GATES] == GATE
    held = stored(sent, queue="default")
    assert plan(sent, held) == NOTHING
    [write] = plan(replace(sent, spec={**sent.spec, "suspend": False}), held).writes
    assert isinstance(write, Update)
    assert GATES not in write.manifest["metadata"]["annotations"]
    assert write.manifest["spec"]["suspend"] is True, "Kueue resumes it"


def test_gates_of_others_stay_when_it_is_resumed() -> None:
    sent = queued({"suspend": True}, annotations={GATES: "budget"})
    assert created(sent)["metadata"]["annotations"][GATES] == f"budget,{GATE}"
    [write] = plan(queued(annotations={GATES: "budget"}), stored(sent)).writes
    assert isinstance(write, Update)
    assert write.manifest["metadata"]["annotations"][GATES] == "budget"


@pytest.mark.parametrize(
    ("suspend", "reported", "jobset_suspended", "writes"),
    [
        pytest.param(True, False, False, (), id="a running job is suspended, and no status says so yet"),
        pytest.param(True, False, True, (), id="a waiting job is suspended, and no status says so yet"),
        pytest.param(True, True, False, (DEACTIVATED,), id="a running job is suspended"),
        pytest.param(True, True, True, (AWAITED,), id="a waiting job is suspended"),
        pytest.param(False, True, True, (ACTIVATED,), id="it is resumed"),
        pytest.param(False, True, False, (ACTIVATED,), id="it is resumed before Kueue has suspended it"),
        pytest.param(False, False, True, (), id="it waits; perhaps Kueue has deactivated it"),
    ],
)
def test_a_user_suspends_and_resumes_the_workload(
    suspend: bool, reported: bool, jobset_suspended: bool, writes: tuple[Activate, ...]
) -> None:
    status = {"conditions": [SUSPENDED] if reported else [], "jobsStatus": []}
    held = stored(queued(), suspend=jobset_suspended)
    assert plan(queued({"suspend": suspend}, status), held).writes == writes


RESUMED = {**SUSPENDED, "status": "False", "reason": "Resumed", "message": "TrainJob is resumed"}


@pytest.mark.parametrize("condition", [SUSPENDED, RESUMED])
@pytest.mark.parametrize("waits", [True, False])
def test_a_job_that_is_resumed_in_the_default_queue_has_no_condition_like_one_that_names_its_queue(
    condition: Json, waits: bool
) -> None:
    held = stored(trainjob(), queue="default", suspend=waits, replicated_jobs_status=(counts(active=1),))
    job = trainjob({"suspend": False}, {"conditions": [condition], "jobsStatus": []})
    told = plan(job, held).status
    assert told is not None
    assert told["conditions"] == []


def test_a_workload_that_was_deactivated_is_activated_though_no_status_has_said_so() -> None:
    held = stored(queued())
    status = {"jobsStatus": []}
    assert plan(queued({"suspend": False}, status), held, deactivated=True).writes == (ACTIVATED,)
    assert plan(queued({"suspend": True}, status), held, deactivated=True).writes == ()


def test_the_status_says_that_a_job_is_suspended_before_its_workload_is_deactivated() -> None:
    status = {"conditions": [{**SUSPENDED, "lastTransitionTime": stamp(10)}]}
    assert plan(queued({"suspend": True}, {"jobsStatus": []}), stored(queued())) == Plan(
        status=status, requeue_after=1.0
    )


def test_a_workload_is_deactivated_once_if_nobody_activates_it_again() -> None:
    held, job = stored(queued()), queued({"suspend": True}, {"conditions": [SUSPENDED], "jobsStatus": []})
    assert plan(job, held, deactivated=True) == NOTHING
    assert plan(job, replace(held, suspend=False), deactivated=True).writes == (DEACTIVATED,)


def test_a_job_whose_workload_cannot_be_activated_is_activated_later() -> None:
    """Also by an operator that has started since and does not know that it was deactivated."""
    resumed = queued({"suspend": False}, {"conditions": [SUSPENDED], "jobsStatus": []})
    refused = plan(resumed, stored(queued()), rejection=Rejection(Reason.FORBIDDEN, "no", at(9)))
    assert (refused.writes, refused.requeue_after) == ((), RETRY_SECONDS)
    assert refused.status is not None
    standing = refused.status["conditions"]
    assert [c["type"] for c in standing] == ["Blocked", "Suspended"]
    assert standing[1] == SUSPENDED
    again = replace(resumed, status={"conditions": standing, "jobsStatus": []})
    held = observed(again, stored(queued()), RECORDED, rejection=Rejection(Reason.FORBIDDEN, "no", at(9)))
    assert reconcile(held, at(30), JOBSETS) == Plan(requeue_after=RETRY_SECONDS)
    assert reconcile(held, at(39), JOBSETS) == Plan(
        (ACTIVATED,), {"conditions": []}, requeue_after=RETRY_SECONDS
    )


@dataclass
class Killed:
    """A queue with one JobSet, and operators that are killed after some of their writes."""

    job: TrainJob
    jobset: JobSet
    deactivated: bool = False
    """What the operator that runs remembers."""
    active: bool = True

    def round(self, steps: int) -> None:
        told = plan(self.job, self.jobset, deactivated=self.deactivated)
        for write in [*told.writes, told.status][:steps]:
            if isinstance(write, Activate):
                self.active, self.deactivated = write.active, not write.active
                self.jobset = replace(self.jobset, suspend=not write.active)
            elif write is not None:
                assert isinstance(write, Mapping)
                self.job = replace(self.job, status={**self.job.status, **write})
        if steps < ALL:
            self.deactivated = False


ALL = 99


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("resumed_after", range(5))
def test_a_resumed_job_has_an_active_workload_wherever_the_operator_is_killed(
    waits: bool, resumed_after: int
) -> None:
    for crashes in itertools.product((0, 1, ALL), repeat=4):
        world = Killed(
            queued({"suspend": True}, {"conditions": [], "jobsStatus": []}), stored(queued(), suspend=waits)
        )
        for steps in crashes[:resumed_after]:
            world.round(steps)
        world.job = replace(world.job, spec={**world.job.spec, "suspend": False})
        for steps in (*crashes[resumed_after:], ALL, ALL):
            world.round(steps)
        assert (world.active, world.job.status["conditions"]) == (True, []), crashes


def test_a_queue_that_a_running_job_has_got_later_does_not_hold_it() -> None:
    """Its JobSet has no Workload: it is suspended itself, and its deadline counts."""
    runs = replace(
        stored(trainjob(), suspend=False), created=at(0), replicated_jobs_status=(counts(active=1),)
    )
    [write] = plan(queued({"suspend": True}), runs).writes
    assert isinstance(write, Update)
    assert write.manifest["spec"]["suspend"] is True
    assert plan(queued({"activeDeadlineSeconds": 60}, {"jobsStatus": []}), runs).requeue_after == 50


def test_suspending_needs_no_runtime() -> None:
    held = stored(queued())
    seen = observed(queued({"suspend": True}, {"conditions": [SUSPENDED]}), held, RuntimeProblem.NOT_FOUND)
    assert reconcile(seen, at(10), JOBSETS).writes == (AWAITED,)


def test_a_workload_is_awaited_for_a_while_and_only_of_a_jobset_that_waits_in_a_queue() -> None:
    """Where Kueue does not manage the namespace, none ever comes."""
    job = queued({"suspend": True}, {"conditions": [SUSPENDED], "jobsStatus": []})
    waits, outside = stored(queued()), stored(trainjob())
    assert plan(job, waits, waited=9.9) == Plan((AWAITED,), requeue_after=RETRY_SECONDS)
    awaited_no_more = Plan((DEACTIVATED,), requeue_after=RETRY_SECONDS)
    assert plan(job, waits, waited=10.0) == awaited_no_more
    assert plan(job, outside) == awaited_no_more
    assert plan(job, replace(waits, suspend=False)) == awaited_no_more


# --- what a job is after it has run ------------------------------------------------------------------------


def job_of(name: str, **fields: Any) -> Job:
    values = {"suspended": True, "active": 0, "finished": False, "placed_by_kueue": True}
    return Job("team", name, f"{name}-uid", "3", **{**values, **fields})


def test_jobs_that_kueue_had_placed_are_recreated_before_it_places_them_anew() -> None:
    job = queued(status={"jobsStatus": []})
    evicted = stored(job, generation=3)
    assert plan(job, evicted, jobset_checked=False) == Plan(needs=Needs(jobs=True))

    def step(*jobs: Job) -> Plan:
        return plan(job, evicted, jobset_checked=False, jobs=jobs)

    placed, fresh = job_of("placed"), job_of("fresh", placed_by_kueue=False)
    assert step(placed, fresh, job_of("done", finished=True)) == Plan(
        (Delete("batch/v1", "Job", "team", "placed", "placed-uid", "3"),), requeue_after=COLLECT_SECONDS
    )
    for waits in (
        replace(placed, suspended=False),
        replace(placed, active=1),  # the Job controller is deleting its pods, and waits until it sees it
        replace(placed, deleting=True),
    ):
        assert step(waits, placed) == Plan(requeue_after=COLLECT_SECONDS)
    [write] = step(fresh).writes
    assert isinstance(write, Update), "its spec is looked at"
    assert plan(job, evicted) == WAITS


def test_jobs_whose_own_template_has_kueues_label_are_left_alone() -> None:
    """Recreated, they would look the same, and be deleted again for ever."""
    job = queued(status={"jobsStatus": []})
    pods = {"metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}}}
    template = replicated_job()
    template["template"]["spec"]["template"] |= pods
    sly = runtime({"numNodes": 1}, [template])
    seen = observed(job, stored(job, generation=3), sly, jobset_checked=False, jobs=(job_of("placed"),))
    assert [type(write) for write in reconcile(seen, at(10), JOBSETS).writes] == [RecordRevision, Update]


def test_a_job_that_waits_for_the_first_time_has_no_jobs_to_look_at() -> None:
    job = queued(status={"jobsStatus": []})
    [write] = plan(job, stored(job), jobset_checked=False).writes
    assert isinstance(write, Update)


# --- the deadline ------------------------------------------------------------------------------------------


def test_time_in_the_queue_does_not_count_towards_the_deadline() -> None:
    job = queued({"activeDeadlineSeconds": 60}, {"jobsStatus": []})
    waits = stored(job)

    def at_second(second: float, js: JobSet | None) -> Plan:
        return reconcile(observed(job, js, RECORDED), at(second), JOBSETS)

    assert at_second(1000, waits) == WAITS
    unnamed = observed(trainjob({"activeDeadlineSeconds": 60}), None, RECORDED)
    [write] = reconcile(unnamed, at(1000), JOBSETS).writes
    assert isinstance(write, Create), "Kueue may put its JobSet into the default queue"
    runs = replace(waits, suspend=False, replicated_jobs_status=(counts(active=1),))
    assert at_second(1000, runs).requeue_after is None, "nothing tells when it was resumed"
    resumed = replace(runs, suspend_written=at(980))
    assert at_second(1000, resumed).requeue_after == 40, "JobSet's controller has not seen it suspended"
    noted = (Condition("Suspended", "False", "ResumeJobs", "", stamp(990)),)
    assert at_second(1000, replace(runs, conditions=noted)).requeue_after == 50
    over = at_second(1051, replace(runs, conditions=noted)).status
    assert over is not None
    assert [c["reason"] for c in over["conditions"]] == ["DeadlineExceeded"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"created": at(0)}, at(0)),
        ({"created": at(0), "suspend_written": at(5)}, at(5)),
        ({"created": at(0), "suspend": True, "suspend_written": at(0)}, None),
    ],
)
def test_a_jobset_starts_when_it_is_let_run_though_its_controller_has_noted_nothing(
    fields: dict[str, Any], expected: datetime | None
) -> None:
    assert queueing.started_at(jobset(**fields)) == expected


def test_the_time_of_a_resumption_is_that_of_the_manager_of_suspend() -> None:
    def entry(manager: str, second: float, *fields: str) -> Json:
        spec = {f"f:{name}": {} for name in fields}
        return {"manager": manager, "time": stamp(second), "fieldsV1": {"f:spec": spec} if spec else {}}

    managed = [entry("trainyard", 0, "replicatedJobs"), entry("kueue", 5, "suspend"), entry("jobset", 9)]
    manifest = objects.jobset()
    manifest["metadata"] |= {"uid": "u", "resourceVersion": "1", "managedFields": managed}
    assert jobset_of(msgspec.json.encode(manifest)).jobset.suspend_written == at(5)


# --- the word ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "suspend", "state"),
    [
        ({}, True, "Queued"),
        ({"conditions": [SUSPENDED]}, True, "Suspended"),
        ({"jobsStatus": [{"name": "node", "active": 1, "ready": 1}]}, False, "Running"),
    ],
)
def test_a_job_is_queued_while_its_jobset_waits(status: Json, suspend: bool, state: str) -> None:
    assert display_state.of(queued(), status, jobset(queue="default", suspend=suspend)) == state


def test_a_refused_write_to_the_workload_blocks() -> None:
    seen: Observed = observed(queued({"suspend": True}), stored(queued()), RECORDED)
    refused = replace(seen, rejection=Rejection(Reason.FORBIDDEN, "Workload of JobSet tj: no"))
    told = reconcile(refused, at(10), JOBSETS)
    assert (told.writes, told.requeue_after) == ((), RETRY_SECONDS)
    assert told.status is not None
    assert [c["type"] for c in told.status["conditions"]] == ["Blocked", "Suspended"]


@pytest.mark.parametrize(
    ("live", "written", "kept"),
    [
        ({QUEUE: "default", "else": "x"}, {}, {QUEUE: "default"}),
        ({QUEUE: "default"}, {QUEUE: "other"}, {QUEUE: "other"}),
        ({GATES: GATE}, {}, {}),
        ({PRIORITY: "low"}, {}, {PRIORITY: "low"}),
        ({LIMIT: "60"}, {}, {}),
        ({LIMIT: "60"}, {LIMIT: "90"}, {LIMIT: "90"}),
        ({PARAMETER: "60"}, {}, {}),
    ],
)
def test_what_kueue_has_added_or_refuses_to_lose_stays_and_what_the_trainjob_has_lost_does_not(
    live: dict[str, str], written: dict[str, str], kept: dict[str, str]
) -> None:
    assert queueing.kept(live, written) == kept
