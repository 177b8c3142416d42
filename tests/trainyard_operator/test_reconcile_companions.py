"""The children beside the JobSet: created before it, each once; guarded; updated while suspended."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.core_values import at, jobset, observed, replicated_job, runtime, trainjob
from trainyard_api.reasons import Reason
from trainyard_operator.core.build import framework, plugins
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide import reconcile
from trainyard_operator.core.decide.views import companion_of, packed
from trainyard_operator.core.model import (
    Companion,
    Condition,
    Create,
    Delete,
    EventNote,
    Generated,
    Needs,
    Plan,
    PodEnd,
    RecordRevision,
    Rejection,
    RuntimeProblem,
    Suspend,
    Update,
)
from trainyard_operator.core.packed import Packed
from trainyard_operator.core.status import attempts

GPU_JOBS = [
    replicated_job("node", None, [{"name": "node", "image": "i", "resources": {"requests": {"cpu": "1"}}}]),
    replicated_job("launcher", "trainer"),
]
RT = runtime({"mpi": {"runLauncherAsNode": True}}, GPU_JOBS)
RT = replace(RT, spec={**RT.spec, "podGroupPolicy": {"coscheduling": {}}})
BESIDE = [("v1", "Secret", "tj-mpi-ssh-auth"), ("v1", "ConfigMap", "tj-mpi-hostfile")]
BESIDE.append(("scheduling.x-k8s.io/v1alpha1", "PodGroup", "tj"))


ENDED = jobset(
    conditions=(Condition("Completed", "True", "AllJobsCompleted", "done", "2026-01-01T12:00:00Z"),)
)
OVERDUE = trainjob({"activeDeadlineSeconds": 1})
ENDS: dict[str, Any] = {
    "job": "launcher",
    "index": 0,
    "pod": "p",
    "node": "n1",
    "container": "node",
    "exit_code": 1,
}
FAILED_ALIKE = {
    "js": jobset(restarts=2),
    "attempts": attempts.with_ends(
        (), [PodEnd(attempt=n, reason="Error", at=at(n), message="no", **ENDS) for n in (0, 1)]
    ),
}


def decide(now=1, settings=None, **fields):
    return reconcile.reconcile(observed(**{"rt": RT, **fields}), at(now), settings or Settings(), plugins.ALL)


def identity(manifest):
    return manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]


@dataclass
class World:
    """An API server with one TrainJob, as far as plans reach; counts what is written to each child."""

    spec: dict
    status: dict = field(default_factory=dict)
    jobset: object = None
    companions: dict = field(default_factory=dict)
    created: list = field(default_factory=list)
    updated: list = field(default_factory=list)

    def round(self, now, steps=99):
        """One reconciliation of which only the first `steps` writes happen before a crash."""
        plan = decide(
            now,
            job=trainjob(self.spec, self.status),
            js=self.jobset,
            companions=tuple(self.companions.values()),
        )
        for write in plan.writes[:steps]:
            self.carry_out(write)
        if plan.status is not None and len(plan.writes) < steps:
            self.status = {**self.status, **plan.status}
        return plan

    def carry_out(self, write):
        if isinstance(write, RecordRevision):
            return
        key = identity(write.manifest)
        metadata = write.manifest["metadata"]
        if isinstance(write, Create):
            assert key not in self.companions
            self.created.append(key)
        else:
            self.updated.append(key)
        if key[1] == "JobSet":
            suspend = write.manifest["spec"]["suspend"]
            self.jobset = jobset(suspend=suspend, annotations=metadata["annotations"])
            return
        self.companions[key] = Companion(
            api_version=key[0],
            kind=key[1],
            namespace=metadata["namespace"],
            name=key[2],
            uid=f"uid-{key[2]}",
            resource_version=str(len(self.created) + len(self.updated)),
            owner_uid=metadata["ownerReferences"][0]["uid"],
            annotations=metadata["annotations"],
        )


JOBSET = ("jobset.x-k8s.io/v1alpha2", "JobSet", "tj")


def test_they_are_created_before_the_jobset_and_the_key_is_drawn_then():
    writes = decide().writes
    assert [type(write) for write in writes] == [RecordRevision, Create, Create, Create, Create]
    assert [identity(write.manifest) for write in writes[1:]] == [*BESIDE, JOBSET]
    assert [write.generated for write in writes[1:]] == [Generated.SSH_KEY, None, None, None]


RUNNING = jobset()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, BESIDE, id="before the JobSet is there"),
        pytest.param({"js": jobset(suspend=True)}, BESIDE, id="while it is suspended"),
        pytest.param({"js": RUNNING, "job": trainjob({"suspend": True})}, BESIDE, id="while it is to be"),
        pytest.param({"js": RUNNING}, [], id="not while it runs"),
        pytest.param({"js": ENDED}, BESIDE[-1:], id="its PodGroup when it ends"),
        pytest.param({"js": RUNNING, "job": OVERDUE}, BESIDE[-1:], id="and when its deadline passes"),
        pytest.param(FAILED_ALIKE, BESIDE[-1:], id="and when the same failure came twice"),
        pytest.param(
            {"js": ENDED, "rt": runtime({"mpi": {}}, GPU_JOBS)}, [], id="nothing when one without a gang ends"
        ),
        pytest.param({"rt": runtime({"torch": {}})}, [], id="not for a runtime without any"),
        pytest.param({"rt": runtime({"flux": {}})}, [], id="not for a runtime that is not supported"),
        pytest.param({"rt": RuntimeProblem.NOT_FOUND}, [], id="not without a runtime"),
        pytest.param({"job": trainjob(deleting=True)}, [], id="not at the end"),
        pytest.param(
            {"job": trainjob(status={"conditions": [{"type": "Failed", "status": "True"}]})},
            [],
            id="not after the end",
        ),
    ],
)
def test_the_shell_is_told_which_to_look_up(fields, expected):
    needs = decide(companions=None, **fields).needs
    assert needs == (Needs(companions=tuple(expected)) if expected else None)


def test_for_most_jobs_that_end_the_question_costs_no_building(monkeypatch):
    monkeypatch.delattr(framework.Framework, "children")
    plan = decide(js=ENDED, rt=runtime({"torch": {}}), companions=None)
    assert (plan.needs, plan.writes, [c["type"] for c in plan.status["conditions"]]) == (
        None,
        (),
        ["Complete"],
    )


def test_of_the_runtime_of_a_job_that_runs_no_more_is_read_than_whether_it_has_a_gang():
    rt = packed(runtime({"mpi": {}}, GPU_JOBS))
    assert isinstance(rt.spec, Packed)
    rt.spec.drop()  # whoever reads more of it gets a KeyError
    plan = decide(js=jobset(suspend=False), rt=rt, companions=None)
    assert (plan.needs, plan.writes) == (None, ())


@pytest.mark.parametrize("fields", [{}, {"js": RUNNING}, {"js": jobset(suspend=True)}, {"js": ENDED}])
def test_what_has_been_looked_up_is_not_asked_for_again(fields):
    assert decide(companions=(), **fields).needs is None


@pytest.mark.parametrize("fields", [{}, {"js": ENDED}])
@pytest.mark.parametrize("policy", ["mpi", [1], {1: 2}])
def test_a_policy_that_cannot_be_read_asks_for_none(policy, fields):
    rt = replace(RT, spec={**RT.spec, "mlPolicy": policy})
    assert decide(rt=rt, companions=None, **fields).needs is None


def test_they_carry_the_label_that_they_are_found_by_and_a_digest():
    hosts = decide().writes[2].manifest
    assert hosts["metadata"]["labels"] == {"trainyard.dev/trainjob-uid": "job-uid"}
    assert set(hosts["metadata"]["annotations"]) == {"trainyard.dev/rendered"}


@pytest.mark.parametrize("crashes", list(itertools.product(range(6), repeat=3)))
def test_each_is_created_once_wherever_the_operator_crashes(crashes):
    world = World({})
    for steps in crashes:
        world.round(1, steps)
    world.round(2)
    assert (sorted(world.created), world.updated) == (sorted([*BESIDE, JOBSET]), [])
    assert world.round(3) == Plan(requeue_after=30.0)


def running():
    world = World({})
    world.round(1)
    return world


def suspended():
    world = World({"suspend": True})
    world.round(1)
    world.round(2)
    return world


def test_nothing_is_written_while_all_is_as_it_should_be():
    assert (running().round(3), suspended().round(3)) == (Plan(requeue_after=30.0), Plan())


def test_while_the_jobset_runs_they_are_left_alone():
    world = running()
    world.companions.clear()
    assert world.round(3) == Plan(requeue_after=30.0)


def patch(cpu):
    container = {"name": "node", "resources": {"requests": {"cpu": cpu}}}
    pod = {"spec": {"template": {"spec": {"containers": [container]}}}}
    jobs = [{"name": "node", "template": pod}]
    return [{"manager": "a.io/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}]


def test_while_suspended_what_has_changed_is_updated_before_the_jobset_and_the_key_never():
    world = suspended()
    world.spec = {"suspend": False, "runtimePatches": patch("2")}
    group = world.companions[BESIDE[2]]
    writes = world.round(3).writes
    assert [(type(write), identity(write.manifest)) for write in writes[1:]] == [
        (Update, BESIDE[2]),
        (Update, JOBSET),
    ]
    assert (writes[1].uid, writes[1].resource_version) == (group.uid, group.resource_version)
    assert writes[1].manifest["spec"]["minResources"] == {"cpu": "2"}
    assert world.round(4).writes == ()


def test_while_suspended_one_that_was_deleted_comes_back():
    world = suspended()
    del world.companions[BESIDE[0]]
    writes = world.round(3).writes
    assert [(type(write), identity(write.manifest)) for write in writes[1:]] == [(Create, BESIDE[0])]
    assert world.round(4) == Plan()


def test_a_foreign_one_blocks_and_nothing_is_written():
    foreign = Companion("v1", "Secret", "team", "tj-mpi-ssh-auth", "u", "1", owner_uid="somebody")
    plan = decide(companions=(foreign,))
    assert plan.writes == ()
    (condition,) = plan.status["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "JobSetConflict",
        'Secret "tj-mpi-ssh-auth" exists and belongs to another owner; '
        "delete that object, or create the TrainJob again under another name",
    )


LEAVING = Companion("v1", "Secret", "team", "tj-mpi-ssh-auth", "u", "1", "job-uid", deleted=at(0))


def test_since_when_one_is_being_deleted_and_what_keeps_it_is_read_of_its_metadata():
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "tj",
        "uid": "job-uid",
    }
    metadata = {
        "namespace": "team",
        "name": "tj-mpi-ssh-auth",
        "uid": "u",
        "resourceVersion": "1",
        "ownerReferences": [{**owner, "controller": True}],
        "deletionTimestamp": "2026-01-01T12:00:00Z",
        "finalizers": ["example.com/a"],
    }
    expected = replace(LEAVING, of_trainjob="tj", finalizers=("example.com/a",))
    assert companion_of(LEAVING.identity, {"metadata": metadata}) == expected


@pytest.mark.parametrize("now", [1, 60])
def test_one_that_is_being_deleted_is_waited_for(now):
    assert decide(now, companions=(LEAVING,)) == Plan(requeue_after=reconcile.COLLECT_SECONDS)


@pytest.mark.parametrize(
    ("finalizers", "listed"),
    [(("example.com/a", "example.com/b"), "example.com/a, example.com/b"), ((), "none")],
)
def test_one_that_stays_although_it_is_being_deleted_blocks_and_is_looked_at_less_often(finalizers, listed):
    message = (
        'Secret "tj-mpi-ssh-auth" is being deleted since 2026-01-01T12:00:00Z, but still exists. Its '
        f"finalizers: {listed}; have the owners of the finalizers remove them, or create the TrainJob again "
        "under another name"
    )
    blocked = {
        "type": "Blocked",
        "status": "True",
        "reason": "JobSetConflict",
        "message": message,
        "lastTransitionTime": "2026-01-01T12:01:01Z",
    }
    assert decide(61, companions=(replace(LEAVING, finalizers=finalizers),)) == Plan(
        status={"conditions": [blocked]},
        events=(EventNote("Warning", "JobSetConflict", message),),
        requeue_after=reconcile.RETRY_SECONDS,
    )


@pytest.mark.parametrize(
    ("companion", "wait"),
    [
        pytest.param(LEAVING, reconcile.COLLECT_SECONDS, id="that is being deleted"),
        pytest.param(
            replace(LEAVING, deleted=None, owner_uid="x"), reconcile.RETRY_SECONDS, id="of another owner"
        ),
    ],
)
def test_one_that_is_in_the_way_does_not_keep_a_running_job_from_being_suspended(companion, wait):
    plan = decide(job=trainjob({"suspend": True}), js=RUNNING, companions=(companion,))
    suspension = Suspend("team", "tj", "js-uid", "9", {"trainyard.dev/ran-as": "unknown"})
    assert (plan.writes, plan.requeue_after) == ((suspension,), wait)


def test_the_ca_of_the_status_server_reaches_a_suspended_job():
    settings = Settings(feature_gates=frozenset({"TrainJobStatus"}), status_server_ca="new")
    created = decide(
        settings=replace(settings, status_server_ca="old"), job=trainjob({"suspend": True})
    ).writes
    seen = [
        Companion(kind[0], kind[1], "team", kind[2], "u", "1", "job-uid", annotations=annotations)
        for w in created[1:-1]
        for kind, annotations in [(identity(w.manifest), w.manifest["metadata"]["annotations"])]
    ]
    js = jobset(suspend=True, annotations=created[-1].manifest["metadata"]["annotations"])
    writes = decide(settings=settings, job=trainjob({"suspend": True}), js=js, companions=seen).writes
    assert [(type(w), w.manifest["data"]) for w in writes[1:]] == [(Update, {"ca.crt": "new"})]


@pytest.mark.parametrize("at_first", [frozenset(), frozenset({"TrainJobStatus"})])
def test_a_gate_that_is_turned_on_or_off_changes_no_jobset_that_is_there(at_first):
    """Its pods are immutable: what is suspended meanwhile would be refused, and stay blocked."""
    waits = trainjob({"suspend": True})
    created = decide(settings=Settings(feature_gates=at_first), job=waits, rt=runtime({})).writes[-1]
    noted = created.manifest["metadata"]["annotations"]
    assert noted.get("trainyard.dev/feature-gates") == (",".join(at_first) or None)
    now = Settings(feature_gates=frozenset({"TrainJobStatus"}) - at_first)
    js = jobset(suspend=True, annotations=noted)
    resumed = decide(settings=now, job=trainjob({"suspend": False}), js=js, rt=runtime({})).writes[-1]
    assert resumed.manifest["spec"] == {**created.manifest["spec"], "suspend": False}


@pytest.mark.parametrize("built_as", [1, 2, 3])
def test_a_jobset_that_is_there_stays_as_it_was_built(built_as):
    given = {"trainer": {"resourcesPerNode": {"limits": {"memory": "1Gi"}}}}
    node = {"name": "node", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    rt = runtime({"torch": {}}, [replicated_job(containers=[node])])
    waits = trainjob({**given, "suspend": True})
    created = decide(settings=Settings(built_as=built_as), job=waits, rt=rt).writes[-1]
    js = jobset(suspend=True, annotations=created.manifest["metadata"]["annotations"])
    resumed = decide(job=trainjob({**given, "suspend": False}), js=js, rt=rt).writes[-1]
    assert resumed.manifest["spec"] == {**created.manifest["spec"], "suspend": False}
    assert ("auto" in str(resumed.manifest), "auto" in str(decide(job=waits, rt=rt))) == (built_as == 3, True)


def test_no_job_reports_unless_the_gate_is_on():
    writes = reconcile.reconcile(observed(rt=runtime({"torch": {}})), at(1)).writes
    assert [identity(write.manifest) for write in writes[1:]] == [JOBSET]
    assert "KUBEFLOW_TRAINER_SERVER_URL" not in str(writes)


@pytest.mark.parametrize(
    ("owner_uid", "of_trainjob", "waits"),
    [
        pytest.param("earlier", "tj", True, id="of the TrainJob of this name before"),
        pytest.param("another", "other", False, id="of another TrainJob"),
        pytest.param("another", None, False, id="of something else"),
        pytest.param(None, None, False, id="of nobody"),
    ],
)
def test_what_was_left_by_a_trainjob_of_this_name_is_waited_for(owner_uid, of_trainjob, waits):
    found = Companion("v1", "Secret", "team", "tj-mpi-ssh-auth", "u", "1", owner_uid, of_trainjob)
    plan = decide(companions=(found,))
    assert plan.writes == ()
    if waits:
        assert plan == Plan(requeue_after=reconcile.COLLECT_SECONDS)
    else:
        assert plan.status["conditions"][0]["reason"] == "JobSetConflict"


@pytest.mark.parametrize(
    ("resource", "step"),
    [
        ("jobsets.jobset.x-k8s.io", "install JobSet, or"),
        ("podgroups.scheduling.volcano.sh", "install Volcano, or"),
        ("podgroups.scheduling.x-k8s.io", "install the coscheduling plugin of scheduler-plugins, or"),
        ("others.example.com", "install the component that serves it, or"),
    ],
)
def test_a_missing_crd_blocks_and_the_message_says_what_to_install(resource, step):
    plan = decide(
        rejection=Rejection(Reason.CRD_MISSING, "the API server does not know it", resource=resource)
    )
    (condition,) = plan.status["conditions"]
    assert (plan.writes, condition["reason"]) == ((), "CRDMissing")
    assert condition["message"] == f"the API server does not know it; {step} have the platform team do so"


GROUP = Companion("scheduling.x-k8s.io/v1alpha1", "PodGroup", "team", "tj", "group-uid", "1", "job-uid")
DELETED = Delete("scheduling.x-k8s.io/v1alpha1", "PodGroup", "team", "tj", "group-uid")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"js": ENDED}, "AllJobsCompleted"),
        ({"js": RUNNING, "job": OVERDUE}, "DeadlineExceeded"),
        (FAILED_ALIKE, "SameFailureTwice"),
    ],
    ids=["as its JobSet has ended", "by its deadline", "as the same failure came twice"],
)
def test_the_podgroup_of_a_trainjob_that_ends_is_deleted_before_its_status_says_so(fields, reason):
    plan = decide(companions=(GROUP,), **fields)
    assert (plan.writes, [c["reason"] for c in plan.status["conditions"]]) == ((DELETED,), [reason])


@pytest.mark.parametrize(
    "group",
    [replace(GROUP, owner_uid="other"), replace(GROUP, deleted=at(0)), replace(GROUP, kind="Secret")],
    ids=["somebody else's", "one that is going", "a key"],
)
def test_nothing_else_is_deleted_with_it(group):
    assert decide(js=ENDED, companions=(group,)).writes == ()


def test_a_trainjob_that_has_ended_costs_no_look_and_no_write():
    status = {"conditions": [{"type": "Complete", "status": "True"}]}
    job = trainjob(status=status)
    assert decide(job=job, js=ENDED, companions=None) == decide(job=job, js=ENDED)
    assert decide(job=job, js=ENDED, companions=(GROUP,)).writes == ()
