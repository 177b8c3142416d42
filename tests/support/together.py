"""Several processes of a run share one sandbox, and tests that would disturb each other take turns.

`make test` runs the core so (`--together`): most of the time its tests wait for
pods. The first process that needs the sandbox brings it up, the last one that
leaves takes it down. A test keeps for itself what its mark `holds` names while
it runs: the whole platform, if that is `PLATFORM`.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

PLATFORM: Final = "platform"
"""Held by a test that changes what all others stand on, or that needs the whole node."""
_DOOR: Final = "door"


@contextmanager
def locked(file: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Nobody else has the file locked; with `fcntl.LOCK_SH`, only others who lock it so."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        fcntl.flock(opened, how)
        yield


@contextmanager
def shared(
    folder: Path, name: str, make: Callable[[], object], unmake: Callable[[], object]
) -> Iterator[None]:
    """What `make` makes is there: made by the first who needs it, unmade by the last who leaves.

    Args:
        folder: The run's.
        name: What it is called there.
        make: Makes it. If it fails, the next who needs it tries again.
        unmake: Takes it away.
    """
    lock, users = folder / f"{name}.lock", folder / f"{name}.users"
    with locked(lock):
        number = int(users.read_text()) if users.exists() else 0
        if not number:
            make()
        users.write_text(str(number + 1))
    try:
        yield
    finally:
        with locked(lock):
            number = int(users.read_text()) - 1
            users.write_text(str(number))
            if not number:
                unmake()


@contextmanager
def turn(folder: Path, held: Collection[str]) -> Iterator[None]:
    """No other test runs that holds one of these; without `PLATFORM`, none that holds that.

    Who waits for the whole platform waits in the door, so that nobody overtakes.
    """
    with ExitStack() as stack:
        with locked(folder / _DOOR):
            how = fcntl.LOCK_EX if PLATFORM in held else fcntl.LOCK_SH
            stack.enter_context(locked(folder / PLATFORM, how))
        for name in sorted({*held} - {PLATFORM}):  # all in one order, so that no two wait for each other
            stack.enter_context(locked(folder / name))
        yield
