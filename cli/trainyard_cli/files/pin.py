"""The version of Trainyard that a site's requirements.txt pins; pure.

Called by `main`, which refuses to work with another one, and by `report`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

FILE: Final = "requirements.txt"
_LINE: Final = re.compile(r"trainyard(?:\[[a-z, ]{0,99}\])?==([^\s;#]{1,99})")


class Pin(NamedTuple):
    """A version, and its line."""

    version: str
    line: int


def read(text: str) -> Pin | None:
    """What the text of the file pins; None if that is nothing."""
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _LINE.match(line)) is not None:
            return Pin(match[1], number)
    return None
