"""Values and lists, cut to the available room: pure."""

from __future__ import annotations

from collections.abc import Sequence
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


def listed(items: Sequence[str], most: int) -> str:
    """`a, b, c`, and how many more there are than `most`."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def cut(text: str, most: int) -> str:
    """The text, or its beginning, in `most` characters."""
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
