"""Runs scenarios: the sides in turns, each on a fresh control plane, and what the machine was like."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trainyard_api.errors import UserError
from trainyard_sandbox.toolchain import tools

from .bench import Side, at_work
from .figures import Figure, together
from .measures import Figures
from .scenarios import Scenario


@dataclass(frozen=True)
class Turn:
    """One side's turn in one round."""

    side: str
    load: float
    """Of the machine in the minute before: what others ran besides."""
    figures: Figures


@dataclass(frozen=True)
class Result:
    """All turns of a scenario."""

    scenario: Scenario
    turns: tuple[Turn, ...]

    def of(self, side: Side) -> dict[str, Figure]:
        """The figures of a side over its rounds."""
        return together(turn.figures for turn in self.turns if turn.side == side.name)


@dataclass(frozen=True)
class Results:
    """A whole run."""

    started: datetime
    quick: bool
    machine: dict[str, str]
    results: list[Result] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why a side of a scenario has no results of a round, by all three."""


async def measure(
    scenarios: Sequence[Scenario],
    keep: Callable[[Results], None],
    *,
    quick: bool,
    rounds: int | None = None,
) -> Results:
    """Measure these scenarios, with one small round each if `quick`; all that they need has been built.

    `keep` gets the results so far after each scenario.
    """
    results = Results(datetime.now(UTC), quick, machine())
    for scenario in scenarios:
        turns: list[Turn] = []
        for number in range(rounds or (1 if quick else scenario.rounds)):
            for side in turned(scenario.everybody, number):
                try:
                    turns.append(await _turn(scenario, side, quick=quick))
                except (UserError, ExceptionGroup) as error:  # what the others measure is worth keeping
                    why = cause(error)
                    results.failed[f"{scenario.name}, {side.title}, round {number + 1}"] = why
                    print(f"{scenario.name}: {side.title}: {why}", file=sys.stderr, flush=True)
        if turns:
            results.results.append(Result(scenario, tuple(turns)))
        keep(results)
    return results


def cause(error: Exception) -> str:
    """Why a turn failed, in words for people, each only once; raises what is a mistake of the benchmarks."""
    if isinstance(error, UserError):
        return error.shown
    if isinstance(error, ExceptionGroup) and error.split(UserError)[1] is None:
        return "; ".join(dict.fromkeys(cause(inner) for inner in error.exceptions))
    raise error


async def _turn(scenario: Scenario, side: Side, *, quick: bool) -> Turn:
    load, began = os.getloadavg()[0], time.monotonic()
    async with at_work(side, ask_webhooks=scenario.webhooks, company=scenario.company) as bench:
        figures = await scenario.measure(bench, **(scenario.quick if quick else scenario.much))
    seconds = time.monotonic() - began
    print(
        f"{scenario.name}: {side.title} ({seconds:.0f} s, load before {load:.1f})",
        file=sys.stderr,
        flush=True,
    )
    return Turn(side.name, load, figures)


def turned(sides: Sequence[Side], number: int) -> list[Side]:
    """The sides of a round: each comes first in turn, for the machine may get tired."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def machine() -> dict[str, str]:
    """What was measured on."""
    versions = tools()
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    memory = next(line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    return {
        "CPU": f"{len(os.sched_getaffinity(0))} cores, {cpu}",
        "memory": f"{int(memory) / 2**20:.0f} GiB",
        "kernel": platform.release(),
        "Python": platform.python_version(),
        **{name: versions[tool].version for name, tool in _VERSIONS.items()},
    }


_VERSIONS = {
    "Kubernetes": "kubernetes",
    "etcd": "etcd",
    "JobSet": "jobset",
    "Kubeflow Trainer": "trainer-controller",
}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
