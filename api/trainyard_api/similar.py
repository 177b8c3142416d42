"""The right name that is nearest to a wrong one.

Called wherever a message says "did you mean". The wrong name may be an
attack, and the time to compare grows with the product of the lengths. So it
compares only the beginnings, of some of the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

LONGEST: Final = 64
"""Characters of a name that are compared."""
MOST: Final = 100
"""Names to compare with."""
SIMILAR: Final = 0.6


def nearest(name: str, allowed: Iterable[str], *, least: float = SIMILAR) -> str | None:
    """The most similar allowed name; None if no similarity reaches `least` (0 to 1)."""
    beginnings = {one[:LONGEST]: one for one in islice(allowed, MOST)}
    close = get_close_matches(name[:LONGEST], beginnings, n=1, cutoff=least)
    return beginnings[close[0]] if close else None


def hint(name: str, allowed: Iterable[str]) -> str:
    """`; did you mean x?` if one of the allowed names is close, else nothing."""
    return meant(nearest(name, allowed))


def meant(name: str | None) -> str:
    """`; did you mean x?`, the end of a sentence; nothing without a name."""
    return "" if name is None else f"; did you mean {name}?"
