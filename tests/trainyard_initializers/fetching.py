"""Fetch as the command does, in this process and without long waits."""

from __future__ import annotations

from pathlib import Path

from trainyard_initializers import (
    hub,  # noqa: F401 - the Hub's library reads the environment when it is imported, so not within a test
    request,
)
from trainyard_initializers.fetch import fetch
from trainyard_initializers.main import SOURCES
from trainyard_initializers.retry import Backoff
from trainyard_initializers.source import MARKER

QUICK = Backoff(attempts=4, first=0.01, ceiling=0.02)


def get(target: Path, uri: str, step: str = "dataset", **environment: str) -> None:
    """Fill `target` with what the variables ask for."""
    asked = request.read(step, {"STORAGE_URI": uri, **environment})
    fetch(asked, SOURCES[asked.uri.scheme](asked), target, QUICK)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, but the marker; nothing if there is no folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def aside(target: Path) -> dict[str, bytes]:
    """What lies aside of a target, but the lock."""
    return {
        name: body
        for name, body in tree(target.parent / ".trainyard" / target.name).items()
        if name != "lock"
    }
