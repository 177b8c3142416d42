"""What becomes of a job: it starts, it waits and why, or others are stopped for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.support.kueues import (
    GPU,
    cluster_queue,
    cohort,
    job,
    local_queue,
    looked_at,
    pods,
    state,
    workload,
)
from trainyard_api.pools import Taint
from trainyard_assist.quota import Answer, Job, PodSet, Short, State, Verdict, forecast, pod_sets_of
from trainyard_assist.quota.model import Flavor
from trainyard_assist.quota.read import closed, job_of
from trainyard_assist.quota.words import sentence

ONE = 10**9
DOORS = {"local_queues": [local_queue("default", "gpus")]}
EVICTED = [
    looked_at("PendingEvaluation"),
    {"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout", "message": "not ready"},
]
PREEMPTS: dict[str, Any] = {
    "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
}


def gpus(used: int = 0, nominal: Any = 8, cohort: str = "", **spec: Any) -> Any:
    return cluster_queue(
        "gpus", ("h100", {GPU: nominal}), cohort=cohort, used={("h100", GPU): str(used)}, **spec
    )


def lender(name: str = "other", used: int = 0, nominal: Any = 8, **spec: Any) -> Any:
    return cluster_queue(
        name, ("h100", {GPU: nominal}), cohort="all", used={("h100", GPU): str(used)}, **spec
    )


def said(verdict: Verdict) -> str:
    return sentence(verdict)


# --- quota ------------------------------------------------------------------------


def test_what_fits_into_what_is_free_starts() -> None:
    assert forecast(state(gpus(4)), job(gpu=4)) == Verdict(answer=Answer.STARTS, flavors={GPU: "h100"})


def test_what_does_not_fit_waits_and_is_told_how_much_is_free() -> None:
    verdict = forecast(state(gpus(4)), job(gpu=5))
    assert verdict == Verdict(answer=Answer.WAITS, short=(Short(GPU, "h100", 5 * ONE, 4 * ONE, 8 * ONE),))
    assert said(verdict) == "waits: 5 nvidia.com/gpu of flavor h100, of which 4 is free"


def test_what_is_more_than_the_queue_can_ever_have_never_starts() -> None:
    verdict = forecast(state(gpus()), job(gpu=9))
    assert verdict.answer is Answer.NEVER
    assert said(verdict) == "never starts: 9 nvidia.com/gpu of flavor h100, of which its queue can have 8"


def test_a_resource_that_no_flavor_has_is_named() -> None:
    verdict = forecast(state(gpus()), job(gpu=1, cpu="100m"))
    assert (verdict.answer, said(verdict)) == (Answer.NEVER, "never starts: no flavor of its queue has cpu")
    assert forecast(state(gpus()), job(gpu=1, cpu=0)).answer is Answer.STARTS


def test_all_pods_of_a_job_count_together() -> None:
    two = Job(name="team/new", queue="gpus", pods=(pods(gpu=4), pods(gpu=5)))
    assert forecast(state(gpus()), two).short == (Short(GPU, "h100", 9 * ONE, 8 * ONE, 8 * ONE),)


def test_pods_count_where_the_queue_counts_them() -> None:
    queue = cluster_queue("gpus", ("h100", {GPU: 8, "pods": 2}))
    job_of_three = Job(name="team/new", queue="gpus", pods=(PodSet(requests={GPU: ONE}, count=3),))
    assert forecast(state(queue), job_of_three).short == (Short("pods", "h100", 3 * ONE, 2 * ONE, 2 * ONE),)


# --- flavors ----------------------------------------------------------------------


def two_flavors(**spec: Any) -> Any:
    used = {("h100", GPU): "8", ("a100", GPU): "0"}
    return cluster_queue("gpus", ("h100", {GPU: 8}), ("a100", {GPU: 8}), used=used, **spec)


def test_the_next_flavor_is_tried_where_the_first_has_no_room() -> None:
    assert forecast(state(two_flavors()), job(gpu=1)).flavors == {GPU: "a100"}


def test_of_all_flavors_it_is_said_what_is_free() -> None:
    verdict = forecast(state(two_flavors()), job(gpu=9))
    assert said(verdict) == (
        "never starts: 9 nvidia.com/gpu of flavor h100, of which its queue can have 8; "
        "9 nvidia.com/gpu of flavor a100, of which its queue can have 8"
    )


def test_a_flavor_has_to_hold_all_resources_of_its_group() -> None:
    queue = cluster_queue(
        "gpus", ("h100", {GPU: 8, "cpu": 1}), ("a100", {GPU: 4, "cpu": 16}), used={("h100", "cpu"): "1"}
    )
    assert forecast(state(queue), job(gpu=4, cpu=1)).flavors == {GPU: "a100", "cpu": "a100"}
    assert forecast(state(queue), job(gpu=5, cpu=1)).answer is Answer.WAITS


def test_a_flavor_that_its_pods_do_not_tolerate_or_select_is_left_out() -> None:
    there = state(two_flavors())
    tainted = Flavor(taints=(Taint(key="nvidia.com/gpu", value="present"),))
    verdict = forecast(dataclasses.replace(there, flavors={"a100": tainted}), job(gpu=1))
    assert verdict.answer is Answer.WAITS
    assert verdict.why == "it does not tolerate the taint nvidia.com/gpu of flavor a100"
    tolerant = dataclasses.replace(tainted, tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},))
    tolerated = dataclasses.replace(there, flavors={"a100": tolerant})
    assert forecast(tolerated, job(gpu=1)).answer is Answer.STARTS
    choosy = dataclasses.replace(pods(gpu=1), selector={"pool": "h100", "other": "x"})
    labelled = dataclasses.replace(there, flavors={"a100": Flavor({"pool": "a100"})})
    chosen = Job(name="team/new", queue="gpus", pods=(choosy,))
    assert forecast(labelled, chosen).why == (
        "its nodeSelector wants pool=h100, which flavor a100 does not have"
    )


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([[("pool", "In", "h100", "a100")]], True),
        ([[("pool", "In", "h100")]], False),
        ([[("pool", "NotIn", "a100")]], False),
        ([[("pool", "NotIn", "h100"), ("zone", "In", "b")]], True),
        ([[("pool", "Exists")]], True),
        ([[("pool", "DoesNotExist")]], False),
        ([[("memory", "Gt", "79"), ("memory", "Lt", "81")]], True),
        ([[("memory", "Gt", "80")]], False),
        ([[("pool", "Gt", "80")]], False),
        ([[("pool", "Unknown")]], False),
        ([[("pool", "In", "h100")], [("pool", "In", "a100")]], True),
        ([[("pool", "In", "h100")], [("zone", "In", "b")]], True),
    ],
)
def test_a_flavor_whose_own_labels_the_node_affinity_excludes_is_left_out(terms: Any, fits: bool) -> None:
    there = dataclasses.replace(
        state(two_flavors()), flavors={"a100": Flavor({"pool": "a100", "memory": "80"})}
    )
    required = [
        {
            "matchExpressions": [
                {"key": key, "operator": operator, "values": values} for key, operator, *values in term
            ]
        }
        for term in terms
    ]
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
    pod = {
        "affinity": {"nodeAffinity": node_affinity},
        "containers": [{"name": "node", "resources": {"requests": {GPU: "1"}}}],
    }
    template = {"spec": {"template": {"spec": pod}}}
    of_jobset = pod_sets_of({"spec": {"replicatedJobs": [{"name": "node", "template": template}]}})
    of_workload = workload("new", requests={GPU: "1"})
    of_workload["spec"]["podSets"] = [{"name": "node", "count": 1, "template": {"spec": pod}}]
    for pod_sets in (of_jobset, job_of(of_workload, None).pods):
        verdict = forecast(there, Job(name="team/new", queue="gpus", pods=pod_sets))
        assert (verdict.answer is Answer.STARTS) is fits
        assert verdict.why == ("" if fits else "its node affinity excludes flavor a100")


def test_a_queue_that_rather_tries_the_next_flavor_than_borrows_does() -> None:
    flavors = (("h100", {GPU: 2}), ("a100", {GPU: 8}))
    other = cluster_queue("other", ("h100", {GPU: 8}), ("a100", {GPU: 0}), cohort="all")
    borrows = cluster_queue("gpus", *flavors, cohort="all")
    assert forecast(state(borrows, other), job(gpu=4)).flavors == {GPU: "h100"}
    moves = cluster_queue(
        "gpus", *flavors, cohort="all", flavorFungibility={"whenCanBorrow": "TryNextFlavor"}
    )
    assert forecast(state(moves, other), job(gpu=4)).flavors == {GPU: "a100"}


# --- cohorts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "others", "gpus_asked", "answer"),
    [
        (8, 8, 16, Answer.STARTS),
        ((8, 2), 8, 10, Answer.STARTS),
        ((8, 2), 8, 11, Answer.NEVER),
        (8, (8, None, 3), 11, Answer.STARTS),
        (8, (8, None, 3), 12, Answer.NEVER),
        ((8, 0), 8, 9, Answer.NEVER),
    ],
)
def test_a_cohort_lends_within_its_limits(own: Any, others: Any, gpus_asked: int, answer: Answer) -> None:
    there = state(gpus(nominal=own, cohort="all"), lender(nominal=others), cohorts=[cohort("all")])
    assert forecast(there, job(gpu=gpus_asked)).answer is answer


def test_what_others_use_cannot_be_borrowed() -> None:
    there = state(gpus(cohort="all"), lender(used=6))
    assert forecast(there, job(gpu=10)).answer is Answer.STARTS
    assert forecast(there, job(gpu=11)).short == (Short(GPU, "h100", 11 * ONE, 10 * ONE, 16 * ONE),)


def test_a_share_that_others_have_borrowed_is_not_free() -> None:
    verdict = forecast(state(gpus(cohort="all"), lender(used=14)), job(gpu=4))
    assert (verdict.answer, verdict.short[0].free) == (Answer.WAITS, 2 * ONE)


def test_quota_of_a_cohort_above_is_lent_to_all_below() -> None:
    tree = [cohort("all", parent="top"), cohort("top", ("h100", {GPU: 4}))]
    assert forecast(state(gpus(cohort="all"), cohorts=tree), job(gpu=12)).answer is Answer.STARTS
    limited = [cohort("all", ("h100", {GPU: (0, 1)}), parent="top"), tree[1]]
    assert forecast(state(gpus(cohort="all"), cohorts=limited), job(gpu=10)).answer is Answer.NEVER


def test_cohorts_in_a_circle_lend_nothing() -> None:
    circle = [cohort("all", parent="top"), cohort("top", ("h100", {GPU: 8}), parent="all")]
    assert forecast(state(gpus(cohort="all"), cohorts=circle), job(gpu=8)).answer is Answer.STARTS
    assert forecast(state(gpus(cohort="all"), cohorts=circle), job(gpu=9)).answer is Answer.NEVER


# --- who is before it -------------------------------------------------------------


def waiting(name: str, gpu: int, created: int, *, looked: bool = True, priority: int = 0) -> Any:
    return workload(
        name,
        created=created,
        priority=priority,
        requests={GPU: str(gpu)},
        conditions=[looked_at()] if looked else [],
    )


def test_in_a_strict_queue_it_waits_for_those_before_it() -> None:
    strict = gpus(4, queueingStrategy="StrictFIFO")
    there = state(strict, workloads=[waiting("large", 8, 1), waiting("larger", 9, 2)], **DOORS)
    verdict = forecast(there, job(gpu=1))
    assert verdict == Verdict(answer=Answer.WAITS, before=("team/large", "team/larger"))
    assert said(verdict) == "waits, behind team/large, team/larger"
    assert forecast(there, job(gpu=1, priority=1)).answer is Answer.STARTS


@pytest.mark.parametrize(
    "held",
    [
        workload("gated", requests={GPU: "8"}, gates="trainyard.dev/sent-suspended"),
        workload("on-hold", requests={GPU: "8"}, conditions=[looked_at("OnHold")]),
        workload("evicted", requests={GPU: "8"}, conditions=EVICTED),
    ],
    ids=lambda held: held["metadata"]["name"],
)
def test_what_kueue_does_not_try_now_holds_nobody_up(held: Any) -> None:
    strict = gpus(4, queueingStrategy="StrictFIFO")
    strict["status"]["pendingWorkloads"] = len(state(strict, workloads=[held], **DOORS).waiting)
    assert forecast(state(strict, workloads=[held], **DOORS), job(gpu=1)) == Verdict(
        answer=Answer.STARTS, flavors={GPU: "h100"}
    )
    head = {**held, "spec": {**held["spec"], "queueName": "strict"}}
    there = state(
        gpus(5, nominal=4, cohort="all"),
        lender("strict", nominal=4, queueingStrategy="StrictFIFO"),
        workloads=[head],
        local_queues=[local_queue("default", "gpus"), local_queue("strict", "strict")],
    )
    assert forecast(there, job(gpu=3)).answer is Answer.STARTS


def test_a_job_that_kueue_has_evicted_waits_until_it_tries_it_again() -> None:
    evicted = workload("evicted", requests={GPU: "1"}, conditions=EVICTED)
    evicted["status"]["requeueState"] = {"requeueAt": "2026-01-01T12:01:00Z"}
    there = state(gpus(), workloads=[evicted], **DOORS)
    verdict = forecast(there, there.waiting[0])
    assert verdict == Verdict(
        answer=Answer.WAITS,
        why="Kueue has evicted it, and tries it again at 12:01 UTC (PodsReadyTimeout: not ready)",
    )


def test_otherwise_what_is_smaller_goes_past_what_does_not_fit() -> None:
    there = state(gpus(4), workloads=[waiting("large", 8, 1)], **DOORS)
    assert forecast(there, job(gpu=4)).answer is Answer.STARTS
    assert forecast(there, job(gpu=5)).before == ("team/large",)


def test_what_kueue_has_not_looked_at_takes_its_share_first() -> None:
    there = state(gpus(4), workloads=[waiting("fresh", 3, 1, looked=False)], **DOORS)
    assert forecast(there, job(gpu=1)).answer is Answer.STARTS
    assert forecast(there, job(gpu=2)).answer is Answer.WAITS


def test_kueue_stays_with_the_job_for_which_it_stops_others() -> None:
    makes_room = waiting("high", 8, 1, priority=10)
    makes_room["status"]["conditions"] = [looked_at("WaitingForPreemptedWorkloads")]
    there = state(gpus(4), workloads=[makes_room], **DOORS)
    assert forecast(there, job(gpu=1)).before == ("team/high",)


def test_the_forecast_of_a_job_that_waits_does_not_count_it_twice() -> None:
    there = state(gpus(4), workloads=[waiting("large", 8, 1), waiting("waits", 4, 2)], **DOORS)
    [large, waits] = there.waiting
    assert (forecast(there, large).answer, forecast(there, waits).answer) == (Answer.WAITS, Answer.STARTS)


def test_jobs_that_cannot_be_seen_hold_up_a_strict_queue() -> None:
    strict = gpus(queueingStrategy="StrictFIFO")
    strict["status"]["pendingWorkloads"] = 2
    verdict = forecast(state(strict), job(gpu=1))
    assert (verdict.answer, verdict.sure) == (Answer.WAITS, False)
    assert verdict.why == "jobs that you may not see wait in ClusterQueue gpus, one after the other"


def test_the_first_of_a_strict_queue_keeps_what_it_may_not_reclaim() -> None:
    """It lacks GPUs that others have borrowed: what is free of them is kept for it."""
    strict = lender("strict", used=0, nominal=4, queueingStrategy="StrictFIFO")
    there = state(
        gpus(5, nominal=4, cohort="all"),
        strict,
        workloads=[workload("head", queue="strict", requests={GPU: "4"}, conditions=[looked_at()])],
        local_queues=[local_queue("default", "gpus"), local_queue("strict", "strict")],
    )
    assert forecast(there, job(gpu=3)).answer is Answer.WAITS
    reclaims = lender(
        "strict", nominal=4, queueingStrategy="StrictFIFO", preemption={"reclaimWithinCohort": "Any"}
    )
    free = dataclasses.replace(there, queues={**there.queues, "strict": state(reclaims).queues["strict"]})
    assert forecast(free, job(gpu=3)).answer is Answer.STARTS


# --- who is stopped ---------------------------------------------------------------


def holds(name: str, gpu: int, behind: str = "gpus", **fields: Any) -> Any:
    return workload(name, namespace=behind, admitted=(behind, "h100", {GPU: str(gpu)}), **fields)


def test_a_higher_priority_stops_a_lower_one_of_its_queue() -> None:
    running = [holds("low", 4, created=1), holds("lower", 4, priority=-1)]
    there = state(gpus(8, **PREEMPTS), workloads=running)
    verdict = forecast(there, job(gpu=4, priority=5))
    assert verdict == Verdict(answer=Answer.PREEMPTS, preempts=("gpus/lower",), flavors={GPU: "h100"})
    assert said(verdict) == "starts, and stops gpus/lower for that"
    assert forecast(there, job(gpu=4, priority=-1)).answer is Answer.WAITS
    assert forecast(there, job(gpu=8, priority=5)).preempts == ("gpus/lower", "gpus/low")


def test_a_share_is_taken_back_from_those_that_borrowed_it_last() -> None:
    running = [holds("first", 8, "other"), holds("second", 4, "other", created=5, priority=9)]
    there = state(gpus(cohort="all", **PREEMPTS), lender(used=12), workloads=running)
    assert forecast(there, job(gpu=6)).preempts == ("other/first",)
    assert forecast(there, job(gpu=4)).preempts == ()
    alike = [holds("first", 8, "other"), holds("second", 4, "other", created=5)]
    there = state(gpus(cohort="all", **PREEMPTS), lender(used=12), workloads=alike)
    assert forecast(there, job(gpu=6)).preempts == ("other/second",)


def test_a_share_of_one_flavor_is_taken_back_also_by_a_queue_that_borrows_another() -> None:
    own = cluster_queue(
        "gpus", ("h100", {GPU: 4}), ("a100", {GPU: 8}), cohort="all", used={("h100", GPU): "6"}, **PREEMPTS
    )
    other = cluster_queue(
        "other", ("h100", {GPU: 2}), ("a100", {GPU: 0}), cohort="all", used={("a100", GPU): "8"}
    )
    running = [
        holds("own", 6),
        workload("borrows", namespace="other", admitted=("other", "a100", {GPU: "8"})),
    ]
    assert forecast(state(own, other, workloads=running), job(gpu=4)) == Verdict(
        answer=Answer.PREEMPTS, preempts=("other/borrows",), flavors={GPU: "a100"}
    )


def test_a_share_is_taken_back_also_from_jobs_that_cannot_be_seen() -> None:
    there = state(gpus(cohort="all", **PREEMPTS), lender(used=12))
    assert forecast(there, job(gpu=8)).preempts == ("jobs of ClusterQueue other",)


def test_where_a_priority_that_cannot_be_seen_decides_it_is_not_sure() -> None:
    own = state(gpus(8, **PREEMPTS))
    verdict = forecast(own, job(gpu=4, priority=5))
    assert (verdict.answer, verdict.sure) == (Answer.WAITS, False)
    assert forecast(own, job(gpu=9)).answer is Answer.NEVER
    assert forecast(state(gpus(4, **PREEMPTS)), job(gpu=4)).sure is True
    seen = state(gpus(8, **PREEMPTS), workloads=[holds("all", 8)])
    assert forecast(seen, job(gpu=4)) == Verdict(
        answer=Answer.WAITS, short=(Short(GPU, "h100", 4 * ONE, 0, 8 * ONE),)
    )
    lower: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "LowerPriority"}}
    borrowed = state(gpus(cohort="all", **lower), lender(used=16))
    assert forecast(borrowed, job(gpu=8, priority=5)).sure is False
    elsewhere = cluster_queue("elsewhere", ("h100", {GPU: 8}), used={("h100", GPU): "8"})
    there = state(gpus(8, **lower), elsewhere, workloads=[holds("all", 8)])
    assert forecast(there, job(gpu=8, priority=5)).sure is True


def test_who_stops_gives_back_only_what_its_pods_still_have() -> None:
    """An initializer of it has ended, and Kueue has taken that quota back."""
    low = holds("low", 8, priority=-1)
    low["status"]["admission"]["podSetAssignments"][0]["count"] = 4
    low["status"]["reclaimablePods"] = [{"name": "node", "count": 3}]
    there = state(gpus(8, **PREEMPTS), workloads=[low])
    assert [dict(holder.used) for holder in there.holders] == [{("h100", GPU): 2 * ONE}]
    assert forecast(there, job(gpu=2, priority=5)).preempts == ("gpus/low",)
    assert forecast(there, job(gpu=4, priority=5)).answer is Answer.WAITS


def test_nobody_is_stopped_for_a_job_that_would_borrow() -> None:
    running = [holds("all", 16, "other")]
    there = state(gpus(cohort="all", **PREEMPTS), lender(used=16), workloads=running)
    assert forecast(there, job(gpu=9, priority=5)).answer is Answer.WAITS
    bold: dict[str, Any] = {
        "preemption": {**PREEMPTS["preemption"], "borrowWithinCohort": {"policy": "LowerPriority"}}
    }
    there = state(gpus(cohort="all", **bold), lender(used=16), workloads=running)
    assert forecast(there, job(gpu=9, priority=5)).preempts == ("other/all",)
    assert forecast(there, job(gpu=9)).answer is Answer.WAITS


def test_nobody_is_stopped_if_that_would_not_do() -> None:
    running = [holds("low", 2, priority=-1), holds("high", 6, priority=9)]
    there = state(gpus(8, **PREEMPTS), workloads=running)
    assert forecast(there, job(gpu=4)).answer is Answer.WAITS


# --- what cannot be ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "door", "why"),
    [
        ({"stopPolicy": "Hold"}, {}, "ClusterQueue gpus is stopped (Hold)"),
        ({}, {"stopPolicy": "HoldAndDrain"}, "LocalQueue default is stopped (HoldAndDrain)"),
    ],
)
def test_a_stopped_queue_admits_nothing(queue: Any, door: Any, why: str) -> None:
    new = dataclasses.replace(job(gpu=1), closed=closed(local_queue("default", "gpus", **door)))
    assert forecast(state(gpus(**queue)), new) == Verdict(answer=Answer.WAITS, why=why)


def test_a_queue_that_is_not_active_says_why() -> None:
    queue = gpus()
    message = "Can't admit new workloads: references missing ResourceFlavor(s): [h100]."
    queue["status"]["conditions"] = [{"type": "Active", "status": "False", "message": message}]
    assert forecast(state(queue), job(gpu=1)).why == f"ClusterQueue gpus is not active: {message}"


def test_of_a_queue_that_cannot_be_seen_nothing_is_known() -> None:
    verdict = forecast(State(), job(gpu=1))
    assert said(verdict) == "starts or waits: ClusterQueue gpus cannot be seen"
    assert (verdict.answer, verdict.sure) == (Answer.UNKNOWN, False)


def test_without_the_other_queues_of_the_cohort_it_is_not_sure() -> None:
    there = state(gpus(cohort="all"), whole=False)
    assert forecast(there, job(gpu=8)).sure is False
    verdict = forecast(there, job(gpu=9))
    assert (verdict.answer, verdict.sure) == (Answer.WAITS, False)
    assert said(verdict).startswith("waits as far as you may see: 9 nvidia.com/gpu")
    assert forecast(state(gpus(), whole=False), job(gpu=8)).sure is True


def test_checks_that_come_after_the_quota_are_named() -> None:
    checked = gpus(admissionChecksStrategy={"admissionChecks": [{"name": "provision"}]})
    verdict = forecast(state(checked), job(gpu=1))
    assert said(verdict) == "starts now, if provision lets it"


# --- what a JobSet asks for -------------------------------------------------------


def test_a_jobset_asks_for_the_pods_of_all_its_jobs_with_the_defaults_of_its_namespace() -> None:
    def replicated(name: str, replicas: int, parallelism: int, resources: Any, **spec: Any) -> Any:
        containers = [{"name": "node", **({"resources": resources} if resources else {})}]
        template = {"spec": {"containers": containers, **spec}}
        jobs = {"parallelism": parallelism, "completions": parallelism, "template": template}
        return {"name": name, "replicas": replicas, "template": {"spec": jobs}}

    toleration = {"key": "x", "operator": "Exists"}
    jobset = {
        "spec": {
            "replicatedJobs": [
                replicated("launcher", 1, 1, None),
                replicated(
                    "node",
                    2,
                    4,
                    {"limits": {GPU: "8"}, "requests": {"cpu": "2"}},
                    nodeSelector={"pool": "h100"},
                    tolerations=[toleration],
                ),
            ]
        }
    }
    assert pod_sets_of(jobset, {"cpu": "500m", "memory": "1Gi"}) == (
        PodSet(requests={"cpu": ONE // 2, "memory": 2**30 * ONE}, count=1),
        PodSet(
            requests={GPU: 64 * ONE, "cpu": 16 * ONE, "memory": 8 * 2**30 * ONE},
            count=8,
            selector={"pool": "h100"},
            tolerations=(toleration,),
        ),
    )


@pytest.mark.parametrize("value", [None, "", 3, [], {"x": 1}, "many", "\x1b[31m"])
def test_any_object_is_read_as_far_as_it_can_be(value: Any) -> None:
    queue = gpus()
    for path in ("spec", "status"):
        forecast(state({**queue, path: value}), job(gpu=1))
        for key in queue[path]:
            forecast(state({**queue, path: {**queue[path], key: value}}), job(gpu=1))
