"""How a container failed, as its termination message records it: docs/adr/0022.

The catalog's containers that run Python leave a line before their last words
that says who failed, when and how;
`trainyard_platform.catalog.in_pods.sitecustomize` writes it. What mpirun says
at the end of the log tells the rank and its exit code as well. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_FIRST: Final = re.compile(
    r"(?:rank (?P<rank>\d{1,9}) )?(?P<did>failed|lost others)"
    r" at (?P<at>[\dT:.-]{19,26}\+00:00) with exit code (?P<code>\d{1,3})"
)
TERMINATED: Final = 143
"""Exit code of a process that SIGTERM ended."""
_LAUNCHERS: Final = (1, 42, TERMINATED)
"""Exit codes of a launcher one of whose ranks left such a line; with any other, an earlier one left it."""
_SIGNALLED: Final = range(129, 193)
"""Exit codes of a program that a signal ended."""
_YEARS: Final = range(1970, 3000)
"""Of the time in such a line, which anybody can write."""
_SHORT: Final = 300
"""Characters of a line, and of a place."""
_FRAME: Final = re.compile(r'  File "(?P<file>[^"<]+)", line (?P<line>\d{1,9})')
_LIBRARY: Final = re.compile(r"/(?:site|dist)-packages/|/lib/python3")
_FAULT: Final = "Fatal Python error: "
"""What `faulthandler` begins with; the places behind it begin with the innermost."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_MPIRUN: Final = re.compile(
    # From the beginning of a line: elsewhere, each dash of a long row would be tried anew.
    r"^-{20,}\n(?:Primary job|(?:mpirun|prterun) (?:detected|noticed) that|MPI_ABORT was invoked)",
    re.MULTILINE,
)
_MPI_EXIT: Final = re.compile(
    r"Process name: *\[.{0,200}?,(?P<rank>\d{1,9})\]\s+Exit code: +(?P<code>\d{1,3})"
)
_MPI_SIGNAL: Final = re.compile(
    r"process rank (?P<rank>\d{1,9}) with PID \d+ on node \S+ exited on\s+signal (?P<signal>\d{1,2})"
)
_MPI_ABORT: Final = re.compile(
    r"MPI_ABORT was invoked on rank (?P<rank>\d{1,9}) in[^\n]{0,300}\n"
    r"(?:[^\n]{0,300}\n){0,3}?with errorcode (?P<code>\d{1,3})"
)


@dataclass(frozen=True, slots=True)
class LastWords:
    """How a program ended."""

    at: datetime | None
    """None if only the container's end tells it."""
    exit_code: int
    lost_others: bool
    """It failed as a consequence of another."""
    said: str
    """The traceback, or what it printed last."""
    rank: int | None = None
    """The process's, among all that its launcher started; None if there are no ranks."""


def of(exit_code: int, message: str) -> LastWords | None:
    """What the message of a container with that exit code tells; None if it tells nothing of the kind."""
    first, _, output = message.partition("\n")
    match = _FIRST.fullmatch(first)
    if match is None:
        return _of_mpirun(message)
    rank = None if match["rank"] is None else int(match["rank"])
    code = int(match["code"])
    if exit_code not in ((code,) if rank is None else _LAUNCHERS):
        return None
    try:
        at = datetime.fromisoformat(match["at"])
    except ValueError:
        return None
    if at.year not in _YEARS:
        return None
    return LastWords(at, code, match["did"] != "failed", output, rank)


def said(exit_code: int, message: str) -> str:
    """What a container printed last, by its message; empty if the message is about another program.

    A signal that ends a program, such as for its memory, comes without a word: then it was a program beside
    or below that one which had failed before. With any other exit code, a script around it may have ended
    with a code of its own; and a rank that leaves a message is about to end its launcher.
    """
    words = of(exit_code, message)
    if words is not None:
        return words.said
    match = _FIRST.fullmatch(message.partition("\n")[0])
    is_anothers = match is not None and match["rank"] is None and exit_code in _SIGNALLED
    return "" if is_anothers else message


def _of_mpirun(message: str) -> LastWords | None:
    footer = _MPIRUN.search(message)
    if footer is None:
        return None
    match = _MPI_EXIT.search(message) or _MPI_SIGNAL.search(message) or _MPI_ABORT.search(message)
    if match is None:
        return None
    named = match.groupdict()
    code = 128 + int(named["signal"]) if "signal" in named else int(named["code"])
    return LastWords(None, code, False, message[: footer.start()].removesuffix("\n"), int(named["rank"]))


def short(output: str) -> str:
    """The last line, with the last place in the user's code that a traceback names; empty if none."""
    fault = output.rfind(_FAULT)
    if fault > output.rfind(_TRACEBACK):
        return _short_fault(output[fault:])
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return ""
    words = [line for line in lines if not line.startswith('File "')]
    return ((words or [""])[-1][:_SHORT] + _place(_places(output)[-1:])).strip()


def _short_fault(output: str) -> str:
    return output.partition("\n")[0].strip()[:_SHORT] + _place(_places(output)[:1])


def _places(output: str) -> list[re.Match[str]]:
    return [frame for frame in _FRAME.finditer(output) if not _LIBRARY.search(frame["file"])]


def _place(frames: list[re.Match[str]]) -> str:
    return "".join(f" ({frame['file']}:{frame['line']})" for frame in frames)[-_SHORT:]
