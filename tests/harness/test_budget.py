"""What a phase may take, and what has grown."""

import json
from pathlib import Path

from .budget import Budget, by_file, load, update
from .phases import steps
from .results import Results
from .verdict import Phase, judged, told

BUDGET = Budget(120, {"tests/a.py": 10.0, "tests/b.py": 30.0, "tests/e.py": 5.0})


ALIKE = {"tests/a.py::one": 10, "tests/b.py::two": 30, "tests/e.py::five": 5}


def test_a_file_that_takes_more_than_twice_its_share_has_grown() -> None:
    assert BUDGET.grown(ALIKE | {"tests/a.py::one": 21}) == ["tests/a.py 10 s -> 21 s"]
    assert BUDGET.grown(ALIKE | {"tests/a.py::one": 19}) == []


def test_on_a_slow_machine_nothing_has_grown() -> None:
    assert BUDGET.grown({test: 3 * seconds for test, seconds in ALIKE.items()}) == []


def test_a_new_file_has_grown_from_nothing() -> None:
    assert BUDGET.grown(ALIKE | {"tests/c.py::three": 7, "tests/d.py::four": 1}) == ["tests/c.py 0 s -> 7 s"]


def test_the_end_of_a_run_says_both() -> None:
    phase = Phase("check", 130, 0, Results(ALIKE | {"tests/c.py::three": 7}), budget=BUDGET)
    assert told([phase], judged([phase]), "1.0", "").splitlines()[1:4] == [
        "== where the time went",
        "   check          2 min 10 s of 2 min 0 s   4 passed, 0 failed",
        "      has grown since the budget was set: tests/c.py 0 s -> 7 s",
    ]


def test_what_files_take_now_is_written_down_and_the_seconds_stay(tmp_path: Path) -> None:
    path = tmp_path / "budgets.json"
    path.write_text(json.dumps({"check": {"seconds": 120, "files": {"tests/gone.py": 3}}}))
    update(
        {"check": {"tests/a.py::one": 1.04, "tests/a.py::two": 1, "tests/b.py::three": 0.5}, "e2e": {}}, path
    )
    assert load(path) == {"check": Budget(120, {"tests/a.py": 2.0})}


def test_those_that_are_set_are_of_phases_that_there_are() -> None:
    assert load().keys() <= steps().keys()


def test_an_area_is_a_part_of_its_phase_and_has_no_budget() -> None:
    assert (steps()["e2e"].name, steps("tenants")["e2e"].name) == ("e2e", "e2e tenants")
    assert "e2e tenants" not in load()


def test_the_longest_files_of_e2e_come_first() -> None:
    assert "--longest-first=e2e" in steps()["e2e"].command
    assert load()["e2e"].files


def test_seconds_of_a_file_are_those_of_its_tests() -> None:
    assert by_file({"a.py::b": 1.0, "a.py::c": 2.0}) == {"a.py": 3.0}
