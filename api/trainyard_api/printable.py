"""Makes untrusted text safe to print: it cannot control a terminal. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from .shown import cut

LONGEST: Final = 1000
"""Characters of a message."""
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x1b\\|\x07|$)"  # OSC, DCS: titles, links, answers typed for the user
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories: controls, invisible formats such as bidirectional overrides, line separators."""
_SPACES: Final = str.maketrans("\n\r\t", "   ")


def printable(text: str) -> str:
    """The text on one line, without terminal controls."""
    if text.isprintable():  # most lines are, and Python sees that at once
        return text
    spaced = _ESCAPES.sub("", text).translate(_SPACES)
    return "".join(c for c in spaced if unicodedata.category(c) not in _UNPRINTABLE)


def clean(text: str, longest: int = LONGEST) -> str:
    """The text on one line, without terminal controls, cut to `longest` characters."""
    return cut(printable(text[: longest * 4]).rstrip(), longest)
