"""What a change of a stack does to TrainJobs: which objects differ, and what each job keeps and loses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from trainyard_delivery import impact
from trainyard_delivery.impact import Change, Field, Job, Ref, State, Touched, Verb
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.stack import settings

POOL: dict[str, Any] = {
    "provider": "kwok",
    "nodes": 2,
    "machine": {"cpu": "96", "memory": "1Ti"},
    "accelerator": {"type": "nvidia-h100", "count": 8},
    "quota": [{"clusterQueue": "team-a"}],
}
CPU = {"flavors": [{"name": "cpu", "resources": {"cpu": {"nominal": "4"}}}]}
STACK: dict[str, Any] = {
    "operator": {"image": "docker.io/trainyard/operator:1"},
    "kueue": {"enabled": True},
    "queues": {
        "flavors": {"cpu": {}},
        "clusterQueues": {"team-a": {"resourceGroups": [CPU]}},
        "priorities": {"low": {"value": -1, "description": "Can wait."}},
    },
    "nodePools": {"gpu": POOL},
    "tenants": {"a": {"clusterQueue": "team-a"}},
    "volcano": {"enabled": True},
}
JOB = Job(
    namespace="a",
    name="job",
    state=State.RUNNING,
    runtime=Ref("ClusterTrainingRuntime", "", "torch"),
    started=True,
    local_queue="default",
    cluster_queue="team-a",
    flavors=frozenset({"gpu"}),
    pools=frozenset({"gpu"}),
    priority_class="low",
)
WAITS = replace(JOB, state=State.QUEUED, started=False, flavors=frozenset(), pools=frozenset())
OTHER = Job("b", "other", State.RUNNING, Ref("TrainingRuntime", "b", "torch"), True)
GANG = replace(OTHER, name="gang", schedulers=frozenset({"volcano"}))
GANG_WAITS = replace(GANG, state=State.QUEUED)


def runtime(name: str = "torch", image: str = "a") -> Runtime:
    manifest = {"metadata": {"name": name}, "spec": {"template": {"containers": [{"image": image}]}}}
    return Runtime(name=name, framework="torch", manifest=manifest)


def asked(*runtimes: Runtime, **parts: Any) -> dict[Ref, Any]:
    stack = settings.of({**STACK, **parts}, "test")
    return impact.objects(stack, runtimes or (runtime(),))


def only(changes: tuple[Change, ...], kind: str) -> Change:
    [change] = [one for one in changes if one.ref.kind == kind]
    return change


def touched(change: Change, jobs: Sequence[Job], after: Mapping[Ref, Any] | None = None) -> Sequence[Touched]:
    """Of a stack whose other queues and cohorts, where none are given, have no part in it."""
    return impact.touched(change, jobs, after or {change.ref: change.after})


def test_nothing_differs_from_itself() -> None:
    assert impact.changes(asked(), asked()) == ()


def test_a_field_that_differs_is_named_with_both_values() -> None:
    [change] = impact.changes(asked(), asked(runtime(image="b")))
    assert change.ref == Ref("ClusterTrainingRuntime", "", "torch")
    assert (change.verb, change.fields) == (
        Verb.CHANGED,
        (Field("spec.template.containers[0].image", "a", "b"),),
    )


def test_a_pool_that_goes_takes_its_flavor_and_its_quota_with_it() -> None:
    queue = {**STACK["queues"]}
    found = impact.changes(asked(), asked(nodePools={}, queues=queue))
    assert {(str(change.ref), change.verb.value) for change in found} == {
        ("NodePool gpu", "removed"),
        ("ResourceFlavor gpu", "removed"),
        ("ClusterQueue team-a", "changed"),
    }


def test_what_is_only_added_touches_nobody() -> None:
    [change] = impact.changes(asked(), asked(runtime(), runtime("new")))
    assert (change.verb, touched(change, [JOB, WAITS])) == (Verb.ADDED, ())


RUNS_ON = "the runtime that it started with, whatever becomes of its pods"
LEFT_ALONE = "the rights of its team, which can no longer see or stop it"
LOWERED = "its priority of -1: Kueue gives it the new one, -2, at once"
STOPPED = {"clusterQueues": {"team-a": {"resourceGroups": [CPU], "stopPolicy": "HoldAndDrain"}}}
ANOTHER = {"clusterQueues": {name: {"resourceGroups": [CPU]} for name in ("team-a", "team-b")}}
WITHOUT_KUEUE = asked(kueue={}, queues={}, tenants={}, nodePools={})
CASES: dict[str, tuple[dict[Ref, Any], str, list[Touched]]] = {
    "a runtime is changed: what has started keeps it, what has not gets the new one": (
        asked(runtime(image="b")),
        "ClusterTrainingRuntime",
        [
            Touched(JOB, RUNS_ON),
            Touched(WAITS, "its place", "the runtime as it was: its pods will be built from the changed one"),
        ],
    ),
    "a runtime is removed: what has not started is blocked": (
        asked(runtime("else")),
        "ClusterTrainingRuntime",
        [
            Touched(JOB, RUNS_ON, "its runtime for a later run: it cannot be created again"),
            Touched(WAITS, "its place", "its runtime: it will be Blocked (RuntimeNotFound)"),
        ],
    ),
    "a queue loses a flavor": (
        asked(nodePools={"gpu": {**POOL, "quota": []}}),
        "ClusterQueue",
        [
            Touched(
                JOB,
                "its pods and its quota until it is evicted or ends",
                "the way back: once evicted it is not admitted to gpu again",
            ),
            Touched(WAITS, "its place in the queue", "flavor gpu"),
        ],
    ),
    "a queue is drained": (
        asked(queues={**STACK["queues"], **STOPPED}),
        "ClusterQueue",
        [
            Touched(JOB, "its place in the queue", "its pods: Kueue suspends it"),
            Touched(WAITS, "its place in the queue"),
        ],
    ),
    "a tenant's queue is to go to another ClusterQueue, which Kueue refuses": (
        asked(queues={**STACK["queues"], **ANOTHER}, tenants={"a": {"clusterQueue": "team-b"}}),
        "LocalQueue",
        [
            Touched(JOB, "its pods and its quota"),
            Touched(WAITS, "its place in the queue"),
        ],
    ),
    "a tenant goes: its namespace stays, and its queue in it": (
        asked(tenants={}),
        "LocalQueue",
        [
            Touched(JOB, "its queue, which stays with the namespace", LEFT_ALONE),
            Touched(WAITS, "its queue, which stays with the namespace", LEFT_ALONE),
        ],
    ),
    "the queues are to hold what they do not hold now": (
        asked(kueue={"enabled": True, "integrations": ["trainer.kubeflow.org/trainjob"]}),
        "Kueue",
        [
            Touched(JOB, "all that it has: make up refuses this until it has ended, or is deleted"),
            Touched(WAITS, "all that it has: make up refuses this until it has ended, or is deleted"),
        ],
    ),
    "Kueue goes: a roll-out waits for the jobs": (
        WITHOUT_KUEUE,
        "Kueue",
        [
            Touched(JOB, "all that it has: make up refuses this until it has ended, or is deleted"),
            Touched(WAITS, "all that it has: make up refuses this until it has ended, or is deleted"),
        ],
    ),
    "Kueue goes: its queues stay, and nobody admits jobs": (
        WITHOUT_KUEUE,
        "ClusterQueue",
        [
            Touched(JOB, "its pods", "its quota: without Kueue, nobody counts it"),
            Touched(WAITS, "its TrainJob", "its queue: without Kueue, it starts without quota"),
        ],
    ),
    "a gang's scheduler goes": (
        asked(volcano={"enabled": False}),
        "GangScheduler",
        [
            Touched(GANG, "its pods", "its scheduler: recreated pods stay Pending"),
            Touched(GANG_WAITS, "its place in the queue", "its scheduler: its pods will stay Pending"),
        ],
    ),
    "a pool gets smaller": (
        asked(nodePools={"gpu": {**POOL, "nodes": 1}}),
        "NodePool",
        [Touched(JOB, "its TrainJob", "pods on nodes that are removed; the JobSet's failure policy applies")],
    ),
    "a pool grows": (asked(nodePools={"gpu": {**POOL, "nodes": 3}}), "NodePool", [Touched(JOB, "its pods")]),
    "a priority changes": (
        asked(queues={**STACK["queues"], "priorities": {"low": {"value": -2, "description": "Can wait."}}}),
        "WorkloadPriorityClass",
        [
            Touched(JOB, "its pods and its quota", LOWERED),
            Touched(WAITS, "its TrainJob", LOWERED),
        ],
    ),
    "a priority gets another description": (
        asked(queues={**STACK["queues"], "priorities": {"low": {"value": -1, "description": "By night."}}}),
        "WorkloadPriorityClass",
        [Touched(JOB, "its priority"), Touched(WAITS, "its priority")],
    ),
    "a priority goes: Kueue forgets no Workload's": (
        asked(queues={**STACK["queues"], "priorities": {}}),
        "WorkloadPriorityClass",
        [Touched(JOB, "its priority"), Touched(WAITS, "its priority")],
    ),
}


def queues(team_a: dict[str, str], team_b: dict[str, str] | None = None, **cohort: Any) -> dict[Ref, Any]:
    """A stack with two queues of CPUs, in a cohort or each alone, and without pools."""
    cluster_queues = {
        name: {
            "resourceGroups": [{"flavors": [{"name": "cpu", "resources": {"cpu": quota}}]}],
            **({"cohort": "all"} if cohort else {}),
        }
        for name, quota in (("team-a", team_a), ("team-b", team_b or {"nominal": "0"}))
    }
    cohorts = {"cohorts": {"all": cohort}} if cohort else {}
    return asked(queues={**STACK["queues"], **cohorts, "clusterQueues": cluster_queues}, nodePools={})


ALONE = {"fairWeight": None}
OF_ITS_OWN = {"resourceGroups": [{"flavors": [{"name": "cpu", "resources": {"cpu": {"nominal": "1"}}}]}]}


@pytest.mark.parametrize(
    ("after", "changed", "most"),
    [
        (queues({"nominal": "2"}), "team-a", 2),
        (queues({"nominal": "4"}), "team-a", None),
        (queues({"nominal": "2"}, {"nominal": "1"}, **ALONE), "team-a", 3),
        (queues({"nominal": "2"}, {"nominal": "2"}, **ALONE), "team-a", None),
        (queues({"nominal": "2", "borrowingLimit": "1"}, {"nominal": "2"}, **ALONE), "team-a", 3),
        (queues({"nominal": "2"}, {"nominal": "2", "lendingLimit": "1"}, **ALONE), "team-a", 3),
        (queues({"nominal": "2"}, {"nominal": "1"}, **OF_ITS_OWN), "team-a", None),
        (queues({"nominal": "2"}, {"nominal": "1"}, **ALONE), "team-b", 3),
        (queues({"nominal": "2"}, {"nominal": "0"}, **OF_ITS_OWN), "all", 3),
        (queues({"nominal": "2"}, {"nominal": "1"}, **OF_ITS_OWN), "all", None),
    ],
    ids=[
        "its own is too little",
        "its own is enough",
        "with all that others lend it is too little",
        "with what others lend it is enough",
        "it may not borrow so much",
        "others do not lend so much",
        "the cohort has some of its own",
        "another queue lends less",
        "the cohort has less",
        "the cohort has enough",
    ],
)
def test_a_quota_that_becomes_too_small_for_a_job_that_waits_is_told(
    after: dict[Ref, Any], changed: str, most: int | None
) -> None:
    kind = "Cohort" if changed == "all" else "ClusterQueue"
    waits = replace(WAITS, requests={"cpu": "4"})
    change = Change(Ref(kind, "", changed), Verb.CHANGED, {}, after[Ref(kind, "", changed)])
    shortage = f"its start: it asks for 4 of cpu, and the queue has {most} at most"
    kept = Touched(waits, "its place in the queue", shortage if most else "")
    assert touched(change, [waits], after) == ((kept,) if most or changed == "team-a" else ())


def test_where_the_queue_holds_trainjobs_a_changed_runtime_starts_what_runs_anew() -> None:
    held = replace(JOB, held_by_kueue=True)
    change = only(impact.changes(asked(), asked(runtime(image="b"))), "ClusterTrainingRuntime")
    loses = "its pods: Kueue stops them at its next event, and restarts it with the changed runtime"
    assert touched(change, [held]) == (Touched(held, "its TrainJob", loses),)
    never_started = replace(WAITS, held_by_kueue=True)
    waits = [never_started, replace(never_started, started=True)]
    changed = "the runtime as it was: its pods will be built from the changed one"
    assert touched(change, waits) == tuple(Touched(job, "its place", changed) for job in waits)


def test_where_the_queue_holds_trainjobs_one_keeps_its_quota_after_its_end_without_its_runtime() -> None:
    changes = impact.changes(asked(), asked(runtime("else")))
    change = only(
        tuple(change for change in changes if change.verb is Verb.REMOVED), "ClusterTrainingRuntime"
    )
    runs = replace(JOB, held_by_kueue=True)
    loses = (
        "the return of its quota: Kueue needs the runtime to count its pods, and gives its quota to others "
        "only once the TrainJob is deleted, or the runtime is back"
    )
    assert touched(change, [runs]) == (Touched(runs, "its pods, until it ends or is evicted", loses),)
    waits = replace(WAITS, held_by_kueue=True, started=True)
    loses = "its start: Kueue needs the runtime to count its pods"
    assert touched(change, [waits]) == (Touched(waits, "its place", loses),)


@pytest.mark.parametrize("case", CASES)
def test_what_a_trainjob_keeps_and_loses(case: str) -> None:
    after, kind, expected = CASES[case]
    changes = impact.changes(asked(), after)
    chosen = [one for one in changes if one.ref.kind == kind and one.verb is not Verb.ADDED]
    assert len(chosen) == 1, changes
    assert list(touched(chosen[0], [JOB, WAITS, OTHER, GANG, GANG_WAITS])) == expected


@pytest.mark.parametrize(
    "case",
    [
        "a runtime is changed: what has started keeps it, what has not gets the new one",
        "a runtime is removed: what has not started is blocked",
        "a queue loses a flavor",
        "a queue is drained",
        "a gang's scheduler goes",
    ],
)
def test_a_job_that_somebody_has_suspended_has_no_place_in_a_queue_to_keep(case: str) -> None:
    after, kind, _ = CASES[case]
    held = replace(WAITS, state=State.SUSPENDED, schedulers=frozenset({"volcano"}))
    [chosen] = [
        one for one in impact.changes(asked(), after) if one.ref.kind == kind and one.verb is not Verb.ADDED
    ]
    [effect] = touched(chosen, [held])
    assert effect.keeps == "its TrainJob"


@pytest.mark.parametrize(
    "changed",
    [{"networks": ["a"]}, {"compactPlacement": True}, {"maintenance": {}}],
    ids=["other networks", "side by side", "upkeep"],
)
def test_nodes_of_a_cloud_that_are_made_anew_take_their_pods_with_them(changed: dict[str, Any]) -> None:
    networks = {"a": {"network": "a", "subnetwork": "a"}}
    cluster = {"gke": {"project": "p", "location": "europe-west4", "name": "c", "networks": networks}}
    machine = {**POOL["machine"], "type": "a3-highgpu-8g"}
    pool = {**POOL, "provider": "gke", "zones": ["europe-west4-a"], "machine": machine}
    before = asked(cluster=cluster, nodePools={"gpu": pool})
    after = asked(cluster=cluster, nodePools={"gpu": {**pool, **changed}})
    assert list(touched(only(impact.changes(before, after), "NodePool"), [JOB])) == [
        Touched(JOB, "its TrainJob", "pods on nodes that are removed; the JobSet's failure policy applies")
    ]


@pytest.mark.parametrize(
    ("provider", "changed", "is_lost"),
    [
        ("eks", {"zones": ["a", "b"]}, True),
        # Of two nodes in one zone, one goes.
        ("gke", {"zones": ["a", "b"]}, True),
        ("gke", {"zones": ["a", "b"], "nodes": 4}, False),
        ("gke", {"zones": ["a", "b"], "minNodes": 0}, False),
        ("karpenter", {"nodes": 1, "zones": ["b"], "capacityType": "spot"}, False),
        ("gke", {"zones": ["b"]}, True),
        ("gke", {"capacityType": "spot"}, True),
        ("gke", {"reservation": "r"}, True),
        ("gke", {"taints": [{"key": "a", "effect": "NoSchedule"}]}, False),
        ("gke", {"taints": [{"key": "a", "effect": "NoExecute"}]}, True),
    ],
)
def test_a_pool_keeps_its_nodes_and_their_pods_where_its_cloud_changes_it_in_place(
    provider: str, changed: dict[str, Any], is_lost: bool
) -> None:
    before = {"provider": provider, "nodes": 2, "zones": ["a"], "capacityType": "on-demand", "taints": []}
    change = Change(Ref("NodePool", "", "gpu"), Verb.CHANGED, before, {**before, **changed})
    lost = Touched(JOB, "its TrainJob", "pods on nodes that are removed; the JobSet's failure policy applies")
    assert touched(change, [JOB]) == (lost if is_lost else Touched(JOB, "its pods"),)


MACHINE = {"cpu": "96", "memory": "1Ti", "type": "big"}
GPUS = {"type": "nvidia-h100", "resource": "nvidia.com/gpu", "count": 8}


@pytest.mark.parametrize(
    ("changed", "losing"),
    [
        ({"machine": {**MACHINE, "cpu": "90", "memory": "900Gi"}}, {"kwok"}),
        ({"machine": {**MACHINE, "resources": {"rdma/ib": "8"}}}, {"kwok"}),
        ({"machine": {**MACHINE, "resources": {"vpc.amazonaws.com/efa": "32"}}}, {"kwok", "eks"}),
        ({"machine": {**MACHINE, "type": "bigger"}}, {"kwok", "eks", "gke", "aks"}),
        ({"machine": {**MACHINE, "disk": "1Ti"}}, {"kwok", "eks", "gke", "aks"}),
        ({"accelerator": {**GPUS, "type": "nvidia-h100-80gb"}}, {"kwok", "gke"}),
        ({"accelerator": {**GPUS, "count": 4}}, {"kwok", "gke"}),
        ({"accelerator": {**GPUS, "resource": "nvidia.com/mig-1g.10gb"}}, {"kwok", "gke"}),
        ({"accelerator": {**GPUS, "resource": "aws.amazon.com/neuron"}}, {"kwok", "eks", "gke", "aks"}),
        ({"accelerator": None}, {"kwok", "eks", "gke", "aks"}),
    ],
)
def test_pods_are_lost_only_if_the_nodes_of_their_pool_are_made_of_something_else(
    changed: dict[str, Any], losing: set[str]
) -> None:
    def loses(provider: str) -> bool:
        before = {"provider": provider, "nodes": 2, "zones": ["a"], "machine": MACHINE, "accelerator": GPUS}
        change = Change(Ref("NodePool", "", "gpu"), Verb.CHANGED, before, {**before, **changed})
        return bool(touched(change, [JOB])[0].loses)

    assert {provider for provider in ("kwok", "eks", "gke", "aks") if loses(provider)} == losing


def test_a_pool_of_karpenter_is_known_in_a_preview_too() -> None:
    limits = {"spec": {"limits": {"nodes": "2"}}}
    ref = Ref("NodePool", "", "gpu")
    effects = {
        verb: touched(Change(ref, verb, limits, after), [JOB])
        for verb, after in ((Verb.CHANGED, {"spec": {"limits": {"nodes": "1"}}}), (Verb.REMOVED, {}))
    }
    lost = "pods on nodes that are removed; the JobSet's failure policy applies"
    assert effects == {
        Verb.CHANGED: (Touched(JOB, "its pods"),),
        Verb.REMOVED: (Touched(JOB, "its TrainJob", lost),),
    }


def test_a_job_that_waits_for_what_its_queue_no_longer_has_never_starts() -> None:
    change = only(impact.changes(asked(), asked(nodePools={"gpu": {**POOL, "quota": []}})), "ClusterQueue")
    waits = replace(WAITS, requests={"cpu": "4", "nvidia-h100": "0", "nvidia.com/gpu": "8"})
    assert touched(change, [waits]) == (
        Touched(
            waits,
            "its place in the queue",
            "its start: it asks for 8 of nvidia.com/gpu, and the queue has 0 at most",
        ),
    )


def of_queue(**more: Any) -> dict[Ref, Any]:
    """A stack with a queue in a namespace that is no tenant's."""
    local_queue = {"name": "default", "namespace": "research", "clusterQueue": "team-a", **more}
    return asked(queues={**STACK["queues"], "localQueues": [local_queue]})


def test_a_queue_in_a_namespace_that_is_no_tenants_goes_with_its_entry() -> None:
    change = only(impact.changes(of_queue(), asked()), "LocalQueue")
    waits = replace(WAITS, namespace="research")
    assert change.verb is Verb.REMOVED
    assert touched(change, [waits]) == (Touched(waits, "nothing", "its queue: it is no longer admitted"),)


@pytest.mark.parametrize(
    ("policy", "keeps", "loses"),
    [
        ("HoldAndDrain", "its place in the queue", "its pods: Kueue suspends it"),
        ("Hold", "its pods", ""),
    ],
)
def test_a_localqueue_that_is_stopped_stops_its_jobs_like_a_clusterqueue(
    policy: str, keeps: str, loses: str
) -> None:
    change = only(impact.changes(of_queue(), of_queue(stopPolicy=policy)), "LocalQueue")
    runs, waits = (replace(job, namespace="research") for job in (JOB, WAITS))
    assert touched(change, [runs, waits]) == (
        Touched(runs, keeps, loses),
        Touched(waits, "its place in the queue"),
    )
    change = only(impact.changes(of_queue(stopPolicy=policy), of_queue()), "LocalQueue")
    assert touched(change, [waits]) == (Touched(waits, "its place in the queue"),)


def test_what_of_a_tenant_that_goes_stays_is_not_called_removed() -> None:
    found = impact.changes(asked(), asked(tenants={}))
    assert {(str(change.ref), change.verb) for change in found} == {
        ("LocalQueue a/default", Verb.LEFT),
        ("Namespace a", Verb.LEFT),
        ("RoleBinding a/trainyard-operator-mpi", Verb.REMOVED),
    }


def test_what_stays_when_kueue_goes_is_not_called_removed() -> None:
    changes = impact.changes(asked(), WITHOUT_KUEUE)
    assert {(str(change.ref), change.verb) for change in changes} == {
        ("ClusterQueue team-a", Verb.LEFT),
        ("Kueue queues", Verb.REMOVED),
        ("LocalQueue a/default", Verb.LEFT),
        ("Namespace a", Verb.LEFT),
        ("NodePool gpu", Verb.REMOVED),
        ("ResourceFlavor cpu", Verb.LEFT),
        ("ResourceFlavor gpu", Verb.LEFT),
        ("RoleBinding a/trainyard-operator-mpi", Verb.REMOVED),
        ("WorkloadPriorityClass low", Verb.LEFT),
    }


def test_queues_of_a_kueue_that_the_platform_did_not_install_are_removed_without_it() -> None:
    before = asked(kueue={"enabled": True, "controller": "existing"})
    assert only(impact.changes(before, WITHOUT_KUEUE), "ClusterQueue").verb is Verb.REMOVED


def test_a_trainjob_that_a_queue_holds_never_starts_without_kueue() -> None:
    change = only(impact.changes(asked(), WITHOUT_KUEUE), "ClusterQueue")
    held = replace(WAITS, held_by_kueue=True)
    assert touched(change, [held]) == (
        Touched(held, "its TrainJob", "its queue: without Kueue, it never starts"),
    )


def test_another_controller_of_the_same_queues_touches_nobody() -> None:
    kind = {"enabled": True, "integrations": ["jobset.x-k8s.io/jobset"]}
    before, after = asked(kueue=kind), asked(kueue={**kind, "controller": "existing"})
    assert touched(only(impact.changes(before, after), "Kueue"), [JOB, WAITS]) == ()


def test_who_has_rights_in_a_tenants_namespace_is_asked_for_and_goes_with_the_tenant() -> None:
    people = {"dataScientists": [{"name": "vision"}], "viewers": [{"kind": "User", "name": "eve"}]}
    before = asked(tenants={"a": {"clusterQueue": "team-a", **people}})
    gone = impact.changes(before, asked(tenants={}))
    assert {change.ref.name for change in gone if change.verb is Verb.REMOVED} == {
        "trainyard-data-scientist",
        "trainyard-data-scientist-further",
        "trainyard-operator-mpi",
        "trainyard-viewer",
    }


@pytest.mark.parametrize(
    ("namespaces", "bound"),
    [([], {"a"}), (["b", "a"], {"a", "b"}), (["*"], {"a", "*"})],
    ids=["of tenants", "and of others", "everywhere"],
)
def test_where_mpi_jobs_may_run_is_asked_for(namespaces: list[str], bound: set[str]) -> None:
    found = asked(operator={**STACK["operator"], "mpiNamespaces": namespaces})
    assert {ref.namespace for ref in found if ref.name == "trainyard-operator-mpi"} == bound


def test_nodes_that_are_not_the_stacks_stay() -> None:
    labels = {"provider": "existing", "nodeLabels": {"pool": "gpu"}}
    existing = {"gpu": {**POOL, **labels}}
    shipped = {"nvidia": {"devicePlugin": "shipped"}}
    before = asked(nodePools=existing, accelerators=shipped)
    change = only(impact.changes(before, asked(nodePools={}, accelerators=shipped)), "NodePool")
    assert touched(change, [JOB]) == (
        Touched(JOB, "its pods: the stack removes no nodes that it did not create"),
    )
