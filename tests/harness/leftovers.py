"""What a run has brought up is written down, and what it has left is taken down at its end or by the next.

A run keeps a file in the user's cache locked for as long as it lives, and names
it to all that it starts (`RUN`). Tests write the sandboxes that they bring up
into it (`note`). A file that nobody holds is that of a run which has ended, or
was killed: every process that was started by it goes, and then its sandboxes,
whatever has become of its clone. What users bring up themselves is in no such file.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

from trainyard_sandbox.cluster import Sandbox
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.paths import PROJECT, Instance, cache_dir

RUN: Final = "TRAINYARD_TEST_RUN"
"""The variable with the path of the run's file; every process of a run has it."""
PATIENCE: Final = 10.0
"""Seconds until a process that was killed is gone, unless the kernel holds it."""


@contextmanager
def noted() -> Iterator[Path]:
    """The file of a run that lasts as long as the block; then it is for `clear`."""
    folder = cache_dir() / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}-{os.urandom(4).hex()}"
    hidden = path.with_name(f".{path.name}")
    with hidden.open("x") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        hidden.rename(path)  # nobody has seen it without its lock
        yield path


def note(name: str, project: Path = PROJECT) -> None:
    """Write down, if a run goes on, that a sandbox of this name is brought up in a checkout."""
    if path := os.environ.get(RUN):
        with open(path, "a") as file:
            file.write(f"{project}\t{name}\n")


def clear() -> list[str]:
    """Take down what runs have left that live no more; says what, a line each.

    What cannot be taken down stays written down, for the next run.
    """
    said: list[str] = []
    for path in sorted((cache_dir() / "runs").glob("[0-9]*")):
        with suppress(FileNotFoundError), path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # it lives
            said += _cleared(path, file)
    return said


def _cleared(path: Path, file: TextIO) -> Iterator[str]:
    # First: a test that goes on would bring up, and write down, one more.
    for pid in _ended(path):
        yield f"ended process {pid}"
    left = False
    for line in dict.fromkeys(file.read().splitlines()):
        project, _, name = line.partition("\t")
        try:
            instance = Instance(name, Path(project))
            there = instance.dir.exists()
            Sandbox(instance).down()
        except (OSError, SandboxError) as error:
            left = True
            yield f"could not take down the sandbox {name} of {project}: {error}"
        else:
            if there:
                yield f"took down the sandbox {name} of {project}"
    if not left:
        path.unlink(missing_ok=True)


def _ended(path: Path) -> list[int]:
    """The processes that a run has started, which are gone by now, or cannot be ended."""
    ended: dict[int, None] = {}
    deadline = time.monotonic() + PATIENCE
    while (pids := _started_by(path)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended[pid] = None
        time.sleep(0.02)
    return list(ended)


def _started_by(path: Path) -> list[int]:
    """The processes that have a run's file in their environment."""
    wanted = f"{RUN}={path}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is gone, or somebody else's
            if wanted in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return [pid for pid in found if pid != os.getpid()]
