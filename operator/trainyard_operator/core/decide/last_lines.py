"""The last lines of a failed attempt's pods, in one ConfigMap: docs/adr/0037.

Called by `work.last_lines`, which reads pods and logs, and by `trainyard
explain --logs`. The ConfigMap has a text for each place in the job, such as
`node-1`, and under `ABOUT` whose texts these are. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from trainyard_api import names
from trainyard_api.printable import printable

from ..build.plugins import owned
from ..model import Json, TrainJob

ABOUT: Final = "attempt.json"
"""Key of what describes the texts. No place of a job has a dot in its name and ends in a number."""
MOST_PODS: Final = 64
"""Pods whose lines are kept."""
OF_A_POD: Final = 16 * 1024
"""Bytes kept of one pod."""
IN_SUM: Final = 256 * 1024
"""Bytes kept of an attempt: the pod that failed first has `OF_A_POD`, the others share the rest equally."""
LONGEST_LINE: Final = 500
"""Characters. Of any alphabet, one such line fits into the smallest share."""
_LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of an attempt, and the container in it that is read."""

    name: str
    job: str
    """Its ReplicatedJob."""
    index: int
    """Its place in that."""
    container: str
    born: datetime
    ended: bool = False
    """Whether it prints nothing any more."""
    failed: bool = False

    @property
    def place(self) -> str:
        """Its key in the ConfigMap."""
        return f"{self.job}-{self.index}"


class Lines(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last lines of one place. `text` is a value of its own in the ConfigMap."""

    pod: str
    container: str = ""
    ended: bool = False
    """False: a later look may find more, because the pod still ran, or its log could not be read."""
    missing: str = ""
    """Why there is no text; empty if there is one."""
    text: str = ""


class Kept(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The kept lines of one attempt."""

    jobset: str
    """Uid of its JobSet."""
    attempt: int
    """Counted from 1."""
    first: str = ""
    """The place that failed first."""
    pods: dict[str, Lines] = {}
    left_out: int = 0
    """Places that are not kept, because there are more than `MOST_PODS`."""


_decoder = msgspec.json.Decoder(Kept)


def chosen(pods: Iterable[Pod], first: str) -> list[Pod]:
    """A pod of each place: one that failed, else the newest. The pod named `first` leads, then who failed."""
    places = {pod.place: pod for pod in sorted(pods, key=lambda pod: (pod.failed, pod.born))}
    return sorted(
        places.values(), key=lambda pod: (pod.name != first, not pod.failed, pod.job, pod.index, pod.name)
    )


def is_open(kept: Kept) -> bool:
    """Whether a later look may find more."""
    return not all(lines.ended for lines in kept.pods.values())


def unread(pods: Iterable[Pod], kept: Kept, *, again: bool) -> list[Pod]:
    """Pods to read: ended ones once, running ones only if `again`."""
    return [pod for pod in pods if not _is_read(pod, kept) and (pod.ended or again)]


def _is_read(pod: Pod, kept: Kept) -> bool:
    lines = kept.pods.get(pod.place)
    return lines is not None and lines.pod == pod.name and lines.ended


def of(pod: Pod, log: str) -> Lines:
    """The lines of a pod, from the end of its log."""
    return Lines(pod.name, pod.container, pod.ended, text=tidy(log))


def without(pod: Pod, reason: str, *, gone: bool = False) -> Lines:
    """A pod whose log could not be read, and why; one that is not `gone` may be read later."""
    return Lines(pod.name, pod.container, gone, missing=printable(reason)[:_LONGEST_REASON])


def tidy(log: str) -> str:
    """The end of the log as a terminal would show it, without what controls one."""
    lines: list[str] = []
    room = OF_A_POD
    for line in reversed(log.split("\n")):
        if room < 0:
            break
        # A progress bar writes over its own line: what it wrote last is what one sees.
        lines.append(_shown(line.rstrip("\r").rpartition("\r")[2]))
        room -= len(lines[-1])
    return "\n".join(reversed(lines)).strip("\n")


def _shown(line: str) -> str:
    shown = printable(line[: 4 * LONGEST_LINE]).rstrip()
    return shown if len(shown) <= LONGEST_LINE else f"{shown[: LONGEST_LINE - 4]} ..."


def merged(kept: Kept, fresh: Mapping[str, Lines], places: int, first: str) -> Kept:
    """The kept lines with the new ones, each place within its share.

    Args:
        kept: What was kept of this attempt before.
        fresh: What was read, by place, in the order of importance.
        places: How many places the attempt has, read or not.
        first: The place that failed first.
    """
    lost = {place for place, lines in fresh.items() if lines.missing and _says(kept.pods.get(place))}
    candidates = {**kept.pods, **{place: lines for place, lines in fresh.items() if place not in lost}}
    order = sorted(candidates, key=lambda place: (place != first, place not in fresh))[:MOST_PODS]
    share = _share(len(order))
    pods = {
        place: msgspec.structs.replace(
            candidates[place], text=within(candidates[place].text, OF_A_POD if place == first else share)
        )
        for place in sorted(order)
    }
    return Kept(kept.jobset, kept.attempt, first, pods, max(kept.left_out, places - len(pods), 0))


def says_less(new: Kept, live: Kept | None) -> bool:
    """Whether nothing could be read now, and the ConfigMap has lines of an earlier attempt."""
    return live is not None and any(map(_says, live.pods.values())) and not any(map(_says, new.pods.values()))


def _says(lines: Lines | None) -> bool:
    return lines is not None and not lines.missing


def _share(count: int) -> int:
    return OF_A_POD if count < 2 else min(OF_A_POD, (IN_SUM - OF_A_POD) // (count - 1))


def within(text: str, most: int) -> str:
    """The last whole lines of the text that have at most so many bytes."""
    lines: list[str] = []
    for line in reversed(text.split("\n")):
        most -= len(line.encode()) + 1
        if most < -1:  # the last line has no line feed behind it
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def name_of(trainjob: str) -> str:
    """The ConfigMap's name."""
    return f"{trainjob}{names.LAST_LINES_SUFFIX}"


def manifest(trainjob: TrainJob, kept: Kept) -> dict[str, Any]:
    """The ConfigMap, which goes with its TrainJob."""
    about = msgspec.structs.replace(
        kept, pods={place: msgspec.structs.replace(lines, text="") for place, lines in kept.pods.items()}
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned.metadata(trainjob, names.LAST_LINES_SUFFIX),
        "data": {
            ABOUT: msgspec.json.encode(about).decode(),
            **{place: lines.text for place, lines in kept.pods.items() if not lines.missing},
        },
    }


def is_of(config_map: Json, trainjob_uid: str) -> bool:
    """Whether the ConfigMap is owned by this very TrainJob; anybody may have made one of that name."""
    return [owner.get("uid") for owner in _controllers(config_map)] == [trainjob_uid]


def is_of_earlier(config_map: Json, trainjob_uid: str, name: str) -> bool:
    """Whether it is owned by an earlier TrainJob of this name, with which it is removed."""
    owners = [(owner.get("kind"), owner.get("name")) for owner in _controllers(config_map)]
    return owners == [(names.TRAINJOB, name)] and not is_of(config_map, trainjob_uid)


def _controllers(config_map: Json) -> list[Json]:
    owners: Sequence[Json] = config_map["metadata"].get("ownerReferences") or ()
    return [owner for owner in owners if owner.get("controller")]


def read(config_map: Json) -> Kept | None:
    """The lines in the ConfigMap; None if it is unreadable."""
    data = config_map.get("data") or {}
    try:
        about = _decoder.decode(data.get(ABOUT) or "")
    except msgspec.DecodeError:
        return None
    pods = {
        place: msgspec.structs.replace(lines, text=data.get(place) or "")
        for place, lines in list(about.pods.items())[:MOST_PODS]
    }
    return msgspec.structs.replace(about, pods=pods)
