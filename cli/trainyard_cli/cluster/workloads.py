"""The unfinished TrainJobs of a cluster, and what each depends on; needs only read rights.

Called by `impact`. What the user may not see is noted and does not end the
look, except for the TrainJobs themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from trainyard_api import names, quantity
from trainyard_api.json_types import Json
from trainyard_assist import read
from trainyard_assist.jobs import RUNNING
from trainyard_delivery.impact import Job, Ref, State
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError, Resource
from trainyard_kube.resources import JOBSETS, LOCAL_QUEUES, NODES, PODS, TRAINJOBS, WORKLOADS
from trainyard_operator.core import model
from trainyard_operator.core.decide.views import jobset_of, runtime_key, trainjob_of
from trainyard_operator.core.status import conditions, display_state

from .lists import everything, undecoded


@dataclass
class Seen:
    """The jobs, and what could not be seen, each with the reason."""

    jobs: list[Job] = field(default_factory=list)
    unseen: dict[str, str] = field(default_factory=dict)


async def look(client: Client, *, pools: bool) -> Seen:
    """The TrainJobs of all namespaces; with `pools`, also the node pools that their pods are on.

    Raises the client's errors if the TrainJobs cannot be seen.
    """
    seen = Seen()
    trainjobs = [trainjob_of(manifest) async for manifest in everything(client, TRAINJOBS)]
    jobsets, schedulers = {}, {}
    async for raw in _tried(client, JOBSETS, seen):
        child = jobset_of(raw).jobset
        jobsets[child.namespace, child.name] = child
        schedulers[child.namespace, child.name] = _schedulers(msgspec.json.decode(raw))
    admitted = {
        uid: workload async for workload in _json(client, WORKLOADS, seen) for uid in [_job(workload)] if uid
    }
    queues = {
        (queue["metadata"]["namespace"], queue["metadata"]["name"]): str(
            queue["spec"].get("clusterQueue", "")
        )
        async for queue in _json(client, LOCAL_QUEUES, seen)
    }
    places = await _places(client, seen) if pools else {}
    for trainjob in trainjobs:
        if conditions.finished(conditions.of(trainjob.status)):
            continue
        key = (trainjob.namespace, trainjob.name)
        jobset = jobsets.get(key)
        workload = admitted.get(trainjob.uid) or admitted.get("" if jobset is None else jobset.uid, {})
        place, by = places.get(key, frozenset()), schedulers.get(key, frozenset())
        job = _seen(trainjob, jobset, workload, queues, pools=place, schedulers=by)
        hidden = jobset is None and JOBSETS.full_name in seen.unseen
        seen.jobs.append(_by_its_state(job, trainjob) if hidden else job)
    return seen


def _by_its_state(job: Job, trainjob: model.TrainJob) -> Job:
    """The job by the state that the operator reports, because its JobSet could not be seen."""
    state = read.text(trainjob.status, names.STATUS_FIELD, "state")
    if state in RUNNING:
        return replace(job, state=State.RUNNING, started=True)
    waits = (display_state.State.QUEUED, display_state.State.SUSPENDED)
    return replace(job, started=state in waits)


def _seen(
    trainjob: model.TrainJob,
    jobset: model.JobSet | None,
    workload: Json,
    queues: Mapping[tuple[str, str], str],
    *,
    pools: frozenset[str],
    schedulers: frozenset[str],
) -> Job:
    runtime = runtime_key(trainjob)
    own = jobset if jobset is not None and jobset.owner_uid == trainjob.uid else None
    admission = workload.get("status", {}).get("admission") or {}
    local = trainjob.labels.get(names.QUEUE_LABEL) or workload.get("spec", {}).get("queueName") or ""
    return Job(
        namespace=trainjob.namespace,
        name=trainjob.name,
        state=_state(trainjob, jobset, workload),
        runtime=Ref(runtime.kind, runtime.namespace or "", runtime.name),
        started=own is not None,
        local_queue=local,
        cluster_queue=admission.get("clusterQueue") or queues.get((trainjob.namespace, local), ""),
        flavors=frozenset(
            flavor
            for assigned in admission.get("podSetAssignments") or ()
            for flavor in (assigned.get("flavors") or {}).values()
        ),
        pools=pools,
        schedulers=schedulers,
        priority_class=trainjob.labels.get(names.PRIORITY_CLASS_LABEL, ""),
        requests=_requests(workload),
        held_by_kueue=trainjob.held_by_kueue,
        revision="" if own is None else own.annotations.get(names.RUNTIME_REVISION_ANNOTATION, ""),
    )


def _state(trainjob: model.TrainJob, jobset: model.JobSet | None, workload: Json) -> State:
    if (jobset is not None and not jobset.suspend) or _runs_elsewhere(trainjob, workload):
        return State.RUNNING
    suspended = trainjob.suspended and not display_state.resumed_by_kueue(trainjob, jobset)
    return State.SUSPENDED if suspended else State.QUEUED


def _runs_elsewhere(trainjob: model.TrainJob, workload: Json) -> bool:
    """Whether MultiKueue runs it in a worker cluster: its JobSet is there alone."""
    if trainjob.spec.get("managedBy") != names.MANAGED_BY_MULTIKUEUE:
        return False
    return conditions.is_true(conditions.of(workload.get("status") or {}), "Admitted")


def _requests(workload: Json) -> dict[str, str]:
    """The request of a pending Workload, all its pods together."""
    total: defaultdict[str, quantity.Quantity] = defaultdict(lambda: quantity.ZERO)
    for pod_set in workload.get("status", {}).get("resourceRequests") or ():
        for resource, amount in (pod_set.get("resources") or {}).items():
            total[resource] += quantity.parse(amount)
    return {resource: str(amount) for resource, amount in total.items()}


async def _places(client: Client, seen: Seen) -> dict[tuple[str, str], frozenset[str]]:
    """By namespace and name of a JobSet: the node pools that its pods are on."""
    pool_of = {
        node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(names.POOL_LABEL)
        async for node in _json(client, NODES, seen)
    }
    pools_of: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    async for pod in _json(client, PODS, seen, {"labelSelector": names.JOBSET_NAME_LABEL}):
        metadata = pod["metadata"]
        if pool := pool_of.get(pod["spec"].get("nodeName")):
            pools_of[metadata["namespace"], metadata["labels"][names.JOBSET_NAME_LABEL]].add(pool)
    return {key: frozenset(pools) for key, pools in pools_of.items()}


def _schedulers(jobset: Json) -> frozenset[str]:
    """The schedulerNames of the pods of a JobSet."""
    jobs = (jobset.get("spec") or {}).get("replicatedJobs") or ()
    pods = (job["template"]["spec"]["template"].get("spec") or {} for job in jobs)
    return frozenset(pod["schedulerName"] for pod in pods if pod.get("schedulerName"))


def _job(workload: Json) -> str:
    """The uid of the job that a Workload stands for."""
    return str((workload["metadata"].get("labels") or {}).get(names.JOB_UID_LABEL) or "")


async def _json(
    client: Client, resource: Resource, seen: Seen, params: Mapping[str, str] | None = None
) -> AsyncIterator[dict[str, Any]]:
    async for raw in _tried(client, resource, seen, params):
        yield msgspec.json.decode(raw, type=dict[str, Any])


async def _tried(
    client: Client, resource: Resource, seen: Seen, params: Mapping[str, str] | None = None
) -> AsyncIterator[msgspec.Raw]:
    """The objects of a kind in all namespaces; none if the cluster does not know the kind."""
    try:
        async for raw in undecoded(client, resource, params=params):
            yield raw
    except NotFoundError:
        return
    except ForbiddenError:
        seen.unseen[resource.full_name] = "you are not allowed to list them"
    except ApiError as error:
        seen.unseen[resource.full_name] = str(error)
