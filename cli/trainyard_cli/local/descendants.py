"""The processes that this one has started, and those that they have.

Used by `together`, which leaves none of them behind. Torchrun's ranks have
sessions of their own, so a process group is not enough.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trainyard_sandbox import isolation

LINUX: Final = sys.platform == "linux"
_PROC: Final = Path("/proc")


@contextmanager
def adopted() -> Iterator[None]:
    """While entered, orphans of descendants become children of this process: on Linux, not elsewhere."""
    if LINUX:
        isolation.become_subreaper()
    try:
        yield
    finally:
        if LINUX:
            isolation.become_subreaper(adopts=False)


def children() -> frozenset[int]:
    """The children of this process that have not ended."""
    return frozenset(pid for pid, parent in _parents() if parent == os.getpid())


def descendants(before: frozenset[int]) -> set[int]:
    """Descendants of this process that have not ended.

    Args:
        before: Children of this process that are left out, with all that they have started.
    """
    started = defaultdict(set)
    for pid, parent in _parents():
        started[parent].add(pid)
    pids: set[int] = set()
    level = started[os.getpid()] - before
    while level:
        pids |= level
        level = {child for pid in level for child in started[pid]} - pids
    return pids


def _parents() -> Iterator[tuple[int, int]]:
    """Each process that has not ended, and its parent."""
    if (_PROC / "self/stat").exists():
        for folder in _PROC.iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    # The name of the program is in brackets, and may have some itself, and any bytes.
                    state, parent, *_ = (
                        (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    )
                    if state != "Z":
                        yield int(folder.name), int(parent)
        return
    # It lists itself, a child that has ended by now; in a session of its own, no Ctrl-C ends it before.
    with subprocess.Popen(
        ["ps", "-axo", "pid=,ppid=,stat="],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as ps:
        table, _ = ps.communicate()
    for line in table.splitlines():
        pid, parent, state = line.split(maxsplit=2)
        if int(pid) != ps.pid and not state.startswith("Z"):
            yield int(pid), int(parent)
