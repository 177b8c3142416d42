"""What the pods of a TrainJob say while it starts: how many are ready, and what the others wait for.

Called by `work.pods` with the pods that it has listed: docs/adr/0023. JobSet's
counts are of Jobs, and a Job is ready once all of its pods are. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trainyard_api import names
from trainyard_api.reasons import Reason

from ..model import Cause, EventNote
from .sentences import with_step

UNSCHEDULABLE: Final = "Unschedulable"
"""Reason of a pod's condition PodScheduled while the scheduler finds no node for it."""
IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""The kubelet's reasons for a container that waits since its image cannot be pulled."""
CONFIG: Final = "CreateContainerConfigError"
START: Final = frozenset({"CreateContainerError", "RunContainerError", "PostStartHookError"})
"""Its reasons for one that cannot be started."""
MOUNT: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
"""Its reasons of Events about volumes; the pod itself says nothing of them."""
SECRET: Final = re.compile(r"\b[sS]ecrets? \"([^\"]+)\"")
"""How it names a Secret."""
REASONS: Final = frozenset(
    {
        Reason.IMAGE_NOT_PULLED,
        Reason.SECRET_MISSING,
        Reason.CONFIG_MISSING,
        Reason.VOLUME_NOT_MOUNTED,
        Reason.CANNOT_START,
    }
)
"""What a pod that has a node waits for, as reasons of `Blocked`; the job still starts."""
_STARTS_WITH: Final[Mapping[str, str]] = {
    Reason.IMAGE_NOT_PULLED: "correct the image, or give the pods a pull secret for its registry",
    Reason.SECRET_MISSING: "create the Secret, or correct its name",
    Reason.CONFIG_MISSING: "create the object or key that the message names, or correct its name",
    Reason.VOLUME_NOT_MOUNTED: (
        "correct the volume that the message names, or have the platform team check the storage"
    ),
    Reason.CANNOT_START: "correct the command, the working directory or the mounts of the container",
}
"""The next step where a pod does not start on its node."""
PATIENCE: Final = timedelta(seconds=20)
"""How long a pod may fit no node before that is reported: others may be about to leave one."""
CHANGING: Final = 10.0
"""Seconds from a look that has shown something new to the next one, and from one look to any other."""
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
    held: tuple[Reason, str] | None = None
    """Why a container of it does not start, and what the kubelet says."""
    lost: bool = False
    """Whether its containers ran when its kubelet was last heard, and Kubernetes no longer counts on them."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """What one look at the pods has shown."""

    ready: int
    unschedulable: str = ""
    """Which pod fits no node, and why; empty if none is known."""
    held: Cause | None = None
    """Which pod waits on its node, and for what."""
    lost: bool = False
    """Whether a pod has lost its node."""

    def differs(self, before: Nodes | None) -> bool:
        """Whether more has changed than how the scheduler or the kubelet words the same."""
        return before is None or _facts(self) != _facts(before)


def seen(pods: Iterable[Pod], now: datetime) -> Nodes:
    """What the pods show at this time."""
    by_age = sorted(pods, key=lambda pod: (pod.since is None, pod.since, pod.name))
    ready = sum(pod.ready for pod in by_age if pod.job not in names.INITIALIZERS)
    stuck = [pod for pod in by_age if pod.since is not None and now - pod.since >= PATIENCE]
    lost = any(pod.lost for pod in by_age)
    return Nodes(ready, _sentence(stuck) if stuck else "", _held(by_age), lost)


def _facts(nodes: Nodes) -> tuple[int, bool, str, bool]:
    return nodes.ready, bool(nodes.unschedulable), nodes.held.reason if nodes.held else "", nodes.lost


def _sentence(stuck: list[Pod]) -> str:
    return f"pod {_several(stuck)} fits no node: {stuck[0].unschedulable}"


def _several(pods: list[Pod]) -> str:
    return f"{pods[0].name} (and {len(pods) - 1} more)" if len(pods) > 1 else pods[0].name


def _held(pods: list[Pod]) -> Cause | None:
    first = next((pod for pod in pods if pod.held is not None), None)
    if first is None or first.held is None:
        return None
    reason, message = first.held
    return Cause(reason, with_step(f"pod {first.name}: {message}", _STARTS_WITH[reason]))


def why(reason: str, message: str) -> tuple[Reason, str] | None:
    """What a container waits for by the kubelet's reason and message, or a pod by those of an Event.

    None for what most containers wait for, and not for long.
    """
    sentence = f"{reason}: {message}" if message else reason
    if reason in IMAGE:
        return Reason.IMAGE_NOT_PULLED, sentence
    if reason in START:
        return Reason.CANNOT_START, sentence
    if reason != CONFIG and reason not in MOUNT:
        return None
    if SECRET.search(message) and "not found" in message:
        return Reason.SECRET_MISSING, sentence
    return (Reason.CONFIG_MISSING if reason == CONFIG else Reason.VOLUME_NOT_MOUNTED), sentence


def after(looks: int) -> float:
    """Seconds to the next look, for the first one from the job's start: 15, 15, 30, 60, 120.

    Args:
        looks: How often its pods have been looked at and shown nothing new.
    """
    return min(_LONGEST, _FIRST_LOOK * 2.0 ** min(max(looks - 1, 0), 10))


def note(nodes: Nodes) -> EventNote:
    """The Event for pods that fit no node."""
    return EventNote(
        "Warning", Reason.UNSCHEDULABLE, f"{nodes.unschedulable[:1].upper()}{nodes.unschedulable[1:]}"
    )
