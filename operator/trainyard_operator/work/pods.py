"""The pods of a JobSet, listed now and then while they start: docs/adr/0023.

Called by the controller. Nothing is watched: a cluster has very many pods, and
most jobs run before the first look is due.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import PODS

from ..core import model
from ..core.status import pod_readiness
from ..watch.cache import Key
from .event_lists import Event, EventLists

logger = logging.getLogger(__name__)

_USUAL = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of containers of a pod that waits for its volumes, its network or an image that is being pulled."""
_GATES = "ReadinessGatesNotReady"
"""The kubelet's reason for a pod whose containers are ready, and that waits for somebody else's word."""
_MOUNTED = frozenset({"Pulling", "Pulled"})
"""The kubelet's reasons of Events of a pod that has its volumes."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_OF_PODS: Final = "involvedObject.kind=Pod,reason!=Scheduled,reason!=Created,reason!=Started"
"""Without what all pods have: `Scheduled` comes before a pod waits, and `Pulled` as the last that counts."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Waiting(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    waiting: _Waiting | None = None


class _Container(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Pod)

_Cause = tuple[Reason, str] | None
_Newest = dict[str, tuple[datetime, bool, _Cause]]
"""By uid of a pod: when its newest Event was, whether it then had its volumes, and what it waited for."""


@dataclass(slots=True)
class Start:
    """What is known of a JobSet that starts. `at` and `since` are seconds of one monotonic clock."""

    of: tuple[str, int]
    """Uid of the JobSet, and how often it had restarted."""
    since: float
    at: float
    """When its pods were last looked at; at first, when it began to start."""
    looks: int = 0
    """Consecutive looks without a change."""
    seen: pod_readiness.Nodes | None = None
    counts: Sequence[model.ReplicatedJobStatus] = ()
    """What JobSet counted at the last look."""
    mounted: bool = False
    """Whether the Events of a pod have shown that it has its volumes."""
    reported: bool = False
    """Whether an Event has said that a pod fits no node."""

    def due(self, jobset: model.JobSet) -> float:
        """When the next look is due: soon where something changes, else ever later."""
        if self.seen is None:
            return self.at + pod_readiness.after(self.looks)
        changes = self.looks == 1 or jobset.replicated_jobs_status != self.counts
        return self.at + (pod_readiness.CHANGING if changes else pod_readiness.after(self.looks))


class Pods:
    """Looks at the pods of JobSets that start. `now` is compared with pods, `clock` spaces the looks."""

    def __init__(
        self,
        client: Client,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._now = now
        self._clock = clock
        self._events = EventLists[_Newest](client, dict, _keep, clock=clock)

    async def follow(self, start: Start | None, jobset: model.JobSet) -> tuple[Start, float]:
        """Look at the pods of a JobSet that starts, if that is due.

        Returns what is then known, and the seconds until the next look is due. A look that
        fails changes nothing: it is a courtesy.
        """
        this, clock = (jobset.uid, jobset.restarts), self._clock()
        if start is None or start.of != this:
            start = Start(this, clock, clock)
        if clock < start.due(jobset):
            return start, start.due(jobset) - clock
        start.at, start.looks, start.counts = clock, start.looks + 1, jobset.replicated_jobs_status
        try:
            seen = pod_readiness.seen(await self._of(jobset, start), self._now())
            if seen.differs(start.seen):
                start.looks = 1
            start.seen = seen
        except ApiError as error:
            logger.info("%s: its pods cannot be listed: %s", Key.of(jobset), error)
        return start, start.due(jobset) - clock

    async def _of(self, jobset: model.JobSet, start: Start) -> list[pod_readiness.Pod]:
        params = {"labelSelector": f"{names.JOBSET_UID_LABEL}={jobset.uid}"}
        pods: list[_Pod] = []
        async for page in self._client.list(PODS.path(jobset.namespace), params=params):
            decoded = (_decoder.decode(raw) for raw in page.items or ())
            # On a node that is lost, nobody ends a pod that is deleted.
            pods += [pod for pod in decoded if not _is_deleted(pod) or _is_lost(pod)]
        views = {pod.metadata.name: _view(pod) for pod in pods}
        # Of volumes only Events tell. One pod of those that wait speaks for all: they have the same volumes.
        # Once it has them, Events tell nothing that its status does not.
        waiting = None if start.mounted else next((pod for pod in pods if _is_created(pod)), None)
        if waiting is not None and not any(pod.held for pod in views.values()):
            name = waiting.metadata.name
            newest = await self._events.of(jobset.namespace, _OF_PODS)
            _, start.mounted, held = newest.get(waiting.metadata.uid, (_NEVER, False, None))
            views[name] = replace(views[name], held=held)
        return list(views.values())


def _keep(newest: _Newest, event: Event) -> None:
    uid, at = event.involved_object.uid, event.last or _NEVER
    if uid not in newest or newest[uid][0] <= at:
        newest[uid] = at, event.reason in _MOUNTED, pod_readiness.why(event.reason, event.message)


def _is_deleted(pod: _Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _is_lost(pod: _Pod) -> bool:
    """Whether its node does not answer: Kubernetes then takes Ready from its status, and nothing else."""
    conditions = {condition.type: condition for condition in pod.status.conditions or ()}
    ready, containers = conditions.get("Ready"), conditions.get("ContainersReady")
    if ready is None or containers is None or ready.reason == _GATES:
        return False
    return (ready.status, containers.status) == ("False", "True")


def _containers(pod: _Pod) -> tuple[_Container, ...]:
    return *(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())


def _waiting(pod: _Pod) -> Iterator[_Waiting]:
    return (status.state.waiting for status in _containers(pod) if status.state.waiting is not None)


def _is_created(pod: _Pod) -> bool:
    """Whether all that is known of it is that its containers are being created."""
    reasons = [waiting.reason for waiting in _waiting(pod)]
    return bool(reasons) and len(reasons) == len(_containers(pod)) and _USUAL.issuperset(reasons)


def _view(pod: _Pod) -> pod_readiness.Pod:
    conditions = {condition.type: condition for condition in pod.status.conditions or ()}
    ready, placed = conditions.get("Ready"), conditions.get("PodScheduled")
    causes = (pod_readiness.why(waiting.reason, waiting.message) for waiting in _waiting(pod))
    view = pod_readiness.Pod(
        pod.metadata.name,
        pod.metadata.labels.get(names.REPLICATED_JOB_LABEL, ""),
        ready is not None and ready.status == "True",
        held=next((cause for cause in causes if cause is not None), None),
        lost=_is_lost(pod),
    )
    if placed is None or (placed.status, placed.reason) != ("False", pod_readiness.UNSCHEDULABLE):
        return view
    return replace(view, unschedulable=placed.message, since=placed.last_transition_time)
