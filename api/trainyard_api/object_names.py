"""Names of objects."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LONGEST: Final = 253


def is_name(text: str) -> bool:
    """Whether an object can have this name; any other has no place in a request's path."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None
