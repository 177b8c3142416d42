"""A job that comes back elsewhere carries nothing of where it was, in whatever order things happen."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.core_values import PLAIN, at, counts, jobset, observed, trainjob
from trainyard_api.reasons import Reason
from trainyard_operator.core.decide.reconcile import reconcile
from trainyard_operator.core.model import Delete, Job, JobSet, Needs, Rejection, Update

RECORDED = replace(PLAIN, revision="runtime-recorded")
STAMP = "trainyard.dev/placement"
CRASHES = list(itertools.product((0, 1, 99), repeat=4))
"""After how many writes the operator dies, in four rounds; 99: it lives."""


def on(*labels, suspend=False):
    """The spec of a TrainJob that its queue has put on nodes with these labels."""
    pod = {"nodeSelector": dict.fromkeys(labels, "yes")}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    patch: dict[str, Any] = {"manager": "kueue.x-k8s.io/manager"}
    patch["trainingRuntimeSpec"] = {"template": {"spec": {"replicatedJobs": [job] if labels else []}}}
    return {"suspend": suspend, "runtimePatches": [patch]}


@dataclass
class World:
    """A TrainJob that runs, the JobSet that the operator keeps, and the Jobs that JobSet's controller makes.

    The controller acts on the JobSet as it was when it last looked, `seen`, as the real one may.
    """

    spec: dict
    jobset: JobSet | None = None
    template: dict = field(default_factory=dict)
    seen: tuple = ()
    job: dict | None = None
    version: int = 0
    made: int = 0
    writes: list = field(default_factory=list)

    def __post_init__(self):
        self.settle()

    def operator(self, steps=99):
        """One reconciliation of which only the first `steps` writes happen before a crash."""
        there = observed(trainjob(self.spec), self.jobset, RECORDED)
        plan = reconcile(there, at(1))
        if plan.needs == Needs(jobs=True):
            self.writes.append("look")
            plan = reconcile(replace(there, jobs=self.jobs()), at(1))
        for write in plan.writes[:steps]:
            self.writes.append(type(write).__name__)
            self.carry_out(write)
        return plan

    def carry_out(self, write):
        if isinstance(write, Delete):
            if self.job is not None and (write.uid, write.resource_version) == self.identity():
                self.job = None
            return
        if isinstance(write, Update):
            if write.resource_version != self.jobset.resource_version:
                return
            if "replicatedJobs" in write.manifest["spec"] and not self.jobset.suspend:
                assert write.manifest["spec"]["suspend"], "JobSet refuses a change of pods that run"
        self.version += 1
        before = () if self.jobset is None else self.jobset.replicated_jobs_status
        self.jobset = jobset(
            resource_version=str(self.version),
            suspend=write.manifest["spec"]["suspend"],
            annotations=write.manifest["metadata"]["annotations"],
            replicated_jobs_status=before,
        )
        (job,) = write.manifest["spec"]["replicatedJobs"]
        self.template = job["template"]["spec"]["template"]

    def identity(self):
        return self.job["uid"], str(self.job["version"])

    def jobs(self):
        if self.job is None:
            return ()
        uid, version = self.identity()
        annotations = self.job["annotations"]
        view = Job("team", "tj-node-0", uid, version, self.job["suspended"], self.job["active"], False)
        return (replace(view, placement=annotations.get(STAMP)),)

    def looks(self):
        """JobSet's controller takes in the JobSet as it is now."""
        self.seen = (self.version, self.jobset.suspend, self.template)

    def controller(self):
        """JobSet's controller acts: it makes, suspends or resumes the Job, then says what it found."""
        version, suspend, template = self.seen
        found = counts(
            suspended=int(self.job is not None and self.job["suspended"]),
            active=0 if self.job is None else self.job["active"],
        )
        wanted = dict(template["spec"].get("nodeSelector", {}))
        annotations = dict(template["metadata"].get("annotations", {}))
        if self.job is None:
            self.made += 1
            self.job = {"uid": f"job-{self.made}", "version": 0, "node": wanted, "annotations": annotations}
            self.job |= {"suspended": suspend, "active": int(not suspend)}
        elif suspend and not self.job["suspended"]:
            self.job |= {"suspended": True, "active": 0, "version": self.job["version"] + 1}
        elif not suspend and self.job["suspended"]:
            self.job |= {"suspended": False, "active": 1, "version": self.job["version"] + 1}
            self.job["node"] = self.job["node"] | wanted
            self.job["annotations"] = self.job["annotations"] | annotations
        if version == self.version:  # else its status is refused: it is of an older JobSet
            self.jobset = replace(self.jobset, replicated_jobs_status=(found,))

    def settle(self):
        before = None
        for _ in range(50):
            if before == (before := repr((self.jobset, self.job))):
                return
            self.operator()
            self.looks()
            self.controller()
        raise AssertionError("it never comes to rest")

    def moves(self, *specs):
        """What the queue does to the TrainJob, one step after another, each with its consequences."""
        for spec in specs:
            assert self.takes(spec)
            self.settle()

    def takes(self, spec):
        """Whether admission lets the TrainJob become this: placement does not change while pods run."""
        active = any(found.active for found in self.jobset.replicated_jobs_status)
        if active and spec["runtimePatches"] != self.spec["runtimePatches"]:
            return False
        self.spec = spec
        return True


def evicted(flavor):
    return on(flavor, suspend=True), on(suspend=True)


def admitted(flavor):
    return on(flavor, suspend=True), on(flavor)


def test_a_job_that_moves_to_another_flavor_carries_nothing_of_the_first():
    world = World(on("a"))
    world.moves(*evicted("a"), *admitted("b"))
    assert (world.job["node"], world.job["active"]) == ({"b": "yes"}, 1)
    assert (world.job["uid"], world.jobset.uid) == ("job-2", "js-uid")
    world.moves(*evicted("b"), *admitted("c"))
    assert (world.job["node"], world.job["uid"]) == ({"c": "yes"}, "job-3")


def test_a_job_that_comes_back_to_its_flavor_keeps_its_jobs_and_nobody_looks_at_them():
    world = World(on("a"))
    world.writes.clear()
    world.moves(*evicted("a"), *admitted("a"))
    assert (world.job["node"], world.job["active"], world.made) == ({"a": "yes"}, 1, 1)
    assert world.writes == ["Update"] * 4


def test_a_job_that_is_admitted_for_the_first_time_keeps_its_jobs_and_nobody_looks_at_them():
    world = World(on(suspend=True))
    world.moves(*admitted("a"))
    assert (world.job["node"], world.job["active"], world.made) == ({"a": "yes"}, 1, 1)
    assert world.writes == ["Create", "Update", "Update"]
    assert STAMP not in world.job["annotations"]


def test_pods_of_a_job_that_was_never_suspended_have_no_stamp():
    assert World(on("a")).job["annotations"] == {}


def test_a_job_that_moves_costs_a_look_at_its_jobs_before_and_after_and_one_write_more():
    world = World(on("a"))
    world.moves(*evicted("a"), on("b", suspend=True))
    world.writes.clear()
    world.moves(on("b"))
    assert world.writes == ["look", "Delete", "look", "Update"]


@pytest.mark.parametrize("crashes", CRASHES)
def test_it_carries_nothing_of_the_first_wherever_the_operator_is_killed(crashes):
    world = World(on("a"))
    for spec in (*evicted("a"), *admitted("b")):
        if not world.takes(spec):
            world.settle()
            assert world.takes(spec)
        for steps in crashes:
            world.operator(steps)
            world.looks()
            world.controller()
    world.settle()
    assert (world.job["node"], world.job["active"]) == ({"b": "yes"}, 1)


def waiting():
    """A job that was evicted from a and that its queue puts on b: what the operator has yet to act on."""
    world = World(on("a"))
    world.moves(*evicted("a"))
    assert world.takes(on("b"))
    return world


def test_jobs_go_once_jobsets_controller_has_counted_them_as_suspended():
    world = waiting()
    world.jobset = replace(world.jobset, replicated_jobs_status=(counts(active=1),))
    for _ in range(5):
        world.operator()
    assert (world.job["uid"], world.jobset.suspend) == ("job-1", True)
    world.settle()
    assert world.job["node"] == {"b": "yes"}


def test_it_is_resumed_once_jobsets_controller_has_seen_that_the_old_jobs_are_gone():
    world = waiting()
    for _ in range(5):
        world.operator()
    assert (world.job, world.jobset.suspend) == (None, True)
    world.controller()  # from what it remembers of a JobSet that was still on a
    assert world.job["annotations"][STAMP] != world.template["metadata"]["annotations"][STAMP]
    world.operator()
    assert (world.job, world.jobset.suspend) == (None, True)
    world.settle()
    assert (world.job["node"], world.job["active"]) == ({"b": "yes"}, 1)


STEPS = st.sampled_from([World.operator, World.looks, World.controller, "next"])


@given(st.lists(STEPS, max_size=40))
def test_it_carries_nothing_of_the_first_in_whatever_order_things_happen(steps):
    world = World(on("a"))
    coming = [*evicted("a"), *admitted("b"), *evicted("b"), *admitted("c")]
    for step in steps:
        if step != "next":
            step(world)
        elif coming and world.takes(coming[0]):
            coming.pop(0)
    world.settle()
    world.moves(*coming)
    assert (world.job["node"], world.job["active"]) == ({"c": "yes"}, 1)


def test_jobs_that_may_not_be_listed_block_the_job_and_it_is_not_resumed():
    world = World(on("a"))
    world.moves(*evicted("a"), on("b", suspend=True))
    there = observed(
        trainjob(on("b")), world.jobset, RECORDED, rejection=Rejection(Reason.FORBIDDEN, "no list")
    )
    plan = reconcile(there, at(1))
    assert plan.writes == ()
    assert [(c["type"], c["reason"]) for c in plan.status["conditions"]] == [("Blocked", "Forbidden")]


@pytest.mark.parametrize(
    ("found", "goes"),
    [
        pytest.param({}, True, id="suspended and without pods"),
        pytest.param({"active": 1}, False, id="its pods are not gone yet"),
        pytest.param({"suspended": False}, False, id="not suspended yet"),
        pytest.param({"deleting": True}, False, id="on its way out"),
    ],
)
def test_a_job_goes_when_it_is_suspended_and_its_pods_are_gone(found, goes):
    world = World(on("a"))
    world.moves(*evicted("a"), on("b", suspend=True))
    (job,) = world.jobs()
    there = observed(trainjob(on("b")), world.jobset, RECORDED, jobs=(replace(job, **found),))
    plan = reconcile(there, at(1))
    expected = (Delete("batch/v1", "Job", "team", "tj-node-0", job.uid, job.resource_version),)
    assert plan.writes == (expected if goes else ())
    assert (plan.requeue_after is None) is goes


def test_a_job_that_has_ended_stays():
    world = World(on("a"))
    world.moves(*evicted("a"), on("b", suspend=True))
    (job,) = world.jobs()
    initializer = replace(job, name="tj-initializer-0", suspended=False, finished=True)
    renewed = replace(world.jobset, replicated_jobs_status=())
    (write,) = reconcile(observed(trainjob(on("b")), renewed, RECORDED, jobs=(initializer,)), at(1)).writes
    assert isinstance(write, Update)
    assert write.manifest["spec"]["suspend"] is False
