"""The table that a cache holds: its files, the rows in them, and what is wrong with it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

from trainyard_cache import table
from trainyard_cache.failures import Failure
from trainyard_cache.rows import Rows, share

from .tables import iceberg, numbers, parquet

KINDS = ["iceberg", "parquet"]


@pytest.fixture(params=KINDS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a table of 250 rows in three files."""
    if request.param == "parquet":
        return parquet(tmp_path / "numbers", 100, 130, 250)
    return iceberg(tmp_path, 100, 130, 250).metadata_location


def refused(location: str, **store: str) -> str:
    with pytest.raises(Failure) as error:
        table.open_table(location, store)
    return str(error.value)


def test_its_rows_are_known_before_they_are_read(location: str) -> None:
    opened = table.open_table(location, {})
    assert sorted(file.rows for file in opened.files) == [30, 100, 120]
    assert table.rows_of(opened) == 250


def test_the_shares_of_workers_are_all_rows_once(location: str) -> None:
    opened = table.open_table(location, {})
    shares = [share(250, index, 4) for index in range(4)]
    held = [table.load(opened, rows, location) for rows in shares]
    assert [part.num_rows for part in held] == [rows.count for rows in shares]
    whole = pa.concat_tables(held)
    assert sorted(whole["id"].to_pylist()) == list(range(250))
    assert whole.sort_by("id").select(["id", "text"]) == numbers(0, 250)


def test_a_share_that_begins_and_ends_within_files_is_read(location: str) -> None:
    opened = table.open_table(location, {})
    whole = table.load(opened, Rows(0, 250), location)
    assert table.load(opened, Rows(95, 135), location) == whole.slice(95, 40).combine_chunks()
    assert table.load(opened, Rows(7, 7), location).num_rows == 0


def test_the_rows_of_others_do_not_stay_in_memory(location: str) -> None:
    opened = table.open_table(location, {})
    held = table.load(opened, Rows(40, 45), location)
    assert held.get_total_buffer_size() <= numbers(0, 5).get_total_buffer_size() * 2


def test_a_share_of_a_parquet_file_needs_no_other_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(numbers(0, 100), path, row_group_size=20)
    groups = pq.read_metadata(path)
    content = bytearray(path.read_bytes())
    for number in (0, 1, 4):
        for column in range(groups.num_columns):
            chunk = groups.row_group(number).column(column)
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            content[first : first + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    opened = table.open_table(str(path), {})
    assert table.load(opened, Rows(45, 75), str(path)) == numbers(45, 75)
    with pytest.raises(Failure):
        table.load(opened, Rows(35, 75), str(path))


def test_a_share_is_put_together_from_pieces(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_AT_A_TIME", 300)
    opened = table.open_table(location, {})
    held = table.load(opened, Rows(0, 250), location)
    assert held["id"].num_chunks > 2
    assert held.sort_by("id").select(["id", "text"]) == numbers(0, 250)


def test_a_file_with_other_rows_than_were_listed_is_said(tmp_path: Path) -> None:
    location = parquet(tmp_path, 10)
    opened = table.open_table(location, {})
    pq.write_table(numbers(0, 11), tmp_path / "000000.parquet")
    with pytest.raises(Failure) as error:
        table.load(opened, Rows(0, 10), location)
    assert str(error.value) == (
        f"InvalidSource: {tmp_path}/000000.parquet: 11 rows, where 10 are listed: write the table again"
    )


def test_each_process_sees_the_same_table(location: str) -> None:
    first, second = (table.open_table(location, {}) for _ in range(2))
    assert table.fingerprint(first) == table.fingerprint(second)


def test_a_file_that_was_added_is_another_table(tmp_path: Path) -> None:
    location = parquet(tmp_path, 10, 20)
    before = table.fingerprint(table.open_table(location, {}))
    parquet(tmp_path, 10, 20, 30)
    assert table.fingerprint(table.open_table(location, {})) != before


def test_one_parquet_file_is_a_table(tmp_path: Path) -> None:
    parquet(tmp_path, 10)
    opened = table.open_table(f"file://{tmp_path}/000000.parquet", {})
    assert table.load(opened, Rows(2, 5), "x")["id"].to_pylist() == [2, 3, 4]


def test_a_question_mark_and_a_number_sign_are_parts_of_a_name(tmp_path: Path) -> None:
    parquet(tmp_path / "exp", 10)
    folder = parquet(tmp_path / "exp#2?", 20)
    assert table.rows_of(table.open_table(f"file://{folder}", {})) == 20


def test_an_iceberg_table_whose_address_pyiceberg_would_cut_off_is_refused() -> None:
    assert refused("s3://b/exp#2/1.metadata.json") == (
        "InvalidSource: s3://b/exp#2/1.metadata.json: PyIceberg reads no address with ? or #: "
        "write the table to one without them"
    )


def test_rows_that_were_written_before_a_column_was_added_have_none_in_it(tmp_path: Path) -> None:
    written = iceberg(tmp_path, 5)
    with written.update_schema() as update:
        update.add_column("score", LongType())
    location = written.metadata_location
    assert table.load(table.open_table(location, {}), Rows(3, 5), location).to_pylist() == [
        {"id": 3, "text": "row 3", "score": None},
        {"id": 4, "text": "row 4", "score": None},
    ]


def test_a_table_without_a_row_is_said(tmp_path: Path) -> None:
    location = iceberg(tmp_path).metadata_location
    assert refused(location) == f"NotFound: {location} has no row"


@pytest.mark.parametrize("name", ["none", "none/1.metadata.json", "none/a.parquet"])
def test_a_table_that_is_not_there_is_said(tmp_path: Path, name: str) -> None:
    assert refused(f"{tmp_path}/{name}").startswith(f"NotFound: {tmp_path}/{name}")


def test_a_folder_without_parquet_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert refused(str(tmp_path)) == (
        f"NotFound: {tmp_path} holds no *.parquet, and does not end with .metadata.json"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [("1.metadata.json", "{}"), ("1.metadata.json", "not JSON"), ("a.parquet", "not Parquet")],
)
def test_what_is_no_table_is_said(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    said = refused(f"{tmp_path}/{name}")
    assert said.startswith(f"InvalidSource: {tmp_path}/{name} cannot be read as a table: ")
    assert "\n" not in said


def test_files_with_other_columns_are_no_table(tmp_path: Path) -> None:
    location = parquet(tmp_path, 10)
    pq.write_table(pa.table({"other": [1]}), tmp_path / "000010.parquet")
    assert refused(location) == (
        f"InvalidSource: {tmp_path}/000010.parquet has the columns other, where the files before it "
        "have id, text"
    )


def test_files_whose_types_have_nothing_in_common_are_no_table(tmp_path: Path) -> None:
    for name, value in {"a": 1, "b": "x"}.items():
        pq.write_table(pa.table({"id": [value]}), tmp_path / f"{name}.parquet")
    assert refused(str(tmp_path)).startswith(
        f"InvalidSource: {tmp_path}/b.parquet has columns of other types than the files before it: "
    )


def test_each_share_has_the_columns_of_the_whole_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2.5])}), tmp_path / "b.parquet")
    pq.write_table(pa.table({}), tmp_path / "c.parquet")  # of no row, as some writers leave behind
    opened = table.open_table(str(tmp_path), {})
    held = [table.load(opened, share(2, index, 3), "x") for index in range(3)]
    assert held == [pa.table({"id": pa.array(values, pa.float64())}) for values in ([1.0], [2.5], [])]


def test_a_file_that_has_gone_is_said(tmp_path: Path) -> None:
    location = parquet(tmp_path, 10, 20)
    opened = table.open_table(location, {})
    (tmp_path / "000010.parquet").unlink()
    assert table.load(opened, Rows(0, 10), location).num_rows == 10
    with pytest.raises(Failure, match=r"NotFound: .*000010\.parquet"):
        table.load(opened, Rows(5, 15), location)


def test_a_store_that_gives_no_answer_is_unreachable() -> None:
    store = {
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "eu",
        "s3.connect-timeout": "1",
    }
    assert refused("s3://tables/numbers/a.parquet", **store).startswith(
        "Unreachable: s3://tables/numbers/a.parquet: "
    )


class Lists:
    """Files of two lists each, which together have more elements than a column of lists can count."""

    files = (table.DataFile("first", 2), table.DataFile("second", 2))

    def load(self, parts: Sequence[table.Part]) -> Iterator[pa.Table]:
        elements = 1_500_000_000
        offsets = pa.array([0, elements // 2, elements], pa.int32())
        lists = pa.ListArray.from_arrays(offsets, pa.nulls(elements))  # of nothing, so it needs no memory
        for _, rows in parts:
            yield pa.table({"tokens": lists}).slice(rows.first, rows.count)


@pytest.mark.parametrize("rows", [Rows(0, 4), Rows(1, 4)], ids=["all", "a share"])
def test_lists_with_more_elements_than_one_array_counts_are_held(rows: Rows) -> None:
    held = table.load(Lists(), rows, "x")
    lengths = pa.compute.list_value_length(held["tokens"]).to_pylist()
    assert (lengths, held.schema.field("tokens").type) == ([750_000_000] * rows.count, pa.list_(pa.null()))
