"""What is said before a job is sent, that it starts now or waits, against what Kueue does in random states.

Workloads without jobs, so that no pod runs: what Kueue evicts is deleted, as the
job's controller would have it end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.cluster import Cluster, Object
from tests.support.live import Api, done
from tests.support.patience import LEARNED, eventually
from trainyard_api import quantity
from trainyard_assist import quota
from trainyard_assist.quota import Answer, Job, PodSet, Verdict, forecast
from trainyard_assist.quota.words import sentence

pytestmark = [pytest.mark.sandbox(area="queues"), pytest.mark.long]

NAMESPACE: Final = "forecasts"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, COHORTS, FLAVOR_KIND = (
    f"{plural}.kueue.x-k8s.io"
    for plural in ("workloads", "localqueues", "clusterqueues", "cohorts", "resourceflavors")
)
"""In full: Kueue's visibility API has some of these names too."""
MARK: Final = "tests.trainyard.dev/forecasts"
FLAVORS: Final = ("forecasts-a", "forecasts-b")
RESOURCES: Final = ("cpu", "example.com/gpu")
AT_ONCE: Final = 50
"""States that Kueue has at a time, each with queues of its own."""
BATCHES: Final = 4
AT_LEAST: Final = 0.95
STEADY: Final = 10
"""Looks, one after the other, at which nothing has changed."""


@dataclass(frozen=True)
class Pods:
    """What a Workload asks for."""

    queue: int
    amounts: Sequence[int]
    """Of each resource."""
    count: int = 1
    priority: int = 0


@dataclass(frozen=True)
class State:
    """Queues, what was sent to them, and what is sent next."""

    queues: Sequence[Object]
    """Specs of ClusterQueues, without the cohort's name."""
    shared: str
    """`no`, `yes`, or `below` for a cohort under another one with quota of its own."""
    spare: int
    """The quota of the cohort above."""
    sent: Sequence[Pods]
    last: Pods


AMOUNTS = st.sampled_from([0, 2, 3, 4, 5, 6, 8])
PODS = st.builds(
    Pods,
    queue=st.integers(0, 2),
    amounts=st.tuples(st.integers(0, 2), st.integers(1, 4)),
    count=st.integers(1, 2),
    priority=st.integers(-1, 1),
)


@st.composite
def specs(draw: st.DrawFn, *, shared: bool) -> Object:
    """The spec of a ClusterQueue, as the API server accepts it."""

    def amount(resource: str) -> Object:
        nominal = draw(AMOUNTS)
        limits: Object = {}
        if shared and draw(st.booleans()):
            limits["borrowingLimit"] = str(draw(st.integers(0, 4)))
        if shared and draw(st.booleans()):
            limits["lendingLimit"] = str(draw(st.integers(0, nominal)))
        return {"name": resource, "nominalQuota": str(nominal), **limits}

    names = draw(st.sampled_from([FLAVORS[:1], FLAVORS, FLAVORS[::-1]]))
    reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
    borrow = "Never" if reclaim == "Never" else draw(st.sampled_from(["Never", "Never", "LowerPriority"]))
    return {
        "resourceGroups": [
            {
                "coveredResources": list(RESOURCES),
                "flavors": [{"name": name, "resources": list(map(amount, RESOURCES))} for name in names],
            }
        ],
        "namespaceSelector": {},
        "queueingStrategy": draw(st.sampled_from(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"])),
        "preemption": {
            "withinClusterQueue": draw(st.sampled_from(["Never", "LowerPriority"])),
            "reclaimWithinCohort": reclaim,
            "borrowWithinCohort": {"policy": borrow},
        },
        "flavorFungibility": {
            "whenCanBorrow": draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
            "whenCanPreempt": draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
        },
        "stopPolicy": draw(st.sampled_from(["None"] * 9 + ["Hold"])),
    }


@st.composite
def states(draw: st.DrawFn) -> State:
    shared = draw(st.sampled_from(["no", "yes", "yes", "below"]))
    queues = draw(st.lists(specs(shared=shared != "no"), min_size=1, max_size=3))
    sent = draw(st.lists(PODS, max_size=6))
    return State(queues, shared, draw(AMOUNTS), sent, draw(PODS))


def objects(number: int, state: State) -> Iterator[Object]:
    """Its cohorts and queues."""
    if state.shared != "no":
        parent = {"parentName": f"f{number}-top"} if state.shared == "below" else {}
        yield kueue("Cohort", f"f{number}", parent)
    if state.shared == "below":
        spare = [{"name": resource, "nominalQuota": str(state.spare)} for resource in RESOURCES]
        group = {"coveredResources": list(RESOURCES), "flavors": [{"name": FLAVORS[0], "resources": spare}]}
        yield kueue("Cohort", f"f{number}-top", {"resourceGroups": [group]})
    for index, spec in enumerate(state.queues):
        name = f"f{number}-{index}"
        yield kueue(
            "ClusterQueue", name, spec if state.shared == "no" else {**spec, "cohortName": f"f{number}"}
        )
        yield kueue("LocalQueue", name, {"clusterQueue": name}, namespace=NAMESPACE)


def kueue(kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    head = {"name": name, "labels": {MARK: "yes"}, **metadata}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": head, "spec": spec}


def queue_of(number: int, state: State, pods: Pods) -> str:
    return f"f{number}-{pods.queue % len(state.queues)}"


def workload(number: int, name: str, state: State, pods: Pods) -> Object:
    """As Kueue itself makes them of jobs."""
    requests = {resource: str(amount) for resource, amount in zip(RESOURCES, pods.amounts, strict=True)}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {"name": "node", "image": "none", "resources": {"requests": requests, "limits": limits}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "queueName": queue_of(number, state, pods),
        "priority": pods.priority,
        "podSets": [{"name": "main", "count": pods.count, "template": template}],
    }
    return kueue("Workload", f"f{number}-{name}", spec, namespace=NAMESPACE)


def last_of(number: int, state: State) -> Job:
    pods = state.last
    asked = {
        resource: quantity.parse(amount * pods.count).nano
        for resource, amount in zip(RESOURCES, pods.amounts, strict=True)
    }
    return Job(
        name=f"{NAMESPACE}/f{number}-last",
        queue=queue_of(number, state, pods),
        pods=(PodSet(requests=asked, count=pods.count),),
        priority=pods.priority,
    )


def condition(of: Object, kind: str) -> Object:
    conditions = of.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), {})


def settled(place: Cluster) -> list[Object]:
    """The Workloads, once Kueue has decided what it can; what it has evicted ends meanwhile."""
    looks: list[Any] = []

    def ask() -> Object | None:
        workloads = place.list(WORKLOADS)
        gone = [w["metadata"]["name"] for w in workloads if condition(w, "Evicted").get("status") == "True"]
        if gone:
            place.kubectl("delete", WORKLOADS, *gone, "--ignore-not-found", "--wait=false")
        queues = place.list(CLUSTER_QUEUES, MARK)
        looks.append(
            [
                sorted(
                    (w["metadata"]["name"], str(condition(w, "QuotaReserved").get("status")))
                    for w in workloads
                ),
                sorted(
                    (q["metadata"]["name"], str(q.get("status", {}).get("flavorsReservation")))
                    for q in queues
                ),
            ]
        )
        steady = len(looks) >= STEADY and all(look == looks[-1] for look in looks[-STEADY:])
        return {"workloads": workloads} if steady and not gone else None

    answer = eventually("Kueue has decided", ask, within=LEARNED)
    workloads: list[Object] = answer["workloads"]
    return workloads


def tried(place: Cluster, states: Sequence[State]) -> Iterator[tuple[Verdict, bool, State]]:
    """For each state what was said of the last Workload, and whether Kueue let it start."""
    numbered = list(enumerate(states))
    place.apply(*(made for number, state in numbered for made in objects(number, state)))
    sent = [
        workload(number, str(index), state, pods)
        for number, state in numbered
        for index, pods in enumerate(state.sent)
    ]
    if sent:
        place.apply(*sent)
    workloads = settled(place)
    there = quota.state(
        cluster_queues=place.list(CLUSTER_QUEUES, MARK),
        cohorts=place.list(COHORTS, MARK),
        flavors=place.list(FLAVOR_KIND, MARK),
        local_queues=place.list(LOCAL_QUEUES),
        workloads=workloads,
    )
    verdicts = [forecast(there, last_of(number, state)) for number, state in numbered]
    place.apply(*(workload(number, "last", state, state.last) for number, state in numbered))
    decided = {workload["metadata"]["name"]: workload for workload in settled(place)}
    for (number, state), verdict in zip(numbered, verdicts, strict=True):
        reserved = condition(decided.get(f"f{number}-last", {}), "QuotaReserved").get("status") == "True"
        yield verdict, reserved, state
    clear(place)


def clear(place: Cluster) -> None:
    """Delete each kind by one request: kubectl looks after what it deletes one by one, five a second."""
    marked = f"?labelSelector={quote(MARK, safe='')}"
    within = f"/apis/{KUEUE}/namespaces/{NAMESPACE}"
    for kind, selector, path in (
        (WORKLOADS, "", f"{within}/workloads"),
        (LOCAL_QUEUES, MARK, f"{within}/localqueues{marked}"),
        (CLUSTER_QUEUES, MARK, f"/apis/{KUEUE}/clusterqueues{marked}"),
        (COHORTS, MARK, f"/apis/{KUEUE}/cohorts{marked}"),
    ):
        gone = partial(is_gone, place, kind, selector, path)
        eventually(f"no {kind} are left", gone, within=LEARNED, pause=partial(time.sleep, 1))


def is_gone(place: Cluster, kind: str, selector: str, path: str) -> bool:
    """Whether none is left; else all are deleted, once more if the API server did not come to an end."""
    if place.list(kind, selector) == []:
        return True
    done(Api(place.sandbox.instance.kubeconfig).call("DELETE", path))
    return False


@pytest.fixture
def place(platform: Cluster) -> Iterator[Cluster]:
    """A namespace of its own, and two flavors that any pod fits."""
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    platform.apply(*(kueue("ResourceFlavor", name, {}) for name in FLAVORS))
    place = platform.within(NAMESPACE)
    try:
        yield place
    finally:
        clear(place)
        platform.kubectl("delete", FLAVOR_KIND, *FLAVORS, "--ignore-not-found", "--wait=false")
        platform.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_of_200_random_states_it_is_right_in_95_of_100_whether_a_job_starts(place: Cluster) -> None:
    outcomes: list[tuple[Verdict, bool, State]] = []

    @settings(
        max_examples=BATCHES,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(states(), min_size=AT_ONCE, max_size=AT_ONCE))
    def batch(several: list[State]) -> None:
        outcomes.extend(tried(place, several))

    batch()
    assert len(outcomes) >= BATCHES * AT_ONCE
    wrong = [
        f"said: {sentence(verdict)}; Kueue {'did' if reserved else 'did not'} start it: {state}"
        for verdict, reserved, state in outcomes
        if (verdict.answer in (Answer.STARTS, Answer.PREEMPTS)) is not reserved
    ]
    assert len(wrong) <= (1 - AT_LEAST) * len(outcomes), "\n".join(wrong)
    # Both answers are there often enough to be wrong.
    started = sum(reserved for _, reserved, _ in outcomes)
    assert len(outcomes) / 5 < started < len(outcomes) * 4 / 5
