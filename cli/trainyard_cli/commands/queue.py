"""`trainyard queue`: the quota of your queues, what of it is free, and what becomes of who waits.

Called by `main`, which adds `command` to the application. Prints;
`cluster.queues` reads the cluster, and `trainyard_assist.queues` and its
`quota` say what there is to say.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api.printable import clean
from trainyard_assist.queues import Door, Waiting
from trainyard_assist.quota import Line
from trainyard_assist.quota.lines import amount
from trainyard_assist.quota.model import Verdict
from trainyard_assist.quota.words import sentence
from trainyard_assist.text import duration

from ..cluster import connection, job_names
from ..cluster.queues import Seen, look
from ..options import Context, Kubeconfig, Namespace, Printed
from ..output import FINE, Output, fitted, width_of, write_json
from .questions import query, require_names

API_VERSION: Final = "queues.trainyard.dev/v1alpha1"
MOST: Final = 20
"""Jobs of a queue that are printed; JSON has all."""
_IMPORTANCE: Final = ("RESOURCE", "FREE", "LENDABLE", "QUOTA", "USED", "FLAVOR", "BORROWED")


def run(
    queue: str | None = None,
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the LocalQueues of a namespace, or one of them; returns the exit code.

    0: they are printed, even if there are none.

    Raises:
        UserError: There is no such LocalQueue, or the cluster could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(queue, namespace)
    credentials = connection.load_or_sandbox(kubeconfig, context)
    within = namespace or credentials.namespace
    seen = query(credentials, "queue", lambda client: look(client, within, queue))
    if output is Output.JSON:
        write_json(document(seen), out)
        return FINE
    write(seen, within, out, err)
    return FINE


def write(seen: Seen, namespace: str, out: TextIO, err: TextIO) -> None:
    """Print the queues as text."""
    width = width_of(out)
    blocks = [list(_block(door, seen.now, width)) for door in seen.doors]
    out.write("\n".join("".join(f"{line}\n" for line in block) for block in blocks))
    if not blocks:
        print(f"There is no LocalQueue in namespace {namespace}.", file=err)
    for words in seen.unseen:
        print(clean(f"Not everything is visible: {words}"), file=err)


def document(seen: Seen) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Queues",
        "localQueues": [door_json(door) for door in seen.doors],
        "unseen": [clean(words) for words in seen.unseen],
    }


def door_json(door: Door) -> dict[str, Any]:
    """A LocalQueue as JSON values."""
    queue = door.queue
    return {
        "namespace": door.namespace,
        "name": door.name,
        "clusterQueue": clean(door.cluster_queue),
        "cohort": None if queue is None else clean(queue.cohort) or None,
        "queueingStrategy": None if queue is None else _strategy(door),
        "stopped": clean(door.closed) or None,
        "reserving": door.running,
        "quota": None if queue is None else [_line_json(line) for line in door.lines],
        "pending": door.waits,
        "waiting": [_waiting_json(waiting) for waiting in door.waiting],
    }


def _line_json(line: Line) -> dict[str, str | None]:
    fields = ("nominal", "used", "borrowed", "free", "lendable", "lent")
    values = {field: getattr(line, field) for field in fields}
    amounts = {field: None if nano is None else amount(line.resource, nano) for field, nano in values.items()}
    return {"flavor": clean(line.flavor), "resource": clean(line.resource), **amounts}


def _waiting_json(waiting: Waiting) -> dict[str, Any]:
    place, verdict = waiting.place, waiting.verdict
    return {
        "name": clean(waiting.name),
        "priority": waiting.priority,
        "createdAt": f"{waiting.created:%Y-%m-%dT%H:%M:%SZ}",
        "place": None
        if place is None
        else {"position": place.position, "total": place.total, "partial": place.partial},
        "forecast": None if verdict is None else _verdict_json(verdict),
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "answer": str(verdict.answer),
        "message": sentence(verdict),
        "before": [clean(name) for name in verdict.before],
        "preempts": [clean(name) for name in verdict.preempts],
        "sure": verdict.sure,
    }


def _block(door: Door, now: datetime, width: int | None) -> Iterator[str]:
    queue = door.queue
    head = f"LocalQueue {door.name}: ClusterQueue {door.cluster_queue}"
    if queue is not None:
        head += f", cohort {queue.cohort}" if queue.cohort else ", no cohort"
        head += f", {_strategy(door)}"
    yield from _wrapped(head, width)
    if door.closed:
        yield from _wrapped(f"It admits no jobs: {door.closed}", width)
    if door.lines:
        yield from fitted([_cells(line) for line in door.lines], _IMPORTANCE, width)
    yield f"Jobs with quota: {door.running}; waiting: {door.waits}"
    for waiting in door.waiting[:MOST]:
        yield from _wrapped(_words(waiting, now), width, indent="  ")
    if len(door.waiting) > MOST:
        yield f"  and {len(door.waiting) - MOST} more"


def _cells(line: Line) -> dict[str, str]:
    return {
        "RESOURCE": clean(line.resource),
        "FLAVOR": clean(line.flavor),
        "QUOTA": amount(line.resource, line.nominal),
        "USED": amount(line.resource, line.used),
        "BORROWED": amount(line.resource, line.borrowed),
        "FREE": amount(line.resource, line.free),
        "LENDABLE": "?" if line.lendable is None else amount(line.resource, line.lendable),
    }


def _words(waiting: Waiting, now: datetime) -> str:
    place = waiting.place
    turn = "?" if place is None else str(place.position)
    of = "" if place is None or place.total is None else f" of {place.total}"
    age = duration((now - waiting.created).total_seconds())
    forecast = "" if waiting.verdict is None else f": {sentence(waiting.verdict)}"
    priority = f", priority {waiting.priority}" if waiting.priority else ""
    return f"{turn}{of}  {waiting.name} ({age}{priority}){forecast}"


def _strategy(door: Door) -> str:
    return "StrictFIFO" if door.queue is not None and door.queue.strict else "BestEffortFIFO"


def _wrapped(words: str, width: int | None, indent: str = "") -> list[str]:
    """As lines of a terminal; one line where it is none."""
    line = indent + clean(words)
    return [line] if width is None else textwrap.wrap(line, max(width, 20), subsequent_indent=f"{indent}  ")


def command(
    queue: Annotated[
        str | None,
        typer.Argument(
            help="LocalQueue; by default all of the namespace.", autocompletion=job_names.completed_queues
        ),
    ] = None,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Print your queues: quota, free quota and waiting jobs.

    Uses your own rights, and changes nothing. Of each job that waits it says what it lacks. FREE is what
    is left of the queue's own quota, LENDABLE is what its cohort lends it now. Without any
    kubeconfig it looks at this site's sandbox. Exit code 2: there is no such queue, or the
    cluster could not be queried.

    Example: trainyard queue

    Example: trainyard queue default -n team-a -o json
    """
    raise typer.Exit(run(queue, namespace=namespace, kubeconfig=kubeconfig, context=context, output=output))
