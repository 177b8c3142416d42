"""Crashes and hostile runtimes: what holds whatever happens between two writes, and whatever is stored."""

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.core_values import at, counts, jobset, observed, replicated_job, runtime, stamp, trainjob
from tests.support.junk import JOB, JUNK, places, spoiled
from trainyard_operator.core.decide.reconcile import reconcile
from trainyard_operator.core.model import Condition, Create, Delete, JobSet, Plan, RecordRevision, Update

CRASHES = list(itertools.product((0, 1, 2, 99), repeat=3))
"""After how many writes the operator dies, in three rounds; 99: it lives."""

COMPLETED = Condition("Completed", "True", "AllJobsCompleted", "jobset completed successfully", stamp(50))


@dataclass
class World:
    """An API server with one TrainJob, as far as plans reach; counts what is written."""

    spec: dict
    status: dict = field(default_factory=dict)
    jobset: JobSet | None = None
    created: int = 0
    deleted: int = 0
    updated: int = 0
    statuses: int = 0

    def round(self, now, steps=99):
        """One reconciliation of which only the first `steps` writes happen before a crash."""
        plan = reconcile(observed(trainjob(self.spec, self.status), self.jobset), at(now))
        operations = [*plan.writes, *([plan.status] if plan.status is not None else [])]
        for operation in operations[:steps]:
            self.carry_out(operation)
        return plan

    def carry_out(self, operation):
        match operation:
            case Create(manifest):
                assert self.jobset is None
                self.created += 1
                self.jobset = self.view(manifest, f"js-{self.created}")
            case Update(manifest, uid, _):
                assert uid == self.jobset.uid
                self.updated += 1
                old = self.jobset
                self.jobset = replace(
                    self.view(manifest, uid), replicated_jobs_status=old.replicated_jobs_status
                )
            case Delete(uid=uid):
                assert uid == self.jobset.uid
                self.deleted += 1
                self.jobset = None
            case RecordRevision():
                pass
            case _:
                self.statuses += 1
                self.status = {**self.status, **operation}

    def view(self, manifest, uid):
        own = {k: v for k, v in manifest["metadata"]["annotations"].items() if k.startswith("trainyard.dev/")}
        return jobset(uid=uid, suspend=manifest["spec"]["suspend"], annotations=own)

    def happens(self, **fields):
        self.jobset = replace(self.jobset, **fields)


def settle(world, now):
    for _ in range(5):
        if world.round(now).requeue_after is None:
            break


@pytest.mark.parametrize("crashes", CRASHES)
def test_a_deadline_ends_with_one_jobset_created_and_deleted_wherever_the_operator_crashes(crashes):
    world = World({"activeDeadlineSeconds": 10})
    for steps in crashes:
        world.round(1, steps)
    settle(world, 1)
    for steps in crashes:
        world.round(20, steps)
    settle(world, 20)
    settle(world, 21)
    assert (world.created, world.deleted, world.jobset) == (1, 1, None)
    assert [c["reason"] for c in world.status["conditions"]] == ["DeadlineExceeded"]


@pytest.mark.parametrize("crashes", CRASHES)
def test_suspend_and_resume_end_the_same_wherever_the_operator_crashes(crashes):
    world = World({"suspend": True})
    for steps in crashes:
        world.round(1, steps)
    settle(world, 2)
    world.spec = {"suspend": False}
    for steps in crashes:
        world.round(3, steps)
    settle(world, 4)
    assert (world.created, world.updated, world.deleted) == (1, 1, 0)
    assert world.jobset.suspend is False
    assert [(c["type"], c["status"]) for c in world.status["conditions"]] == [("Suspended", "False")]


def test_a_job_costs_two_writes_to_its_first_status_and_at_most_four_more():
    world = World({})
    settle(world, 1)
    world.happens(replicated_jobs_status=(counts(active=1),))
    settle(world, 2)
    assert world.created + world.statuses == 2
    for now, state in ((3, counts(active=1, ready=1)), (4, counts(succeeded=1))):
        world.happens(replicated_jobs_status=(state,))
        settle(world, now)
    world.happens(conditions=(COMPLETED,))
    settle(world, 5)
    assert world.created + world.updated + world.deleted + world.statuses <= 6
    assert world.round(6) == Plan()


def test_a_finished_job_whose_jobset_was_cleaned_up_is_not_run_again():
    world = World({})
    settle(world, 1)
    world.happens(conditions=(COMPLETED,))
    settle(world, 2)
    world.jobset = None
    settle(world, 3)
    assert world.created == 1


RICH = runtime(
    {
        "numNodes": 2,
        "torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["side"]}]}},
    },
    [
        replicated_job(
            containers=[
                {"name": "side", "image": "s"},
                {
                    "name": "node",
                    "image": "i",
                    "command": ["run"],
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"resourceFieldRef": {}}},
                    ],
                    "envFrom": [{"secretRef": {"name": "s"}}],
                    "ports": [{"containerPort": 1}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    "resources": {"limits": {"cpu": "1"}, "requests": {"nvidia.com/gpu": 1}},
                },
            ],
            parallelism=3,
        )
    ],
    metadata={"labels": {"a": "b"}},
)


@given(place=st.sampled_from(list(places(RICH.spec))[1:]), junk=JUNK, suspend=st.booleans())
def test_whatever_a_runtime_holds_a_plan_comes_back(place, junk, suspend):
    rt = replace(RICH, spec=spoiled(RICH.spec, place, junk))
    plan = reconcile(observed(trainjob({**JOB, "suspend": suspend}), rt=rt), at(1))
    assert len(plan.writes) == 2 or plan.status["conditions"][0]["type"] == "Blocked"


@given(place=st.sampled_from(list(places(JOB))[1:]), junk=JUNK)
def test_whatever_a_trainjob_holds_a_plan_comes_back(place, junk):
    plan = reconcile(observed(trainjob(spoiled(JOB, place, junk)), rt=RICH), at(1))
    assert len(plan.writes) == 2 or plan.status["conditions"][-1]["type"] in ("Blocked", "Failed")


def test_a_huge_number_of_nodes_costs_no_more_than_one():
    plan = reconcile(observed(trainjob({"trainer": {"numNodes": 2**31 - 1}}), rt=RICH), at(1))
    assert (
        plan.writes[1].manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 2**31 - 1
    )
