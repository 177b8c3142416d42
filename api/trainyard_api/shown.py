"""Values and lists, cut to the available room: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

_CUT: Final = "..."


def apart(before: str, after: str, most: int) -> tuple[str, str]:
    """Both texts, cut to `most` characters so that the difference stays visible.

    Args:
        before: The old value.
        after: The new value.
        most: Characters of each, 16 or more.
    """
    longest = max(len(before), len(after))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    room = most - len(_CUT)
    if longest <= most or same < room:
        return cut(before, most), cut(after, most)
    begin = min(same - most // 4, longest - room)
    shown = (f"{_CUT}{text[begin:]}" for text in (before, after))
    before, after = (cut(text, most) for text in shown)
    return before, after


def listed(items: Iterable[object], most: int = 5, total: int | None = None) -> str:
    """`a, b, c`, and how many more there are; `total`: of so many, where `items` are only the first."""
    words = [str(item) for item in items]
    named = words[:most]
    more = (len(words) if total is None else total) - len(named)
    return " and ".join(filter(None, (", ".join(named), f"{more} more" if more > 0 else "")))


def capped(items: Sequence[object], most: int) -> list[str]:
    """The first items, a line each, and a line that says how many more there are."""
    more = len(items) - most
    return [*map(str, items[:most]), *([f"and {more} more"] if more > 0 else [])]


def cut(text: str, most: int) -> str:
    """The text, or its beginning, in `most` characters."""
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
