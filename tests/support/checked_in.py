"""Files that are checked in and made from something else: a test holds each to what makes it.

`make generate` runs the same tests (tests/harness/generate.py), and has them
write the files first.
"""

import os
from collections.abc import Iterable
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
WRITE: Final = "TRAINYARD_GENERATE"
"""The variable with which `make generate` has files written."""
BEGIN: Final = "<!-- begin table -->\n"
END: Final = "<!-- end table -->\n"
"""What is between them on a page is made; the rest is written by hand."""
_SHOWN: Final = 40
"""Lines of a difference."""


def hold(file: Path, text: str) -> None:
    """Hold a file to its text, or write it where `make generate` asks for that.

    Args:
        file: Which; if it is not there yet, it counts as empty.
        text: What makes the file, as it is now, makes this.

    Raises:
        AssertionError: If the file is another; names it, and shows the difference.
    """
    if os.environ.get(WRITE):
        file.write_text(text, encoding="utf-8")
    current = file.read_text(encoding="utf-8") if file.exists() else ""
    if current == text:
        return
    difference = unified_diff(current.splitlines(), text.splitlines(), "checked in", "made", lineterm="")
    name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    shown = "\n".join(islice(difference, _SHOWN))
    raise AssertionError(f"{name} is out of date: run `make generate`, and read the difference\n{shown}")


def with_table(page: str, lines: Iterable[str]) -> str:
    """A page with this table in place of the one that it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "".join(f"{line}\n" for line in lines) + END + after
