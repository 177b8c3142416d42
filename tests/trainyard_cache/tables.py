"""Tables to hold: Iceberg's by a catalog in memory, and Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

NUMBERS = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])


def numbers(first: int, end: int) -> pa.Table:
    ids = range(first, end)
    return pa.table([list(ids), [f"row {number}" for number in ids]], schema=NUMBERS)


def iceberg(folder: Path, *ends: int) -> Table:
    """A table of the numbers from 0 to the last end, appended in as many steps as there are ends."""
    catalog = InMemoryCatalog("test", warehouse=str(folder))
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.numbers", NUMBERS)
    for first, end in zip((0, *ends), ends, strict=False):
        table.append(numbers(first, end))
    return table


def parquet(folder: Path, *ends: int) -> str:
    """A folder of files with the same numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for first, end in zip((0, *ends), ends, strict=False):
        pq.write_table(numbers(first, end), folder / f"{first:06}.parquet")
    return str(folder)
