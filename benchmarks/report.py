"""Results as tables for people, as JSON for programs, and as charts for documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import chart
from .figures import Figure, shown
from .rounds import Result, Results
from .scenarios import ALL, Scenario

MORE_IS_BETTER = ("jobs/s",)
"""How the names of figures end of which more is better; of all others it is less."""


def write(results: Results, folder: Path) -> None:
    """Write `results.json`, `tables.md` and the charts, in the place of those of the run before."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(as_json(results), indent=1) + "\n")
    (folder / "tables.md").write_text(text(results) + "\n")
    for old in (file for scenario in ALL for file in _charts(scenario, folder)):
        old.unlink(missing_ok=True)
    for result in results.results:
        for file, name in _charts(result.scenario, folder).items():
            if bars := _bars(result, name):
                ours = 1 if len(result.scenario.sides) > 1 else len(bars)
                file.write_text(chart.bars(f"{result.scenario.name}, {name}", bars, ours=ours))


def _charts(scenario: Scenario, folder: Path) -> dict[Path, str]:
    """The figures of a scenario that are drawn, by file."""
    return {folder / f"{scenario.name}-{number}.svg": name for number, name in enumerate(scenario.charts, 1)}


def _bars(result: Result, name: str) -> dict[str, Figure]:
    """A bar for each side, or for each size if only ours is measured at several sizes."""
    ours = result.of(result.scenario.sides[0])
    sides = {
        side.title: figure for side in result.scenario.everybody if (figure := result.of(side).get(name))
    }
    of_size = f": {name}"
    return sides or {
        key.removesuffix(of_size): figure for key, figure in ours.items() if key.endswith(of_size)
    }


def as_json(results: Results) -> dict[str, Any]:
    """Everything that was measured, round by round."""
    return {
        "started": results.started.isoformat(timespec="seconds"),
        "quick": results.quick,
        "machine": results.machine,
        "scenarios": {
            result.scenario.name: {
                "title": result.scenario.title,
                "turns": [asdict(turn) for turn in result.turns],
            }
            for result in results.results
        },
        "failed": results.failed,
    }


def text(results: Results) -> str:
    """All tables in Markdown, and what they were measured on."""
    about = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    kind = " in a quick run, of little of everything" if results.quick else ""
    head = f"Measured at {results.started:%Y-%m-%d %H:%M} UTC{kind}, on {about}."
    return "\n\n".join([head, *(table(result) for result in results.results), *_failures(results)])


def _failures(results: Results) -> Iterator[str]:
    """What failed, and why, if anything did."""
    if results.failed:
        failed = (f"- {turn}: {why}".replace("\n", "\n  ") for turn, why in results.failed.items())
        yield "\n".join(["### Failed", "", *failed])


def table(result: Result) -> str:
    """One scenario: medians over the rounds with their spread, and ours over the better of the others."""
    scenario = result.scenario
    compared = len(scenario.sides) > 1
    columns = [result.of(side) for side in scenario.everybody]
    header = ["", *(side.title for side in scenario.everybody), *(["ratio"] if compared else [])]
    lines = [_row(header), _row(["---", *("---:" for _ in header[1:])])]
    for name in dict.fromkeys(name for figures in columns for name in figures):
        values = [figures.get(name) for figures in columns]
        baseline = values[-1] if scenario.baseline else None
        last = [ratio(name, values[: len(scenario.sides)], baseline)] if compared else []
        lines.append(_row([name, *("" if value is None else str(value) for value in values), *last]))
    return "\n".join([f"### {scenario.name}", "", f"{scenario.title}.", "", *lines, "", _note(result)])


def ratio(name: str, values: Sequence[Figure | None], baseline: Figure | None = None) -> str:
    """Ours, the first, over the better of the others, each less the baseline; empty if it says nothing."""
    less = 0.0 if baseline is None else baseline.median
    ours, *others = (None if value is None else value.median - less for value in values)
    references = [other for other in others if other is not None and other > 0]
    if ours is None or not references:
        return ""
    return shown(ours / (max(references) if name.endswith(MORE_IS_BETTER) else min(references)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _note(result: Result) -> str:
    scenario = result.scenario
    turns = Counter(turn.side for turn in result.turns)
    rounds = max(turns.values())
    fewer = [f"{side.title}: {turns[side.name]}" for side in scenario.everybody if turns[side.name] < rounds]
    less_often = f" ({'; '.join(fewer)})" if fewer else ""
    loads = [turn.load for turn in result.turns]
    spread = "Median of {0} rounds{1}, with the least and the most; " if rounds > 1 else "One round{1}; "
    less = "; ratios are of what is left after that of no operator is taken off" if scenario.baseline else ""
    return (
        f"{spread.format(rounds, less_often)}load of the machine before each turn {shown(min(loads))} to "
        f"{shown(max(loads))}{less}."
    )
