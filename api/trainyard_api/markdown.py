"""Texts of the code as the Markdown of reference pages: what is shown is what they say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_CODE: Final = re.compile(r"(`[^`]*`)")
_PIPE: Final = r"\|"
_ESCAPES: Final = str.maketrans({"<": "&lt;", "*": r"\*"})


def prose(text: str) -> str:
    """A text on one line, in which only code is marked up: `<name>` is no tag, and `*` no emphasis."""
    parts = _CODE.split(" ".join(text.split()))
    parts[::2] = [words.translate(_ESCAPES) for words in parts[::2]]
    return "".join(parts)


def code(text: str) -> str:
    """A text without backticks as code; nothing if it is empty."""
    return f"`{text}`" if text else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, with an empty one after it.

    Args:
        header: A title for each column.
        rows: The cells, as `prose` and `code` write them.
    """
    yield _row(header)
    yield f"|{'---|' * len(header)}"
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', _PIPE) for cell in cells)} |"
