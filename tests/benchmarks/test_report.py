"""Results become tables, JSON and charts."""

import json
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.bench import FAST, NOBODY, OURS, REFERENCE
from benchmarks.figures import Figure
from benchmarks.rounds import Result, Results, Turn, turned
from benchmarks.scenarios import ALL, Scenario

from benchmarks import chart, report


async def measure(bench, **much):
    raise AssertionError("nothing is measured here")


def scenario(**fields):
    known = {"name": "burst", "title": "Many at once", "measure": measure, "sides": (OURS, REFERENCE, FAST)}
    return Scenario(**{**known, "much": {}, "quick": {}, **fields})


def turns(**figures):
    """Turns of each side, from its values of `jobs/s` by round."""
    return tuple(Turn(side, 0.5, {"jobs/s": value}) for side, values in figures.items() for value in values)


def results(*found):
    return Results(datetime(2026, 1, 2, 3, 4, tzinfo=UTC), False, {"CPU": "2 cores"}, list(found))


def test_a_table_has_medians_spreads_and_the_ratio_to_the_better_of_the_others():
    found = Result(
        scenario(),
        turns(**{"ours": (100, 120, 110), "reference": (50, 51, 52), "reference-fast": (55, 54, 56)}),
    )
    assert report.table(found) == "\n".join(
        [
            "### burst",
            "",
            "Many at once.",
            "",
            "|  | Trainyard | Trainer v2.3.0 | Trainer v2.3.0, QPS 2000 | ratio |",
            "| --- | ---: | ---: | ---: | ---: |",
            "| jobs/s | 110 (100 to 120) | 51.0 (50.0 to 52.0) | 55.0 (54.0 to 56.0) | 2 |",
            "",
            "Median of 3 rounds, with the least and the most; "
            "load of the machine before each turn 0.5 to 0.5.",
        ]
    )


def test_of_what_is_not_a_rate_less_is_better():
    values = [Figure((6.0,)), Figure((12.0,)), Figure((10.0,))]
    assert report.ratio("CPU a job, ms", values) == "0.6"


def test_what_costs_without_an_operator_is_taken_off_before_comparing():
    assert report.ratio("CPU", [Figure((7.0,)), Figure((9.0,))], Figure((5.0,))) == "0.5"


def test_there_is_no_ratio_to_nothing():
    assert report.ratio("writes", [Figure((1.0,)), Figure((0.0,))]) == ""
    assert report.ratio("writes", [None, Figure((1.0,))]) == ""


def test_the_baseline_has_a_column_but_no_ratio():
    lives = scenario(sides=(OURS, REFERENCE), baseline=NOBODY)
    found = Result(lives, turns(ours=(7,), reference=(9,), nobody=(5,)))
    assert "| jobs/s | 7 | 9 | 5 | 0.5 |" in report.table(found)


def test_everything_is_written_and_can_be_read_again(tmp_path):
    drawn = scenario(sides=(OURS, REFERENCE), charts=("jobs/s", "never measured"))
    report.write(results(Result(drawn, turns(ours=(100,), reference=(50,)))), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["burst-1.svg", "results.json", "tables.md"]
    assert json.loads((tmp_path / "results.json").read_text()) == {
        "started": "2026-01-02T03:04:00+00:00",
        "quick": False,
        "machine": {"CPU": "2 cores"},
        "scenarios": {
            "burst": {
                "title": "Many at once",
                "turns": [
                    {"side": "ours", "load": 0.5, "figures": {"jobs/s": 100}},
                    {"side": "reference", "load": 0.5, "figures": {"jobs/s": 50}},
                ],
            }
        },
        "failed": {},
    }


def test_the_charts_of_another_run_go_and_what_is_not_a_chart_of_ours_stays(tmp_path):
    for name in ("ladder-1.svg", "burst-2.svg", "mine-1.svg"):
        (tmp_path / name).touch()
    drawn = scenario(sides=(OURS, REFERENCE), charts=("jobs/s",))
    report.write(results(Result(drawn, turns(ours=(100,), reference=(50,)))), tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["burst-1.svg", "mine-1.svg"]


def test_what_failed_is_in_all_files_and_the_note_says_whose_rounds_are_missing(tmp_path):
    some = results(Result(scenario(sides=(OURS, REFERENCE)), turns(ours=(100, 110), reference=(50,))))
    some.failed["burst, Trainer v2.3.0, round 2"] = "it has ended; it said last:\npanic"
    report.write(some, tmp_path)
    assert (tmp_path / "tables.md").read_text().splitlines()[-6:] == [
        "Median of 2 rounds (Trainer v2.3.0: 1), with the least and the most; "
        "load of the machine before each turn 0.5 to 0.5.",
        "",
        "### Failed",
        "",
        "- burst, Trainer v2.3.0, round 2: it has ended; it said last:",
        "  panic",
    ]
    assert json.loads((tmp_path / "results.json").read_text())["failed"] == some.failed


def test_what_is_measured_at_several_sizes_has_a_bar_for_each(tmp_path):
    ladder = scenario(sides=(OURS,), charts=("p99, ms",))
    figures: dict[str, Any] = {"100: jobs/s": 9, "100: p99, ms": 1, "500: jobs/s": 8, "500: p99, ms": 2}
    report.write(results(Result(ladder, (Turn("ours", 0.5, figures),))), tmp_path)
    drawn = ElementTree.fromstring((tmp_path / "burst-1.svg").read_text())
    texts = [text.text for text in drawn.findall("{http://www.w3.org/2000/svg}text")]
    assert texts == ["burst, p99, ms", "100", "1", "500", "2"]


def test_a_bar_is_as_long_as_its_median_and_the_longest_spread_fills_the_width():
    drawn = ElementTree.fromstring(chart.bars("a < b", {"ours": Figure((50.0, 100.0, 75.0))}))
    name = "{http://www.w3.org/2000/svg}"
    (_, bar) = drawn.findall(f"{name}rect")
    whole = float(bar.get("width")) / 0.75
    assert drawn.find(f"{name}text").text == "a < b"
    (line,) = drawn.findall(f"{name}path")
    assert line.get("d").startswith(f"M{chart.LEFT + whole / 2:.1f} ")


def test_each_side_has_the_first_turn_once():
    assert [turned((OURS, REFERENCE, FAST), number)[0] for number in range(3)] == [OURS, REFERENCE, FAST]


@pytest.mark.parametrize("known", ALL, ids=lambda s: s.name)
def test_a_quick_run_measures_the_same_things(known):
    assert known.quick.keys() == known.much.keys()
    assert known.sides[0] is OURS
