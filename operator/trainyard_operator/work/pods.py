"""The pods of a JobSet, listed now and then while they start: docs/adr/0023.

Called by the controller. Nothing is watched: a cluster has very many pods, and
most jobs run before the first look is due.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from trainyard_api import names

from ..core import model, nodes
from ..kube.client import ApiError, Client
from ..kube.resources import PODS
from ..watch.cache import Key

logger = logging.getLogger(__name__)


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Pod)


@dataclass(slots=True)
class Start:
    """What is known of a JobSet that starts. `at` and `since` are seconds of one monotonic clock."""

    of: tuple[str, int]
    """Uid of the JobSet, and how often it had restarted."""
    since: float
    at: float
    """When its pods were last looked at; at first, when it began to start."""
    looks: int = 0
    seen: nodes.Nodes | None = None
    told: bool = False
    """Whether an Event has said that a pod fits no node."""


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

    async def follow(self, start: Start | None, jobset: model.JobSet) -> tuple[Start, float]:
        """Look at the pods of a JobSet that starts, if that is due.

        Returns what is then known, and the seconds until the next look is due. A look that
        fails changes nothing: it is a courtesy.
        """
        this, clock = (jobset.uid, jobset.restarts), self._clock()
        if start is None or start.of != this:
            start = Start(this, clock, clock)
        due = start.at + nodes.after(start.looks)
        if clock < due:
            return start, due - clock
        start.at, start.looks = clock, start.looks + 1
        try:
            start.seen = nodes.seen(await self._of(jobset), self._now())
        except ApiError as error:
            logger.info("%s: its pods cannot be listed: %s", Key.of(jobset), error)
        return start, nodes.after(start.looks)

    async def _of(self, jobset: model.JobSet) -> list[nodes.Pod]:
        params = {"labelSelector": f"{names.JOBSET_UID_LABEL}={jobset.uid}"}
        found = []
        async for page in self._client.list(PODS.path(jobset.namespace), params=params):
            pods = (_decoder.decode(raw) for raw in page.items or ())
            found += [_view(pod) for pod in pods if pod.metadata.deletion_timestamp is None]
        return found


def _view(pod: _Pod) -> nodes.Pod:
    conditions = {condition.type: condition for condition in pod.status.conditions or ()}
    ready, placed = conditions.get("Ready"), conditions.get("PodScheduled")
    found = nodes.Pod(
        pod.metadata.name,
        pod.metadata.labels.get(names.REPLICATED_JOB_LABEL, ""),
        ready is not None and ready.status == "True",
    )
    if placed is None or (placed.status, placed.reason) != ("False", nodes.UNSCHEDULABLE):
        return found
    return replace(found, unschedulable=placed.message, since=placed.last_transition_time)
