"""Who is to blame for the end of a training, and what it said: forty ways to fail, run for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.failing_scripts import CASES, Failing, Told, told


def every() -> list[Any]:
    return [pytest.param(case, id=case.name, marks=() if case.core else pytest.mark.long) for case in CASES]


@pytest.mark.parametrize("case", every())
def test_the_culprit_is_named_with_its_own_words_and_exit_code(case: Failing, tmp_path: Path) -> None:
    found = told(case, tmp_path)
    place = "" if case.line is None else f" ({tmp_path}/rank-{case.culprit}.py:{case.line})"
    assert found == Told(case.culprit, case.code, (case.says + place).strip())


def test_there_are_forty_of_them_and_ten_are_core() -> None:
    assert (len(CASES) >= 40, sum(case.core for case in CASES)) == (True, 10)
