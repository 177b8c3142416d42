"""The file of what a preview comes to: whole at any moment; what else is there is refused."""

from pathlib import Path

import pytest

from trainyard_cli.files import outcomes
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_platform.errors import PlatformError

OUTCOME = Outcome("1 to change", ("refused by a: b",), ("error: c",))
AGAIN = "run the preview again, from the same commit as the report"


def why_not(file: Path) -> str:
    with pytest.raises(PlatformError) as refused:
        outcomes.read(file, "prod")
    return str(refused.value)


def test_it_is_read_as_it_was_written_and_nothing_else_is_left_in_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "results" / "prod.json"
    outcomes.write(file, "prod", outcomes.UNFINISHED)
    outcomes.write(file, "prod", OUTCOME)
    assert outcomes.read(file, "prod") == OUTCOME
    assert list(file.parent.iterdir()) == [file]


def test_who_has_opened_it_reads_it_to_the_end_whatever_is_written_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "prod.json"
    outcomes.write(file, "prod", OUTCOME)
    before = file.read_text()
    with file.open() as opened:
        begin = opened.read(10)
        outcomes.write(file, "prod", Outcome("2 to change" * 9000))
        assert begin + opened.read() == before


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "prod.json"
    file.mkdir()
    with pytest.raises(PlatformError) as refused:
        outcomes.write(file, "prod", OUTCOME)
    assert str(refused.value) == (
        f"{file}: the result of the preview cannot be written: Is a directory. Name another file"
    )
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_not_there_says_who_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "prod.json"
    assert why_not(file) == (
        f"{file} is not there: run make preview with OUTCOME={file}, as .github/scripts/keep does"
    )


def test_what_is_no_outcome_says_so_with_its_file_and_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "prod.json"
    outcomes.write(file, "dev", OUTCOME)
    assert why_not(file) == f"{file} is about the stack dev, not prod: {AGAIN}"
    file.write_bytes(file.read_bytes()[:-9])
    assert why_not(file) == f"{file} is not JSON, or not all of it is there: {AGAIN}"
    file.write_bytes(b" " * 10_000_001)
    assert why_not(file) == f"{file} has more than 10000000 bytes: {AGAIN}"
    file.unlink()
    file.mkdir()
    assert why_not(file) == f"{file} cannot be read (Is a directory): {AGAIN}"
