"""Logs and durations as commands print them. The author of a log may be hostile."""

from __future__ import annotations

from typing import Final

from trainyard_api.printable import printable

LONGEST_LINE: Final = 300
"""Characters of a line of a log."""
LINES: Final = 10
"""Lines of a log."""


def tail(text: str) -> tuple[str, ...]:
    """The last lines of a log that are not empty, cleaned, with their indentation."""
    lines = (printable(line).rstrip()[:LONGEST_LINE] for line in text.splitlines()[-4 * LINES :])
    return tuple(line for line in lines if line)[-LINES:]


def duration(seconds: float) -> str:
    """`12 s`, `3 min`, `5 h` or `2 d`: as precise as a reader needs."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
