"""What a phase may take, and which of its files have grown since that was decided.

`budgets.json` holds both. Machines differ, and so do days: a file has grown if
it takes longer by more than most of the others do. `TRAINYARD_UPDATE_BUDGETS=1 make test`
writes down what each file takes now; the seconds of a phase are changed by hand.
`make e2e` begins with the files that take longest (tests/conftest.py).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

FILE: Final = Path(__file__).with_name("budgets.json")
UPDATE: Final = "TRAINYARD_UPDATE_BUDGETS"
MOST_NAMED: Final = 5
"""Files that have grown, at most so many."""
_NOTICED: Final = 3.0
"""Seconds by which a file has to grow, and twice what it took."""


@dataclass(frozen=True)
class Budget:
    """Of one phase.

    Attributes:
        seconds: That it may take, on a quiet machine of two cores.
        files: Seconds that each of its files took when that was decided, of those that took one or more.
    """

    seconds: float
    files: Mapping[str, float]

    def grown(self, tests: Mapping[str, float]) -> list[str]:
        """Files that have grown, the worst first: `tests/test_x.py 4 s -> 20 s`.

        Args:
            tests: Seconds of each test, by node id.
        """
        if not self.files:
            return []
        now = by_file(tests)
        ratios = [now[file] / seconds for file, seconds in self.files.items() if now.get(file)]
        slowness = max(1.0, median(ratios)) if ratios else 1.0
        found = []
        for file, seconds in now.items():
            then, fair = self.files.get(file, 0.0), seconds / slowness
            if fair > 2 * then and fair - then > _NOTICED:
                found.append((fair - then, f"{file} {then:.0f} s -> {fair:.0f} s"))
        return [said for _, said in sorted(found, reverse=True)[:MOST_NAMED]]


def by_file(tests: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each file."""
    found: defaultdict[str, float] = defaultdict(float)
    for test, seconds in tests.items():
        found[test.partition("::")[0]] += seconds
    return dict(found)


def load(path: Path = FILE) -> dict[str, Budget]:
    """The budgets by phase."""
    return {name: Budget(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}


def update(phases: Mapping[str, Mapping[str, float]], path: Path = FILE) -> None:
    """Write down what the files of phases take now: seconds of each test, by phase."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, tests in phases.items():
        if name in content:
            files = sorted(by_file(tests).items())
            content[name]["files"] = {file: round(seconds, 1) for file, seconds in files if seconds >= 1}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
