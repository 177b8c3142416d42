"""`trainyard cp`: files and folders from and to a rank of a TrainJob.

Called by `main`, which adds `command` to the application. Prints; `cluster.copies` copies.
"""

from __future__ import annotations

import posixpath
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import quantity
from trainyard_api.errors import UserError
from trainyard_api.object_names import is_name
from trainyard_api.printable import clean
from trainyard_kube.client import ApiError, Client

from ..cluster import connection, copies, job_names, ranks
from ..files.copies import Tally, entries, size
from ..options import Context, JobNamespace, Kubeconfig, Printed, Rank
from ..output import FINE, REFUSED, Output, write_json
from ..printer import can_draw
from .questions import require_names

API_VERSION: Final = "copies.trainyard.dev/v1alpha1"
MOST: Final = "100Gi"
_EVERY: Final = 0.2
"""Seconds between two lines of progress."""

_Copying = Callable[[Client], Coroutine[Any, Any, str]]
"""Copies; the answer is what `tar` complains of."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One end of a copy."""

    path: str
    job: str = ""
    """Empty: this machine."""

    def __str__(self) -> str:
        return f"{self.job}:{self.path}" if self.job else self.path


def run(
    source: str,
    target: str,
    *,
    rank: str | None = None,
    max_size: str = MOST,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Copy a file or a folder from or to a rank; returns the exit code.

    0: it is copied; 1: it is, and something of it is not as it should be.

    Args:
        source: `JOB:PATH`, or a path of this machine.
        target: The other of the two. A folder that is there gets the copy inside.
        rank: A number, or a place such as `launcher-0`; None: the first.
        max_size: Bytes of all files together, as a quantity (`100Gi`).
        namespace: The TrainJob's; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        output: How to print what was copied.
        out: Where that goes as JSON.
        err: Where progress and everything else goes.

    Raises:
        UserError: The copy is incomplete: the message lists what exists.
    """
    out, err = out or sys.stdout, err or sys.stderr
    places = (_place(source), _place(target))
    job = places[0].job or places[1].job
    if bool(places[0].job) == bool(places[1].job):
        raise UserError("name one path on this machine and one of a TrainJob: JOB:PATH")
    require_names(namespace)
    try:
        most_bytes = quantity.parse(max_size).ceil()
    except ValueError as error:
        raise UserError(f"--max-size {error}") from error
    credentials = connection.load(kubeconfig, context)
    tally, progress = Tally(), _Progress(err)
    copy = _Copy(
        job, rank, namespace or credentials.namespace, most_bytes, tally, lambda: progress.show(tally)
    )
    here, there = (places[1], places[0]) if places[0].job else (places[0], places[1])
    copying = (copy.fetch if places[0].job else copy.send)(Path(here.path), there.path)
    try:
        complaint = connection.ask(credentials, "cp", copying)
    except KeyboardInterrupt:
        raise UserError(f"interrupted: {copy.words()}") from None
    except ApiError as error:
        raise UserError(clean(f"{credentials.source}: {error}: {copy.words()}")) from error
    except UserError as error:
        raise UserError(f"{error}; {copy.words()}" if tally.bytes else str(error)) from error
    finally:
        progress.end()
    if output is Output.JSON:
        write_json(copy.document(), out)
    for line in copy.remarks(complaint):
        print(line, file=err)
    return REFUSED if complaint or tally.left_out else FINE


def _place(text: str) -> _Place:
    """As `scp` reads it: what has a colon after a name is elsewhere."""
    job, colon, path = text.partition(":")
    if colon and is_name(job):
        return _Place(path or copies.HERE, job)
    if colon and "/" not in job:
        raise UserError(clean(f"{job!r} is not a valid name of a TrainJob; a file of this name is ./{text}"))
    return _Place(text)


@dataclass(slots=True)
class _Copy:
    """A copy, and how far it is."""

    job: str
    rank: str | None
    namespace: str
    most_bytes: int
    tally: Tally
    progress: copies.Progress
    target: str = ""
    is_sent: bool = False

    def fetch(self, target: Path, path: str) -> _Copying:
        """Copy from the rank. Reports an unwritable target before any query."""
        name = copies.name(path)
        if target.is_dir() and name != copies.HERE:
            target /= name
        if not target.parent.is_dir():
            raise UserError(clean(f"{target.parent} is not a folder: create it first"))
        self.target = clean(str(target))

        async def fetch(client: Client) -> str:
            rank = await ranks.running(client, self.namespace, self.job, self.rank)
            limits = {"most_bytes": self.most_bytes}
            return await copies.fetch(
                client, rank, path, target, **limits, tally=self.tally, progress=self.progress
            )

        return fetch

    def send(self, source: Path, path: str) -> _Copying:
        """Copy to the rank. Reports an unreadable source before any query."""
        whole = entries(source, most_bytes=self.most_bytes, tally=self.tally)
        name = source.resolve().name

        async def send(client: Client) -> str:
            rank = await ranks.running(client, self.namespace, self.job, self.rank)
            target = posixpath.join(path, name) if await copies.is_folder(client, rank, path) else path
            self.target, self.is_sent = clean(f"{self.job}:{target}"), True
            await copies.send(client, rank, whole, target, tally=self.tally, progress=self.progress)
            return ""

        return send

    def words(self) -> str:
        """Messages about an incomplete copy."""
        if not self.tally.bytes:
            return "nothing was copied"
        if self.is_sent:
            return f"{self.target} may have a part of the {size(self.tally.bytes)} that were sent"
        return f"of the files that were copied, {self.tally.files} are whole and remain in {self.target}"

    def remarks(self, complaint: str) -> Iterator[str]:
        """Messages about a finished copy."""
        yield f"Copied {_files(self.tally.files)} ({size(self.tally.bytes)}) to {self.target}"
        if self.tally.left_out:
            more = f" and {self.tally.others} more" if self.tally.others else ""
            yield f"Left out, neither files nor folders: {', '.join(self.tally.left_out)}{more}"
        if complaint:
            yield f"Look at the copy: {complaint}"

    def document(self) -> dict[str, Any]:
        """The copy as JSON values."""
        return {
            "apiVersion": API_VERSION,
            "kind": "Copy",
            "target": self.target,
            "files": self.tally.files,
            "bytes": self.tally.bytes,
            "leftOut": [*self.tally.left_out],
            "leftOutCount": len(self.tally.left_out) + self.tally.others,
        }


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


class _Progress:
    """How far a copy is, in one line of a terminal; nothing elsewhere."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._is_shown = can_draw(err)
        self._began = time.monotonic()
        self._next = self._began + _EVERY

    def show(self, tally: Tally) -> None:
        """Draw it, now and then."""
        now = time.monotonic()
        if not self._is_shown or now < self._next:
            return
        self._next = now + _EVERY
        of = f" of {size(tally.expected)}" if tally.expected else ""
        rate = size(int(tally.bytes / (now - self._began)))
        line = f"{size(tally.bytes)}{of}, {rate}/s, {_files(tally.files)}"
        self._err.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        self._err.flush()

    def end(self) -> None:
        """Leave an empty line for the next writer."""
        if self._is_shown:
            self._err.write("\r\x1b[K")
            self._err.flush()


def _completed(context: typer.Context, incomplete: str) -> list[str]:
    return [f"{name}:" for name in job_names.completed(context, incomplete)]


def command(
    source: Annotated[
        str,
        typer.Argument(help="Source: JOB:PATH, or a path on this machine.", autocompletion=_completed),
    ],
    target: Annotated[
        str,
        typer.Argument(
            help="Target: a path on this machine, or JOB:PATH. A folder gets the copy inside.",
            autocompletion=_completed,
        ),
    ],
    *,
    rank: Rank = None,
    max_size: Annotated[
        str, typer.Option(help="Maximum size of all files together.", metavar="QUANTITY")
    ] = MOST,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Copy files from or to a rank of a TrainJob.

    A folder is copied with all that is in it, links in it as what they lead to. A file that is there is
    replaced. Exit code 1: something was left out or changed meanwhile; 2: it was not copied whole. Needs
    the right pods/exec, and tar in the image.

    Example: trainyard cp my-training:/tmp/model.pt .

    Example: trainyard cp data my-training:/tmp --rank 3
    """
    raise typer.Exit(
        run(
            source,
            target,
            rank=rank,
            max_size=max_size,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
