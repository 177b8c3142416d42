"""The table that is held: which files it has, and the rows in them.

A table of Iceberg is one of its metadata files, which never changes: each process
of a cache sees the same rows in the same order. Parquet files must not change
while a cache loads them; the head compares what the workers have seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from .failures import Failure, InvalidSource, NotFound, Unauthorized, Unreachable
from .rows import Rows

T = TypeVar("T")
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
_AT_A_TIME: Final = 64 << 20
"""Bytes that are read at a time, as far as files can be read in parts."""
_ROWS: Final = 8192
"""Rows that are read at a time, at most: a file is often smaller than what is in it."""
_NAMED = re.compile("[^?#]*")
"""What PyIceberg reads of an address with a scheme."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table, and how many rows it has."""

    path: str
    rows: int


Part = tuple[DataFile, Rows]
"""A file, and which of its rows: counted from its first one."""


class Table(Protocol):
    """A table whose files are known, in an order that is the same everywhere."""

    @property
    def files(self) -> Sequence[DataFile]:
        """All of them."""

    def load(self, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """Tables of exactly these rows, in their order; each may keep more in memory than its rows."""


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
    """The rows, from no more files than hold them; other rows do not stay in memory.

    Args:
        table: That has them.
        rows: Which.
        location: Of the table, for messages.

    Raises:
        Failure: They cannot be read.
    """
    # A worker without a row needs the columns too.
    parts = list(rows.within(table.files, lambda file: file.rows)) or [(table.files[0], Rows(0, 0))]
    held: list[pa.Table] = []
    with _in_words(location):
        for tables in _gathered(table.load(parts), lambda part: part.nbytes):
            held.append(_copied(tables))
            tables.clear()
        return pa.concat_tables(held, promote_options="permissive")


def _gathered(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in lists, each of as few as have enough bytes together; keeps none of them."""
    gathered: list[T] = []
    total = 0
    for item in items:
        gathered.append(item)
        total += size(item)
        del item  # it may be large, and so may the next one
        if total >= _AT_A_TIME:
            yield gathered
            gathered, total = [], 0
    if gathered:
        yield gathered


def _copied(tables: Sequence[pa.Table]) -> pa.Table:
    """A copy of the rows, which keeps nothing else in memory, in as few arrays as count their elements."""
    rows = pa.concat_tables(tables, promote_options="permissive")
    if not rows.num_rows:
        return rows.schema.empty_table()
    try:
        # `combine_chunks` copies no column that is in one array already.
        columns = [pa.concat_arrays(column.chunks) for column in rows.columns]
    except pa.ArrowInvalid:
        half = rows.num_rows // 2
        if not half:
            raise
        return pa.concat_tables([_copied([rows.slice(0, half)]), _copied([rows.slice(half)])])
    return pa.Table.from_arrays(columns, schema=rows.schema)


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

    def load(self, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """The rows, with the columns that the table has now; reads whole files, small ones together."""
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

        scan = ArrowScan(self._table.metadata, self._table.io, self._scan.projection(), AlwaysTrue())
        for group in _gathered(parts, lambda part: self._tasks[part[0].path].file.file_size_in_bytes):
            loaded = scan.to_table([self._tasks[file.path] for file, _ in group])
            _check([file for file, _ in group], loaded.num_rows)
            # Only the first and the last file of a share have rows of others.
            yield loaded.slice(group[0][1].first, sum(rows.count for _, rows in group))
            del loaded


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

    def load(self, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """The rows, with the columns that all files of the table have; reads a few rows at a time."""
        yield self._schema.empty_table()
        for file, rows in parts:
            with self._files.open_input_file(file.path) as content:
                opened = pq.ParquetFile(content)
                _check([file], opened.metadata.num_rows)
                yield from _read(opened, rows)


def _read(file: pq.ParquetFile, rows: Rows) -> Iterator[pa.Table]:
    """The rows of a Parquet file, from no more of its row groups than hold them."""
    groups = range(file.metadata.num_row_groups)
    for number, of_group in rows.within(groups, lambda number: file.metadata.row_group(number).num_rows):
        group = file.metadata.row_group(number)
        most = _AT_A_TIME * group.num_rows // max(1, group.total_byte_size)
        batches = file.iter_batches(max(1, min(most, _ROWS)), row_groups=[number])
        for batch, wanted in of_group.within(batches, lambda batch: batch.num_rows):
            yield pa.Table.from_batches([batch.slice(wanted.first, wanted.count)])


def _check(files: Sequence[DataFile], loaded: int) -> None:
    """Raises if files have more or fewer rows than when they were listed."""
    listed = sum(file.rows for file in files)
    if loaded != listed:
        place = files[0].path if len(files) == 1 else f"{files[0].path} to {files[-1].path}"
        raise InvalidSource(f"{place}: {loaded} rows, where {listed} are listed: write the table again")


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
