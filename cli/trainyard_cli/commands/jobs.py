"""`trainyard jobs`: what runs and what waits, since when, and for how long still.

Called by `main`, which adds `command` to the application. Prints; `cluster.jobs`
reads the cluster, and `trainyard_assist.jobs` makes the rows.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_api.shown import capped
from trainyard_assist.jobs import Key, Row
from trainyard_assist.text import duration
from trainyard_kube.client import Client, RetriableError, UnauthorizedError
from trainyard_operator.core.status.display_state import State

from ..cluster import connection
from ..cluster.jobs import Seen, look
from ..options import Context, Kubeconfig, Namespace, Printed
from ..output import FINE, Output, fitted, width_of, write_json
from ..printer import can_draw
from .questions import query, require_names

API_VERSION: Final = "jobs.trainyard.dev/v1alpha1"
EVERY: Final = 2.0
"""Seconds between two looks of `--watch`, at least."""
_SHARE: Final = 5
"""A look that takes long is followed by a pause so many times as long."""
_NAME: Final = "NAME"
_LAST_TO_GO: Final = (_NAME, "STATE", "QUEUE", "NODES", "AGE", "PROGRESS", "ETA", "GPUS", "NAMESPACE")
"""The columns by importance: on a narrow terminal the last are left out first."""
_GONE: Final = "Deleted"
"""The state of a deleted job in `--watch`."""

Chosen = Callable[[Row], bool]


def run(
    *,
    ended: bool = False,
    namespace: str | None = None,
    all_namespaces: bool = False,
    states: Collection[State] = (),
    watch: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the TrainJobs that run or wait, with `ended` or their `states` others too; returns the exit code.

    0: they are printed, even if there are none.

    Raises:
        UserError: The options contradict each other, or the cluster could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(namespace)
    if namespace is not None and all_namespaces:
        raise UserError("-n names one namespace, and -A means all: leave one of them out")
    if watch and output is Output.JSON:
        raise UserError("--watch prints text as it changes: leave out --watch, or -o json")
    credentials = connection.load_or_sandbox(kubeconfig, context)
    within = None if all_namespaces else namespace or credentials.namespace

    def chosen(row: Row) -> bool:
        return row.state in states if states else ended or not row.is_over

    if watch:
        remarks = partial(_remarks, namespace=within, states=states, ended=ended)
        watching = _Terminal(chosen, within, out, remarks) if can_draw(out) else _Changes(chosen, out, err)
        with suppress(KeyboardInterrupt):
            query(credentials, "jobs", lambda client: _watch(client, within, watching, err))
        return FINE
    seen = query(credentials, "jobs", lambda client: look(client, within, chosen))
    if output is Output.JSON:
        write_json(document(seen), out)
        return FINE
    if seen.rows:
        width = width_of(out)
        out.writelines(f"{line}\n" for line in table(seen, with_namespace=within is None, width=width))
    for remark in _remarks(seen, within, states, ended=ended):
        print(remark, file=err)
    return FINE


def document(seen: Seen) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Jobs",
        "trainJobs": [_job(row) for row in seen.rows],
        "unseen": [clean(sentence) for sentence in seen.unseen],
    }


def _job(row: Row) -> dict[str, Any]:
    ready, _, total = row.nodes.partition("/")
    place = row.place
    return {
        "namespace": row.namespace,
        "name": row.name,
        "state": row.state,
        "nodes": {"ready": int(ready), "total": int(total)}
        if ready.isdecimal() and total.isdecimal()
        else None,
        "queue": row.queue or None,
        "place": None
        if place is None
        else {"position": place.position, "total": place.total, "partial": place.partial},
        "gpus": row.gpus,
        "progressPercentage": row.progress,
        "endsAt": _time(row.ends),
        "createdAt": _time(row.created),
        "endedAt": _time(row.ended),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def table(seen: Seen, *, with_namespace: bool, width: int | None) -> list[str]:
    """The lines of the table: all columns, or as many as fit into so many characters."""
    rows = [_cells(row, seen.now) for row in seen.rows]
    if not with_namespace:
        rows = [{column: cell for column, cell in row.items() if column != "NAMESPACE"} for row in rows]
    return fitted(rows, _LAST_TO_GO, width)


def _cells(row: Row, now: datetime) -> dict[str, str]:
    left = None if row.ends is None else duration((row.ends - now).total_seconds())
    return {
        "NAMESPACE": row.namespace,
        _NAME: row.name,
        "STATE": row.state,
        "NODES": row.nodes,
        "QUEUE": _queue(row),
        "GPUS": "" if row.gpus is None else str(row.gpus),
        "PROGRESS": "" if row.progress is None else f"{row.progress}%",
        "ETA": left or "",
        "AGE": duration((now - row.created).total_seconds()),
    }


def _queue(row: Row) -> str:
    if row.place is None:
        return row.queue
    of = "" if row.place.total is None else f" of {row.place.total}"
    return f"{row.place.position}{of} in {row.queue}"


def _remarks(seen: Seen, namespace: str | None, states: Collection[State], *, ended: bool) -> Iterator[str]:
    where = "the namespaces" if namespace is None else f"namespace {namespace}"
    if not seen.rows and states:
        yield f"No TrainJob in {where} is {' or '.join(states)}."
    elif not seen.rows:
        yield (
            f"There is no TrainJob in {where}." if ended else f"No TrainJob runs or waits in {where}: {_ALL}"
        )
    yield from _hidden(seen)


def _hidden(seen: Seen) -> Iterator[str]:
    return (clean(f"Not everything is visible: {sentence}") for sentence in seen.unseen)


_ALL: Final = "--all lists those that have ended."


# --- as it changes --------------------------------------------------------------


async def _watch(client: Client, namespace: str | None, watching: _Terminal | _Changes, err: TextIO) -> None:
    """Repeat the request until the user ends it, also if the API server does not answer."""
    silent = False
    while True:
        began = time.monotonic()
        try:
            watching.show(await look(client, namespace, watching.reads))
            silent = False
        except UnauthorizedError:
            raise
        except RetriableError as error:
            if not silent:
                print(clean(f"{error}; trying again"), file=err)
            silent = True
        await asyncio.sleep(max(EVERY, _SHARE * (time.monotonic() - began)))


class _Terminal:
    """The table, drawn over the one before it."""

    def __init__(
        self,
        chosen: Chosen,
        namespace: str | None,
        out: TextIO,
        remarks: Callable[[Seen], Iterable[str]],
    ) -> None:
        self.reads = chosen
        self._namespace = namespace
        self._out = out
        self._remarks = remarks
        self._height = 0

    def show(self, seen: Seen) -> None:
        """Draw the current table."""
        size = shutil.get_terminal_size()
        lines, remarks = list[str](), list(self._remarks(seen))
        if seen.rows:
            lines = table(seen, with_namespace=self._namespace is None, width=size.columns)
        if len(lines) + len(remarks) >= size.lines:
            most = max(1, size.lines - 2 - len(remarks))
            lines = capped(lines, most)
        lines += remarks
        # A line that wraps would be two to go back over.
        shown = "".join(f"{line[: size.columns]}\n" for line in lines)
        back = f"\x1b[{self._height}F" if self._height else ""
        self._out.write(f"{back}\x1b[J{shown}")
        self._out.flush()
        self._height = len(lines)


class _Changes:
    """A line for each job that appears, changes, ends or is deleted: for pipes and files."""

    def __init__(self, chosen: Chosen, out: TextIO, err: TextIO) -> None:
        self._chosen = chosen
        self._out = out
        self._err = err
        self._unseen: Sequence[str] = ()
        self._before: Mapping[Key, Sequence[str]] = {}

    def reads(self, _: Row) -> bool:
        """All jobs: for those that were listed, the end is printed too."""
        return True

    def show(self, seen: Seen) -> None:
        """Print what has changed."""
        rows = {(row.namespace, row.name): row for row in seen.rows}
        now = {key: self._words(row) for key, row in rows.items() if key in self._before or self._chosen(row)}
        gone = {key: (_GONE,) for key in self._before if key not in now}
        for key, words in {**now, **gone}.items():
            if self._before.get(key) != words:
                line = " ".join((f"{seen.now:%Y-%m-%dT%H:%M:%SZ}", "/".join(key), *words))
                self._out.write(f"{line}\n")
        self._out.flush()
        self._before = now
        for sentence in _hidden(seen) if tuple(seen.unseen) != self._unseen else ():
            print(sentence, file=self._err)
        self._unseen = tuple(seen.unseen)

    def _words(self, row: Row) -> Sequence[str]:
        cells = _cells(row, row.created)
        return tuple(filter(None, (cells[column] for column in ("STATE", "NODES", "QUEUE", "PROGRESS"))))


def command(
    *,
    ended: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")] = False,
    states: Annotated[
        list[State] | None,
        typer.Option(
            "--state",
            help="Only those in this state, such as Failed; may be repeated.",
            metavar="STATE",
            case_sensitive=False,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Watch. Without a terminal, print one line per change.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """List TrainJobs, with state and place in the queue.

    Uses your own rights, and changes nothing. QUEUE is the place among all jobs that wait for the
    same quota, ETA the time that the job itself says it still needs. Without any kubeconfig it looks
    at this site's sandbox. Exit code 2: the cluster could not be queried.

    Example: trainyard jobs -n team-a

    Example: trainyard jobs --state Failed --state Blocked
    """
    raise typer.Exit(
        run(
            ended=ended,
            namespace=namespace,
            all_namespaces=all_namespaces,
            states=states or (),
            watch=watch,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
