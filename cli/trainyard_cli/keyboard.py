"""Whether there is somebody who can answer."""

from __future__ import annotations

import sys


def is_there() -> bool:
    """Whether the input is a terminal; it is none either where it is closed."""
    return sys.stdin is not None and sys.stdin.isatty()
