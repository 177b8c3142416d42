"""The reads of `trainyard explain`: a bounded number of requests, in three concurrent rounds.

The TrainJob; then what belongs to it; then what `follow_ups` asks for. What
the user may not see, or what times out, is noted and does not end the look.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.object_names import is_name
from trainyard_assist import queue_place as places
from trainyard_assist.explain import FollowUps, Observation, Subject, follow_ups
from trainyard_assist.explain.facts import named_runtime
from trainyard_assist.explain.follow_ups import LogOf
from trainyard_assist.explain.model import Silence
from trainyard_assist.explain.rules import kueue, silence
from trainyard_assist.queue_place import QueuePlace
from trainyard_assist.read import name, number, text, uid
from trainyard_assist.text import tail
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError, Resource
from trainyard_kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    JOBSETS,
    LEASES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RUNTIMES,
    TRAINJOBS,
    VISIBLE_QUEUES,
    VOLUME_CLAIMS,
    WORKLOADS,
)

from .patience import in_time

T = TypeVar("T")

MOST: Final = 2000
"""Objects of one kind that are looked at, at most."""
MOST_NODES: Final = 64
"""Nodes that are fetched one by one, at most."""
MOST_CLAIMS: Final = 8
MOST_SILENT: Final = 64
"""Pods whose logs are read, one after the other, as long as their ranks are silent."""
_LOG_BYTES: Final = 16384
_LOG_LINES: Final = 20
_SILENT_LINES: Final = 5
"""Once ranks are silent, only their launcher may say more."""


@dataclass(frozen=True, slots=True)
class _Controller:
    """The Deployment of a controller, as a stack installs it."""

    subject: Subject
    namespace: str
    name: str
    labels: str
    """Selects it, wherever it is installed: of upstream's Deployments, only it has these labels."""


_JOBSET: Final = _Controller(
    Subject.JOBSET_CONTROLLER,
    names.JOBSET_NAMESPACE,
    names.JOBSET_CONTROLLER,
    # Its component is controller in upstream's chart, and manager in the manifests.
    "app.kubernetes.io/name=jobset",
)
_KUEUE: Final = _Controller(
    Subject.KUEUE,
    names.KUEUE_NAMESPACE,
    names.KUEUE_CONTROLLER,
    # Kueue's dashboard has only the first one.
    "app.kubernetes.io/name=kueue,control-plane=controller-manager",
)


async def observe(client: Client, namespace: str, job: str, operator_namespace: str) -> Observation:
    """Look at the TrainJob and at everything that it needs to run.

    Raises the client's errors if the TrainJob itself cannot be seen.
    """
    trainjob = await in_time(client.get(TRAINJOBS.path(namespace, job)))
    look = _Look(client, namespace)
    own = {"labelSelector": f"{names.JOBSET_NAME_LABEL}={job}"}
    runtime = named_runtime(Observation(now=client.time.now(), trainjob=trainjob))
    kind = RUNTIMES.get(runtime.kind)
    async with asyncio.TaskGroup() as all_at_once:
        go = all_at_once.create_task
        runtimes = go(look.get(Subject.RUNTIME, kind, runtime.namespace, runtime.name))
        jobset = go(look.get(Subject.JOBSET, JOBSETS, namespace, job))
        workloads = go(look.workloads(trainjob, jobset))
        jobs = go(look.all(Subject.JOBS, JOBS, namespace, **own))
        pods = go(look.all(Subject.PODS, PODS, namespace, **own))
        claims = go(look.all(Subject.CLAIMS, VOLUME_CLAIMS, namespace))
        events = go(look.all(Subject.EVENTS, EVENTS, namespace, fieldSelector="type=Warning"))
    first = Observation(
        now=client.time.now(),
        trainjob=trainjob,
        runtime=runtimes.result(),
        workloads=workloads.result(),
        jobset=jobset.result(),
        jobs=jobs.result(),
        pods=pods.result(),
        claims=claims.result(),
        events=events.result(),
        unseen=look.unseen,
        options=client.credentials.options,
    )
    return await _followed(look, first, follow_ups(first), operator_namespace)


async def _followed(
    look: _Look, first: Observation, needs: FollowUps, operator_namespace: str
) -> Observation:
    async with asyncio.TaskGroup() as all_at_once:
        go = all_at_once.create_task
        runtimes = go(look.runtimes(needs, named_runtime(first).name))
        leases = go(look.leases(operator_namespace if needs.operator else None))
        jobset_controller = go(look.controller(_JOBSET if needs.jobset_controller else None))
        kueues = go(look.controller(_KUEUE if needs.kueue else None))
        groups = go(look.pod_groups(needs.pod_groups, name(first.trainjob)))
        nodes = go(look.nodes(needs))
        log = go(look.log(needs))
        silences = go(look.silences(needs))
        claim_events = go(look.claim_events(needs.claims))
        queue = go(look.queue(needs))
        preemptor = go(look.workload_of(needs.preemptor))
    place, local_queues = queue.result()
    return replace(
        first,
        runtimes=runtimes.result(),
        leases=leases.result(),
        jobset_controller=jobset_controller.result(),
        kueue=kueues.result(),
        pod_groups=groups.result(),
        nodes=nodes.result(),
        log=log.result(),
        silences=silences.result(),
        events=(*first.events, *claim_events.result()),
        queue_place=place,
        local_queues=local_queues,
        preemptor=preemptor.result(),
        unseen=look.unseen,
    )


@dataclass(frozen=True, slots=True)
class Expected:
    """The place in the queue of a job that does not exist yet."""

    place: QueuePlace | None
    """None if that cannot be seen."""
    unseen: str
    """Why the place cannot be seen."""


async def expected(client: Client, namespace: str, workload: Json) -> Expected:
    """The place of a Workload in its queue, and the holders of quota there.

    Args:
        client: Whose rights are used.
        namespace: That of the queue.
        workload: As much of it as decides its place: its queue, its priority and its time of creation.
    """
    look = _Look(client, namespace)
    place, seen = await look.place(workload, places.expected_place)
    if place is not None and not seen:  # nor the Workloads, which tell who holds quota
        place = replace(place, only_own=True)
    return Expected(place, look.unseen.get(Subject.QUEUE, ""))


@dataclass(frozen=True, slots=True)
class _Visible:
    """The queues, as far as the user may see them."""

    workloads: Sequence[Json]
    queues: Sequence[Json]
    only_own: bool
    """Only those of the TrainJob's namespace."""


class _Look:
    """Reads one namespace, and notes what could not be seen."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unseen: dict[Subject, str] = {}

    async def get(
        self, subject: Subject, resource: Resource | None, namespace: str | None, name: str
    ) -> Json | None:
        """One object; None if there is none, the user may not see it, or it is not requested."""
        if resource is None or not is_name(name):
            return None
        request = self._client.get(resource.path(namespace, name))
        return await self._tried(subject, f"get {resource.full_name}", request)

    async def all(
        self, subject: Subject, resource: Resource, namespace: str | None, **params: str
    ) -> tuple[Json, ...]:
        """The objects of a kind, at most `MOST`."""
        path = resource.path(namespace)
        objects = await self._tried(subject, f"list {resource.full_name}", self._pages(path, params))
        if objects is not None and len(objects) > MOST:
            self.unseen[subject] = f"there are too many, only the first {MOST} were looked at"
        return () if objects is None else tuple(objects[:MOST])

    async def _pages(self, path: str, params: Mapping[str, str]) -> list[Json]:
        objects: list[Json] = []
        async for page in self._client.list(path, params=params):
            objects += (msgspec.json.decode(raw, type=dict[str, Any]) for raw in page.items or ())
            if len(objects) > MOST:
                break
        return objects

    async def runtimes(self, needs: FollowUps, missing: str) -> tuple[Json, ...]:
        """The visible runtimes of the catalog and of the namespace, if the TrainJob's own is missing."""
        runtimes: list[Json] = []
        for kind in RUNTIMES.values() if needs.runtimes and is_name(missing) else ():
            path = kind.path(self._namespace if kind.namespaced else None)
            with contextlib.suppress(ApiError):
                # Items of a list do not include their kind.
                runtimes += [
                    {**runtime, "kind": kind.kind} for runtime in await in_time(self._pages(path, {}))
                ]
        return tuple(runtimes)

    async def leases(self, namespace: str | None) -> tuple[Json, ...]:
        """Leases of our operator and of Kubeflow Trainer's own controller, which may be the active one."""
        if namespace is None:
            return ()
        places = ((namespace, names.OPERATOR), (names.KUBEFLOW_NAMESPACE, names.TRAINER_LEASE))
        leases = await asyncio.gather(
            *(self.get(Subject.OPERATOR_LEASE, LEASES, where, named) for where, named in places)
        )
        return tuple(lease for lease in leases if lease is not None)

    async def controller(self, controller: _Controller | None) -> Json | None:
        """Its Deployment: that of a stack, or else one of the site's own; None if it is not requested.

        Of several of the site's own, one with pods: what is left of another, or has its labels by chance, is
        no outage. Who may not list the Deployments of all namespaces sees only that of a stack.
        """
        if controller is None:
            return None
        usual = await self.get(controller.subject, DEPLOYMENTS, controller.namespace, controller.name)
        if usual is not None or controller.subject in self.unseen:
            return usual
        labels = {"labelSelector": controller.labels}
        with contextlib.suppress(ApiError):
            deployments = await in_time(self._pages(DEPLOYMENTS.path(None), labels))
            of_users = await self._namespaces_of_users() if deployments else frozenset()
            others = [each for each in deployments if text(each, "metadata", "namespace") not in of_users]
            return max(others, key=lambda each: number(each, "status", "availableReplicas"), default=None)
        return None

    async def _namespaces_of_users(self) -> frozenset[str]:
        """Those with what users make: the TrainJob's own and, if they can be listed, those of tenants."""
        labelled = {"labelSelector": names.TENANT_LABEL}
        tenants: list[Json] = []
        with contextlib.suppress(ApiError):
            tenants = await in_time(self._pages(NAMESPACES.path(), labelled))
        return frozenset({self._namespace, *map(name, tenants)})

    async def pod_groups(self, api_versions: tuple[str, ...], name: str) -> tuple[Json, ...]:
        """The PodGroups of the gang schedulers that the pods name."""
        versions = (version.split("/") for version in api_versions)
        kinds = [Resource(group, version, "podgroups", names.POD_GROUP) for group, version in versions]
        groups = await asyncio.gather(
            *(self.get(Subject.POD_GROUPS, kind, self._namespace, name) for kind in kinds)
        )
        return tuple(group for group in groups if group is not None)

    async def nodes(self, needs: FollowUps) -> tuple[Json, ...]:
        """The nodes that pods are on; all nodes if a pod has none yet."""
        if needs.all_nodes or len(needs.nodes) > MOST_NODES:
            return await self.all(Subject.NODES, NODES, None)
        nodes = await asyncio.gather(*(self.get(Subject.NODES, NODES, None, n) for n in needs.nodes))
        return tuple(node for node in nodes if node is not None)

    async def log(self, needs: FollowUps) -> tuple[str, ...]:
        """The last lines of the container that failed first."""
        if needs.log is None:
            return ()
        log = await self._tried(Subject.LOGS, "get pods/log", self._last_lines(needs.log, _LOG_LINES))
        return () if log is None else tail(log)

    async def silences(self, needs: FollowUps) -> tuple[Silence, ...]:
        """Of all pods; of a job that is well, the first log says that there are none."""
        silences: list[Silence] = []
        for log in needs.silent[:MOST_SILENT]:
            try:
                its = silence.of(log.pod, await in_time(self._last_lines(log, _SILENT_LINES)))
            except ApiError:
                return ()
            if its is None:
                return ()
            silences.append(its)
        return tuple(silences)

    async def _last_lines(self, log: LogOf, lines: int) -> str:
        params = {
            "container": log.container,
            "previous": str(log.previous).lower(),
            "tailLines": str(lines),
            "limitBytes": str(_LOG_BYTES),
        }
        return await self._client.text(PODS.path(self._namespace, log.pod, "log"), params=params)

    async def claim_events(self, claims: tuple[str, ...]) -> tuple[Json, ...]:
        """All events about the claims: many are not warnings."""
        by_claim = await asyncio.gather(
            *(
                self.all(
                    Subject.EVENTS,
                    EVENTS,
                    self._namespace,
                    fieldSelector=f"involvedObject.kind={VOLUME_CLAIMS.kind},involvedObject.name={claim}",
                )
                for claim in claims[:MOST_CLAIMS]
            )
        )
        return tuple(event for events in by_claim for event in events)

    async def workloads(self, trainjob: Json, jobset: Awaitable[Json | None]) -> Sequence[Json]:
        """Kueue's Workload for the TrainJob, or for its JobSet if queues hold JobSets."""
        own = await jobset
        if not kueue.concerns(trainjob, own):
            return ()
        uids = ", ".join(uid(job) for job in (trainjob, own) if job is not None)
        mine = f"{names.JOB_UID_LABEL} in ({uids})"
        return await self.all(Subject.WORKLOADS, WORKLOADS, self._namespace, labelSelector=mine)

    async def queue(self, needs: FollowUps) -> tuple[QueuePlace | None, tuple[str, ...]]:
        """Its place in the queue, and the LocalQueues of its namespace."""
        return (
            (None, ()) if needs.workload is None else await self.place(needs.workload, places.reported_place)
        )

    async def place(
        self, workload: Json, in_pending: Callable[[Json, Json, str], QueuePlace | None]
    ) -> tuple[QueuePlace | None, tuple[str, ...]]:
        """The place of a Workload in the queue, and the LocalQueues of its namespace.

        The position is as Kueue reports it, otherwise counted from the visible Workloads. These also tell
        who holds the quota that it lacks.

        Args:
            workload: What waits, or would.
            in_pending: Its place among those that Kueue reports, in the ClusterQueue of this name.
        """
        queue = text(workload, "spec", "queueName")
        if not is_name(queue):
            return None, ()
        path = VISIBLE_QUEUES.path(self._namespace, queue, "pendingworkloads")
        pending, local, visible = await asyncio.gather(
            self._quietly(self._client.get(path)),
            self._quietly(self._client.get(LOCAL_QUEUES.path(self._namespace, queue))),
            self._workloads_and_queues(),
        )
        behind = text(local, "spec", "clusterQueue")
        place = None
        if is_reported := pending is not None and local is not None:
            self.unseen.pop(Subject.QUEUE, None)
            place = in_pending(workload, pending, behind)
        counts_more = place is not None and place.partial and visible is not None and not visible.only_own
        if visible is not None and (counts_more or not is_reported):
            place = places.counted_place(
                workload, visible.workloads, visible.queues, partial=visible.only_own
            )
        if visible is None:
            return place, ()
        if place is not None and behind:
            shared = frozenset({behind}) if visible.only_own else await self._sharing(behind)
            place = places.with_holders(place, workload, visible.workloads, shared, only_own=visible.only_own)
        own = (
            local_queue
            for local_queue in visible.queues
            if text(local_queue, "metadata", "namespace") == self._namespace
        )
        return place, tuple(sorted(map(name, own)))

    async def _workloads_and_queues(self) -> _Visible | None:
        """The Workloads and LocalQueues of the cluster, or if those may not be seen, of the namespace."""
        for within in (None, self._namespace):
            workloads = await self.all(Subject.QUEUE, WORKLOADS, within)
            queues = await self.all(Subject.QUEUE, LOCAL_QUEUES, within)
            if Subject.QUEUE not in self.unseen:
                return _Visible(workloads, queues, only_own=within is not None)
            if within is None:
                del self.unseen[Subject.QUEUE]
        return None

    async def _sharing(self, cluster_queue: str) -> Collection[str]:
        """The ClusterQueues that share their quota with this one, as far as they may be seen."""
        by_kind = await asyncio.gather(
            *(self._quietly(self._pages(kind.path(), {})) for kind in (CLUSTER_QUEUES, COHORTS))
        )
        return places.sharing(cluster_queue, *(objects or () for objects in by_kind))

    async def _quietly(self, request: Awaitable[T]) -> T | None:
        """The answer; None if there is none or the user may not see it: another look says as much."""
        try:
            return await in_time(request)
        except ApiError:
            return None

    async def workload_of(self, job_uid: str) -> Json | None:
        """The Workload of the job with this uid, in any namespace that the user may see."""
        mine = {"labelSelector": f"{names.JOB_UID_LABEL}={job_uid}"}
        for within in (None, self._namespace) if job_uid else ():
            with contextlib.suppress(ApiError):
                return next(iter(await in_time(self._pages(WORKLOADS.path(within), mine))), None)
        return None

    async def _tried(self, subject: Subject, action: str, request: Awaitable[T]) -> T | None:
        try:
            return await in_time(request)
        except NotFoundError:
            pass
        except ForbiddenError:
            self.unseen[subject] = f"you are not allowed to {action}"
        except ApiError as error:
            self.unseen[subject] = str(error)
        return None
