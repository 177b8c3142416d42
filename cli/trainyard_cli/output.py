"""How a command answers: its exit code and its output format.

Used by the commands. Tables and text are for people, JSON for programs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table

FINE: Final = 0
REFUSED: Final = 1
CANNOT_ASK: Final = 2


class Output(StrEnum):
    """How to print an answer."""

    TEXT = "text"
    JSON = "json"


class Form(StrEnum):
    """How to print an answer, or the manifest that it is about."""

    TEXT = "text"
    YAML = "yaml"
    JSON = "json"


def write_json(value: Any, out: TextIO) -> None:
    """Print a value as a JSON document."""
    out.write(json.dumps(value, indent=2) + "\n")


def near(path: Path) -> Path:
    """The path, relative to the current folder if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def width_of(out: TextIO) -> int | None:
    """Characters of a line of a terminal; None for any other output, whose lines have any number."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    out: TextIO,
    *,
    folds: str = "",
    width: int | None = None,
) -> None:
    """Print a table.

    Args:
        columns: The headings.
        rows: A text for each column.
        out: Where to print.
        folds: The column that wraps at the width of the terminal; the others never do.
        width: Characters of a line; by default those of the terminal.
    """
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column != folds)
    for row in rows:
        table.add_row(*row)
    Console(file=out, markup=False, highlight=False, width=width).print(table)


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table of plain cells, as wide as they are: for thousands of rows, and to draw again."""
    table = [columns, *rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in table
    ]


def fitted(
    rows: Sequence[Mapping[str, str]], importance: Sequence[str], width: int | None = None
) -> list[str]:
    """The lines of a table of rows with equal columns: with all of them, or as many as fit.

    Args:
        rows: At least one, the cells by column.
        importance: The columns, the last to be left out first; that one stays in any case.
        width: Characters of a line; None for any number.
    """
    columns = list(rows[0])
    while True:
        lines = aligned(columns, [[row[column] for column in columns] for row in rows])
        if width is None or len(columns) == 1 or max(map(len, lines)) <= width:
            return lines
        columns.remove(max(columns, key=importance.index))
