"""Makes values of Kueue's objects (kueue.x-k8s.io/v1beta2); tolerates anything that is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trainyard_api.capacity import Group, Quota
from trainyard_api.json_types import Json
from trainyard_api.pools import Taint, TaintEffect
from trainyard_operator.core.build import templates
from trainyard_operator.core.build.resources import pod_requests

from .. import queue_place, read
from .model import (
    Cohort,
    Expression,
    Flavor,
    Holder,
    Job,
    Key,
    PodSet,
    Policy,
    Queue,
    Rules,
    State,
)

_EFFECTS: Final = {str(effect): effect for effect in TaintEffect}
_MAKES_ROOM: Final = "WaitingForPreemptedWorkloads"
"""Kueue's reason while others are being stopped for a Workload."""
_COMES: Final = "PendingEvaluation"
"""Its reason before it has looked at it."""


def state(
    *,
    cluster_queues: Iterable[Json],
    cohorts: Iterable[Json] = (),
    flavors: Iterable[Json] = (),
    local_queues: Iterable[Json] = (),
    workloads: Iterable[Json] = (),
    whole: bool = True,
) -> State:
    """The quota, and who has it and wants it.

    Args:
        cluster_queues: Those that can be seen.
        cohorts: The same of Cohorts; one that is only named is a Cohort without quota.
        flavors: ResourceFlavors.
        local_queues: By which the Workloads that wait are in a ClusterQueue.
        workloads: Those that can be seen.
        whole: Whether `cluster_queues` are all that share their quota.
    """
    workloads = [workload for workload in workloads if not read.holds(workload, "Finished")]
    queues = {queue.name: queue for queue in map(_queue, cluster_queues)}
    holders = tuple(_holder(workload) for workload in workloads if read.holds(workload, "QuotaReserved"))
    doors = {read.key(door): door for door in local_queues}
    waiting = (
        job_of(workload, doors.get(read.local_queue(workload)))
        for workload in workloads
        if queue_place.waits(workload)
    )
    return State(
        queues=queues,
        cohorts={
            read.name(cohort): Cohort(
                read.name(cohort), read.text(cohort, "spec", "parentName"), _quotas(cohort)
            )
            for cohort in cohorts
        },
        flavors={read.name(flavor): _flavor(flavor) for flavor in flavors},
        holders=tuple(holder for holder in holders if holder.queue in queues),
        waiting=tuple(job for job in waiting if not job.closed),
        whole=whole,
    )


def job_of(workload: Json, local_queue: Json | None) -> Job:
    """A Workload as a job that waits in the LocalQueue, or in none that can be seen."""
    door = local_queue or {}
    considered = read.condition(workload, "QuotaReserved")
    return Job(
        name=queue_place.job(workload),
        queue=read.text(door, "spec", "clusterQueue"),
        pods=tuple(_pods(workload)),
        priority=read.number(workload, "spec", "priority"),
        created=read.moment(workload, "metadata", "creationTimestamp"),
        considered=considered is not None and read.text(considered, "reason") != _COMES,
        preempting=read.text(considered, "reason") == _MAKES_ROOM,
        closed=closed(door),
        backoff=queue_place.backoff(workload),
    )


def closed(local_queue: Json) -> str:
    """Why a LocalQueue admits nothing, in words; empty if it does."""
    policy = read.text(local_queue, "spec", "stopPolicy")
    if policy not in ("", "None"):
        return f"LocalQueue {read.name(local_queue)} is stopped ({policy})"
    return ""


def pod_sets_of(jobset: Json, defaults: Mapping[str, str] | None = None) -> tuple[PodSet, ...]:
    """The pod sets that Kueue counts for a JobSet: the pods of each ReplicatedJob.

    Args:
        jobset: As the operator makes it.
        defaults: What a container of the namespace requests that says nothing (its LimitRange's
            `defaultRequest`).

    Raises:
        ValueError: An amount is no quantity.
    """
    pod_sets = []
    for replicated in read.objects(jobset, "spec", "replicatedJobs"):
        job = _with_defaults(replicated, defaults or {})
        spec = job["template"]["spec"]
        parallel = read.number(spec, "parallelism", default=1)
        pods = min(parallel, read.number(spec, "completions", default=parallel))
        pods *= read.number(job, "replicas", default=1)
        requests = pod_requests(job, limits_count=True)
        pod = templates.pod_template(job).get("spec") or {}
        pod_sets.append(
            PodSet(
                requests={resource: amount.nano * pods for resource, amount in requests.items()},
                count=pods,
                selector=read.texts(pod, "nodeSelector"),
                tolerations=tuple(read.objects(pod, "tolerations")),
                affinity=tuple(_terms(pod)),
            )
        )
    return tuple(pod_sets)


def _with_defaults(job: Json, defaults: Mapping[str, str]) -> Json:
    def edit(template: Json) -> Json:
        spec = dict(template.get("spec") or {})
        for kind in ("initContainers", "containers"):
            if kind in spec:
                spec[kind] = [_requesting(container, defaults) for container in spec[kind]]
        return {**template, "spec": spec}

    return templates.with_pod_template(job, edit)


def _requesting(container: Json, defaults: Mapping[str, str]) -> Json:
    resources = container.get("resources") or {}
    requests = {**defaults, **(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _pods(workload: Json) -> Iterator[PodSet]:
    """As Kueue counted them; before it has looked at the Workload, nothing."""
    templates_of = {_name(pods): pods for pods in read.objects(workload, "spec", "podSets")}
    for counted in read.objects(workload, "status", "resourceRequests"):
        pods = templates_of.get(_name(counted), {})
        spec = read.at(pods, "template", "spec")
        yield PodSet(
            requests=_amounts(read.at(counted, "resources")),
            count=read.number(pods, "count", default=1),
            selector=read.texts(spec, "nodeSelector"),
            tolerations=tuple(read.objects(spec, "tolerations")),
            affinity=tuple(_terms(spec)),
        )


def _terms(pod: Any) -> Iterator[tuple[Expression, ...]]:
    """The terms of the pod's required node affinity."""
    required = read.at(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in read.objects(required, "nodeSelectorTerms"):
        yield tuple(
            Expression(
                read.text(expression, "key"), read.text(expression, "operator"), _texts(expression, "values")
            )
            for expression in read.objects(term, "matchExpressions")
        )


def _holder(workload: Json) -> Holder:
    used: defaultdict[Key, int] = defaultdict(int)
    # Of a job that goes on, such as one whose initializer has ended, Kueue takes the quota back at once.
    ended = {
        _name(pods): read.number(pods, "count")
        for pods in read.objects(workload, "status", "reclaimablePods")
    }
    for pods in read.objects(workload, "status", "admission", "podSetAssignments"):
        flavors = read.texts(pods, "flavors")
        count = max(1, read.number(pods, "count", default=1))
        left = max(0, count - ended.get(_name(pods), 0))
        for resource, nano in _amounts(read.at(pods, "resourceUsage")).items():
            if resource in flavors:
                used[flavors[resource], resource] += nano * left // count
    return Holder(
        name=queue_place.job(workload),
        queue=read.text(workload, "status", "admission", "clusterQueue"),
        used=dict(used),
        priority=read.number(workload, "spec", "priority"),
        created=read.moment(workload, "metadata", "creationTimestamp"),
        since=read.moment(read.condition(workload, "QuotaReserved"), "lastTransitionTime"),
        evicted=read.holds(workload, "Evicted"),
    )


def _queue(cluster_queue: Json) -> Queue:
    spec = read.at(cluster_queue, "spec")
    groups = tuple(
        Group(
            _texts(group, "coveredResources"),
            tuple(_name(flavor) for flavor in read.objects(group, "flavors")),
        )
        for group in read.objects(spec, "resourceGroups")
    )
    checks = read.objects(spec, "admissionChecksStrategy", "admissionChecks")
    return Queue(
        name=read.name(cluster_queue),
        cohort=read.text(spec, "cohortName"),
        groups=groups,
        quotas=_quotas(cluster_queue),
        used=_used(cluster_queue),
        strict=read.text(spec, "queueingStrategy") == "StrictFIFO",
        closed=_closed(cluster_queue),
        rules=_rules(spec),
        checks=tuple(_name(check) for check in checks),
        waiting=read.number(cluster_queue, "status", "pendingWorkloads"),
    )


def _closed(cluster_queue: Json) -> str:
    named = f"ClusterQueue {read.name(cluster_queue)}"
    policy = read.text(cluster_queue, "spec", "stopPolicy")
    if policy not in ("", "None"):
        return f"{named} is stopped ({policy})"
    active = read.condition(cluster_queue, "Active")
    if read.text(active, "status") == "False":
        return f"{named} is not active: {read.text(active, 'message') or read.text(active, 'reason')}"
    return ""


def _rules(spec: Any) -> Rules:
    preemption, fungibility = read.at(spec, "preemption"), read.at(spec, "flavorFungibility")
    threshold = read.at(preemption, "borrowWithinCohort", "maxPriorityThreshold")
    return Rules(
        within=_policy(read.text(preemption, "withinClusterQueue")),
        reclaim=_policy(read.text(preemption, "reclaimWithinCohort")),
        borrows=read.text(preemption, "borrowWithinCohort", "policy") not in ("", "Never"),
        threshold=threshold if isinstance(threshold, int) else None,
        next_if_borrowing=read.text(fungibility, "whenCanBorrow") == "TryNextFlavor",
        next_if_preempting=read.text(fungibility, "whenCanPreempt") != "MayStopSearch",
        rather_preempts=read.text(fungibility, "preference") == "PreemptionOverBorrowing",
    )


def _policy(word: str) -> Policy:
    return next((policy for policy in Policy if policy == word), Policy.NEVER)


def _quotas(of: Json) -> dict[Key, Quota]:
    return {
        (_name(flavor), _name(resource)): Quota(
            _nano(resource, "nominalQuota") or 0,
            _nano(resource, "borrowingLimit"),
            _nano(resource, "lendingLimit"),
        )
        for group in read.objects(of, "spec", "resourceGroups")
        for flavor in read.objects(group, "flavors")
        for resource in read.objects(flavor, "resources")
    }


def _used(cluster_queue: Json) -> dict[Key, int]:
    return {
        (_name(flavor), _name(resource)): _nano(resource, "total") or 0
        for flavor in read.objects(cluster_queue, "status", "flavorsReservation")
        for resource in read.objects(flavor, "resources")
    }


def _flavor(flavor: Json) -> Flavor:
    spec = read.at(flavor, "spec")
    return Flavor(
        labels=read.texts(spec, "nodeLabels"),
        taints=tuple(
            Taint(
                key=read.text(taint, "key"),
                value=read.text(taint, "value"),
                effect=_EFFECTS[read.text(taint, "effect")],
            )
            for taint in read.objects(spec, "nodeTaints")
            if read.text(taint, "key") and read.text(taint, "effect") in _EFFECTS
        ),
        tolerations=tuple(read.objects(spec, "tolerations")),
    )


def _texts(of: Json, key: str) -> tuple[str, ...]:
    items = of.get(key)
    return tuple(item for item in items if isinstance(item, str)) if isinstance(items, list) else ()


def _amounts(amounts: Any) -> dict[str, int]:
    resources = amounts if isinstance(amounts, Mapping) else ()
    return {name: nano for name in resources if (nano := _nano(amounts, name)) is not None}


def _nano(of: Json, key: str) -> int | None:
    amount = read.amount(of, key)
    return None if amount is None else amount.nano


def _name(of: Json) -> str:
    """The name of a part of an object, such as a flavor."""
    return read.text(of, "name")
