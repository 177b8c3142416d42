"""The plan of a TrainJob before it is sent: its resources, its queue, and admission's answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_api.shown import capped, listed
from trainyard_operator.core.build.resources import gpu_count

from .. import read
from ..queue_place import NAMED, QueuePlace
from ..text import duration
from ..workspace import without_workspace
from .runtime import Runtime

MOST_CHANGES: Final = 20
_LONGEST: Final = 300
"""Characters of the command that are shown."""
_WIDTH: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The LocalQueue that the TrainJob goes into."""

    name: str
    """Empty if it goes into none."""
    verdict: str = ""
    """Whether the quota has room for it now, in words; empty if nobody has computed that."""
    place: QueuePlace | None = None
    """The place where it would wait; None if unknown."""
    stopped: str = ""
    """Why the queue admits nobody."""
    unseen: str = ""
    """Why its place is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A TrainJob that is not sent yet, and what its cluster says of it."""

    trainjob: Json
    runtime: Runtime
    queue: Queue
    secret: Json | None = None
    """What holds its workspace, without its owner; None if it has none, or one on a volume."""
    carrier: Json | None = None
    """The TrainJob that brings its workspace onto a volume before it is sent; None if that is not needed."""
    shell: str = ""
    """What to say of the shell for which it waits; empty if it runs a command."""
    workspace: Sequence[str] = ()
    """Remarks about its workspace; none if it has none."""
    refusal: str = ""
    """Why admission refuses it; empty if it does not."""
    warnings: Sequence[str] = ()
    """Warnings of admission."""
    remarks: Sequence[str] = ()
    """Remarks about unreadable or omitted parts."""
    last: Json | None = None
    """The TrainJob that it is compared with: the last of its folder, or the one that it copies."""
    changes: Sequence[str] = ()
    """In what it differs from that one."""


def lines(draft: Draft, now: datetime) -> Iterator[str]:
    """The plan as text.

    Args:
        draft: What is planned.
        now: By the clock of the API server.
    """
    metadata = draft.trainjob["metadata"]
    yield clean(f"TrainJob {metadata['namespace']}/{metadata['name']}")
    for label, text in _rows(draft, now):
        yield f"  {label:<{_WIDTH}}{clean(text)}"


def _rows(draft: Draft, now: datetime) -> Iterator[tuple[str, str]]:
    trainer = read.at(without_workspace(draft.trainjob), "spec", "trainer") or {}
    kind = f" ({draft.runtime.kind})" if draft.runtime.kind == names.TRAINING_RUNTIME else ""
    yield "runtime", f"{draft.runtime.name}{kind}"
    yield "image", trainer.get("image") or read.text(draft.runtime.container, "image") or "none is named"
    yield ("shell", draft.shell) if draft.shell else ("command", _command(trainer, draft.runtime))
    for index, sentence in enumerate(draft.workspace):
        yield "" if index else "workspace", sentence
    yield "nodes", _nodes(trainer, draft.runtime)
    if env := read.objects(trainer, "env"):
        yield "variables", listed((_variable(variable) for variable in env), most=10)
    yield "queue", _queue(draft, now)
    if draft.refusal:
        yield "admission", f"refuses it: {draft.refusal}"
    else:
        yield "admission", "lets it in" + (", with a warning" if draft.warnings else "")
    for warning in draft.warnings:
        yield "", warning
    if draft.last is not None:
        yield "changes", _since(draft, now)
        for line in capped(draft.changes, MOST_CHANGES):
            yield "", line
    for remark in draft.remarks:
        yield "not seen", remark


def _command(trainer: Json, runtime: Runtime) -> str:
    command, args = trainer.get("command"), trainer.get("args") or ()
    if command:
        return _cut(shlex.join((*command, *args)))
    with_args = f", with {shlex.join(args)}" if args else ""
    if command is not None or not runtime.command:  # an empty command takes the runtime's away
        return _cut(f"the image's own{with_args}")
    return _cut(f"the runtime's{with_args or f': {shlex.join(runtime.command)}'}")


def _cut(text: str) -> str:
    return clean(text, _LONGEST)


def _variable(variable: Json) -> str:
    secret = read.text(variable, "valueFrom", "secretKeyRef", "name")
    name = read.text(variable, "name")
    return f"{name} (of Secret {secret})" if secret else name


def _nodes(trainer: Json, runtime: Runtime) -> str:
    number = max(read.number(trainer, "numNodes", default=runtime.nodes), runtime.least_nodes)
    resources = {
        part: {
            **(read.at(runtime.container, "resources", part) or {}),
            **(read.at(trainer, "resourcesPerNode", part) or {}),
        }
        for part in ("limits", "requests")
    }
    amounts = {**read.texts(resources, "limits"), **read.texts(resources, "requests")}
    gpus = gpu_count(resources)
    each = [f"{gpus} GPU{'s' if gpus > 1 else ''}"] if gpus else []
    each += [f"{name} {amounts[name]}" for name in ("cpu", "memory") if name in amounts]
    of_each = f", each with {listed(each)}" if each else ""
    of_all = f"; {gpus * number} GPUs in all" if gpus and number > 1 else ""
    return f"{number}{of_each}{of_all}"


def _queue(draft: Draft, now: datetime) -> str:
    queue = draft.queue
    priority = read.texts(draft.trainjob, "metadata", "labels").get(names.PRIORITY_CLASS_LABEL)
    if not queue.name:
        return queue.unseen or "none: it starts as soon as there are nodes"
    name = queue.name + (f", priority {priority}" if priority else "")
    if queue.stopped:
        return f"{name}: it admits nobody now ({queue.stopped})"
    name += f": {queue.verdict}" if queue.verdict else ""
    if queue.place is None:
        why = f": {queue.unseen}" if queue.unseen else ""
        return f"{name}; its place there is not known{why}"
    return f"{name}; {_place(queue.place, now)}"


def _place(place: QueuePlace, now: datetime) -> str:
    """Jobs before it, and holders of quota with their time."""
    before = place.position - 1
    seen = " of those that you may see" if place.partial else ""
    sentence = f"nobody{seen} waits before it in {place.queue}"
    if before:
        behind = listed(place.before, NAMED, before)
        sentence = f"it would be number {place.position}{seen} in {place.queue}, behind {behind}"
    if place.holders:
        holders = [
            f"{holder.job} (for {duration((now - holder.since).total_seconds())})" for holder in place.holders
        ]
        sentence += f"; quota there is held by {listed(holders, most=NAMED)}"
        sentence += " and perhaps others that you may not see" if place.only_own else ""
    elif not place.only_own:
        sentence += "; nobody holds quota there"
    return sentence


def _since(draft: Draft, now: datetime) -> str:
    age = duration((now - read.moment(draft.last, "metadata", "creationTimestamp")).total_seconds())
    which = f"since {read.name(draft.last or {})}, {age} ago"
    return which if draft.changes else f"none {which}"
