"""Durations as people write them: `90s`, `1h30m`, `7d`.

Go's notation, which Kubernetes' configurations have, with days and without
fractions. Used to read settings and annotations, and to print how long something took.
"""

from __future__ import annotations

import re
from typing import Final

PATTERN: Final = r"([0-9]+[smhd])+"

_WHOLE: Final = re.compile(PATTERN)
_PART: Final = re.compile(r"([0-9]{1,40})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST: Final = 100 * 365 * 86400


def seconds(text: object) -> float:
    """The seconds of a duration. Raises ValueError if it is invalid or above 100 years."""
    if isinstance(text, str) and len(text) <= 40 and _WHOLE.fullmatch(text):
        total = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
        if total <= _LONGEST:
            return float(total)
    raise ValueError(f"must be a duration such as 15s, 10m, 24h or 7d; is {text!r}")


def words(seconds: float) -> str:
    """`45 s`, `12 min 4 s`, `3 h 12 min` or `2 d 5 h`: the largest unit that it fills, and the next one."""
    rest = max(0, int(seconds))
    parts: list[str] = []
    for name, size in _NAMES.items():
        count, rest = divmod(rest, size)
        if count or parts or size == 1:
            parts.append(f"{count} {name}" if count or not parts else "")
    return " ".join(part for part in parts[:2] if part)


_NAMES: Final = {"d": 86400, "h": 3600, "min": 60, "s": 1}
