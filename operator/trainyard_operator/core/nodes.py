"""What the pods of a TrainJob say while it starts: how many are ready, and whether one fits no node.

Called by `work.pods` with the pods that it has listed: docs/adr/0023. JobSet's
counts are of Jobs, and a Job is ready once all of its pods are. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trainyard_api import names
from trainyard_api.reasons import Reason

from .model import EventNote

UNSCHEDULABLE: Final = "Unschedulable"
"""Reason of a pod's condition PodScheduled while the scheduler finds no node for it."""
PATIENCE: Final = timedelta(seconds=20)
"""How long a pod may fit no node before that is reported: others may be about to leave one."""
_FIRST_LOOK: Final = 15.0
_LONGEST: Final = 120.0


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a JobSet."""

    name: str
    job: str
    """Its ReplicatedJob."""
    ready: bool = False
    unschedulable: str = ""
    """What the scheduler says if it finds no node for it."""
    since: datetime | None = None
    """When it began to say so."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """What one look at the pods has shown."""

    ready: int
    unschedulable: str = ""
    """Which pod fits no node, and why; empty if none is known."""


def seen(pods: Iterable[Pod], now: datetime) -> Nodes:
    """What the pods show at this time."""
    found = sorted(pods, key=lambda pod: (pod.since is None, pod.since, pod.name))
    ready = sum(pod.ready for pod in found if pod.job not in names.INITIALIZERS)
    stuck = [pod for pod in found if pod.since is not None and now - pod.since >= PATIENCE]
    return Nodes(ready, _sentence(stuck) if stuck else "")


def _sentence(stuck: list[Pod]) -> str:
    others = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
    return f"pod {stuck[0].name}{others} fits no node: {stuck[0].unschedulable}"


def after(looks: int) -> float:
    """Seconds to the next look, for the first one from the job's start: 15, 15, 30, 60, 120.

    Args:
        looks: How often its pods have been looked at.
    """
    return min(_LONGEST, _FIRST_LOOK * 2.0 ** min(max(looks - 1, 0), 10))


def note(nodes: Nodes) -> EventNote:
    """The Event for pods that fit no node."""
    return EventNote(
        "Warning", Reason.UNSCHEDULABLE, f"{nodes.unschedulable[:1].upper()}{nodes.unschedulable[1:]}"
    )
