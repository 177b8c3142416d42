"""The table that is held: which files it has, and the rows in them.

A table of Iceberg is one of its metadata files, which never changes: each process
of a cache sees the same rows in the same order. Parquet files must not change
while a cache loads them; the head compares what the workers have seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from .failures import Failure, InvalidSource, NotFound, Unauthorized, Unreachable
from .rows import Rows

_METADATA = ".metadata.json"
"""How the metadata files of Iceberg end."""
_PARQUET = ".parquet"
_REFUSED = (
    "access_denied",
    "access denied",
    "forbidden",
    "invalid_access_key_id",
    "signature_does_not_match",
)
_MISSING = ("not found", "no such", "no_such", "does not exist", "path_not_found")
_NAMED = re.compile("[^?#]*")
"""What PyIceberg reads of an address with a scheme."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table, and how many rows it has."""

    path: str
    rows: int


class Table(Protocol):
    """A table whose files are known, in an order that is the same everywhere."""

    @property
    def files(self) -> Sequence[DataFile]:
        """All of them."""

    def load(self, files: Sequence[DataFile]) -> pa.Table:
        """The rows of some of its files, in their order."""


def open_table(location: str, store: Mapping[str, str]) -> Table:
    """The table at a place.

    Args:
        location: A `*.metadata.json` of Iceberg, a Parquet file, or a folder that holds Parquet files.
        store: The properties of the store, under PyIceberg's names.

    Raises:
        Failure: It cannot be read, or has no row.
    """
    with _in_words(location):
        table: Table = (_Iceberg if location.endswith(_METADATA) else _Parquet)(location, store)
    if not rows_of(table):
        raise NotFound(f"{location} has no row")
    return table


def rows_of(table: Table) -> int:
    """How many rows the table has."""
    return sum(file.rows for file in table.files)


def fingerprint(table: Table) -> str:
    """The same for processes that see the same files with as many rows."""
    listed = json.dumps([[file.path, file.rows] for file in table.files])
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def load(table: Table, rows: Rows, location: str) -> pa.Table:
    """The rows, from no more files than hold them.

    Args:
        table: That has them.
        rows: Which.
        location: Of the table, for messages.

    Raises:
        Failure: They cannot be read.
    """
    chosen: list[DataFile] = []
    first = before = 0
    for file in table.files:
        if rows.shared(Rows(before, before + file.rows)).count:
            first = first if chosen else before
            chosen.append(file)
        before += file.rows
    # Whoever holds no row needs the columns all the same.
    chosen = chosen or list(table.files[:1])
    with _in_words(location):
        loaded = table.load(chosen)
    expected = sum(file.rows for file in chosen)
    if loaded.num_rows != expected:
        raise InvalidSource(
            f"{location}: its files hold {loaded.num_rows} rows where {expected} are listed: "
            "write the table anew"
        )
    # A copy, so that the rows of others do not stay in memory with it.
    return _combined(loaded.slice(rows.first - first, rows.count))


def _combined(rows: pa.Table) -> pa.Table:
    """The rows in as few arrays as count their elements: Arrow splits strings by itself, but no lists."""
    try:
        return rows.combine_chunks()
    except pa.ArrowInvalid:
        half = rows.num_rows // 2
        if not half:
            raise
        return pa.concat_tables([_combined(rows.slice(0, half)), _combined(rows.slice(half))])


class _Iceberg:
    """A snapshot of an Iceberg table: the current one of the metadata file."""

    def __init__(self, location: str, store: Mapping[str, str]) -> None:
        from pyiceberg.table import StaticTable  # noqa: PLC0415 - takes a second, and Parquet needs none of it

        if "://" in location and not _NAMED.fullmatch(location):
            raise InvalidSource(
                f"{location}: PyIceberg reads no address with ? or #: write the table to one without them"
            )
        self._table = StaticTable.from_metadata(location, dict(store))
        self._scan = self._table.scan()
        tasks = sorted(self._scan.plan_files(), key=lambda task: task.file.file_path)
        for task in tasks:
            if task.delete_files:
                raise InvalidSource(
                    f"{location}: rows of {task.file.file_path} are deleted by files of their own: "
                    "compact the table (rewrite_data_files)"
                )
        self._tasks = {task.file.file_path: task for task in tasks}
        self.files: Sequence[DataFile] = [
            DataFile(path, task.file.record_count) for path, task in self._tasks.items()
        ]

    def load(self, files: Sequence[DataFile]) -> pa.Table:
        """The rows of the files, with the columns that the table has now."""
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

        scan = ArrowScan(self._table.metadata, self._table.io, self._scan.projection(), AlwaysTrue())
        return scan.to_table([self._tasks[file.path] for file in files])


class _Parquet:
    """A Parquet file, or all of a folder, by their names."""

    def __init__(self, location: str, store: Mapping[str, str]) -> None:
        self._files, place = _file_system(location, store)
        files: list[DataFile] = []
        self._schema: pa.Schema = None
        for path in self._paths(place, location):
            with self._files.open_input_file(path) as content:
                footer = pq.ParquetFile(content)
                files.append(DataFile(path, footer.metadata.num_rows))
                if files[-1].rows:
                    self._schema = _common(self._schema, footer.schema_arrow, path)
        self.files: Sequence[DataFile] = files

    def _paths(self, place: str, location: str) -> Sequence[str]:
        information = self._files.get_file_info(place)
        if information.type == fs.FileType.File:
            return [place]
        if information.type != fs.FileType.Directory:
            raise NotFound(f"{location} does not exist")
        listed = self._files.get_file_info(fs.FileSelector(place, recursive=True))
        paths = sorted(entry.path for entry in listed if entry.is_file and entry.path.endswith(_PARQUET))
        if not paths:
            raise NotFound(f"{location} holds no *{_PARQUET}, and does not end with {_METADATA}")
        return paths

    def load(self, files: Sequence[DataFile]) -> pa.Table:
        """The rows of the files, with the columns that are common to all files of the table."""
        tables = [self._schema.empty_table()]
        for file in files:
            with self._files.open_input_file(file.path) as content:
                tables.append(pq.ParquetFile(content).read())
        return pa.concat_tables(tables, promote_options="permissive")


def _common(schema: pa.Schema | None, other: pa.Schema, path: str) -> pa.Schema:
    """The columns with types that hold the values of both.

    Args:
        schema: Of the files before; None if there is none.
        other: Of the next file.
        path: Of that file, for messages.
    """
    if schema is None:
        return other
    if schema.names != other.names:
        raise InvalidSource(
            f"{path} has the columns {', '.join(other.names)}, where the files before it "
            f"have {', '.join(schema.names)}"
        )
    try:
        return pa.unify_schemas([schema, other], promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidSource(
            f"{path} has columns of other types than the files before it: {_line(error)}"
        ) from error


def _file_system(location: str, store: Mapping[str, str]) -> tuple[Any, str]:
    """The file system of a place, and the place in it."""
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415

    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    if "://" in location:
        # PyIceberg leaves out what follows a `?` or `#`; here they are parts of names.
        path += _NAMED.sub("", location, count=1)
    return PyArrowFileIO(dict(store)).fs_by_scheme(scheme, netloc), path


@contextmanager
def _in_words(location: str) -> Iterator[None]:
    """Raise what reading a table raises as a `Failure`."""
    try:
        yield
    except Failure:
        raise
    except FileNotFoundError as error:
        raise NotFound(f"{location}: {_line(error)}") from error
    except PermissionError as error:
        raise Unauthorized(f"{location}: {_line(error)}; check the keys or the role") from error
    except OSError as error:
        text = str(error).lower()
        if any(word in text for word in _REFUSED):
            raise Unauthorized(f"{location}: {_line(error)}; check the keys or the role") from error
        if any(word in text for word in _MISSING):
            raise NotFound(f"{location}: {_line(error)}") from error
        raise Unreachable(f"{location}: {_line(error)}") from error
    except Exception as error:
        raise InvalidSource(f"{location} cannot be read as a table: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
