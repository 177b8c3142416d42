"""The command: `python -m tests.harness toolchain check core`.

Runs these phases one after the other, up to the first that fails and does not
pass at a second look, and says at the end what happened. Exit codes: 0 all is
well; 1 something failed; 2 there is no such phase or area, or a run goes on in
this clone; 130 it was told to end.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from . import budget, leftovers, process, results, rights
from .budget import Budget
from .phases import AREAS, PROJECT, Step, steps
from .verdict import SECOND_LOOK, Phase, judged, junit, told

REPORTS = ".reports"
"""The folder for what is kept of a run; emptied by the next one."""
LOCK = ".reports.lock"
"""The file that a run holds while it lives: a second one would take its sandboxes and its reports."""
LOGS = "TRAINYARD_TEST_LOGS"
"""The variable that tells tests where the logs of their sandboxes are to be kept."""
MOST_LOOKED_AT_AGAIN = 10
"""With more causes something is broken, and a second look would only take time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says; returns the exit code."""
    known = steps()
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    parser.add_argument("phase", nargs="+", choices=list(known), help=f"one of: {', '.join(known)}")
    parser.add_argument("--area", choices=sorted(AREAS), metavar="AREA", help=f"of e2e: {', '.join(AREAS)}")
    given = parser.parse_args(arguments)
    # Who starts this in the background has it ignore Ctrl-C, and with it all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = steps(given.area)
    with (PROJECT / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"A test run goes on in {PROJECT}: wait for its end, or use another clone.", file=sys.stderr
            )
            return 2
        return _noted([chosen[name] for name in given.phase])


def _noted(chosen: Sequence[Step]) -> int:
    """Run steps between what dead runs have left, and what these do."""
    try:
        _clear("Left by a run that was killed")
        with leftovers.noted() as run_file:
            os.environ[leftovers.RUN] = str(run_file)
            code = run(chosen, PROJECT, budget.load())
        _clear("Left at the end")
        return code
    except KeyboardInterrupt:
        _clear("Interrupted")  # its own: nobody holds the file of this run any more
        print("Ended before its time, and all that it had started.", file=sys.stderr)
        return 130


def _clear(why: str) -> None:
    for line in leftovers.clear():
        print(f"{why}: {line}", file=sys.stderr, flush=True)


def run(chosen: Sequence[Step], folder: Path, budgets: Mapping[str, Budget] = {}) -> int:
    """Run steps in a folder up to the first that fails, twice where a second look is said, and tell."""
    reports = folder / REPORTS
    shutil.rmtree(reports, ignore_errors=True)
    (reports / "logs").mkdir(parents=True)
    phases: list[Phase] = []
    for step in chosen:
        phases.append(replace(_run(step, folder, reports), budget=budgets.get(step.name)))
        if phases[-1].code or phases[-1].limit is not None:
            again = _second_look(step, phases[-1], folder, reports)
            phases += again
            if not again or again[-1].code or again[-1].limit is not None:
                break
    verdict = judged(phases)
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    for phase in phases:
        if not phase.code:
            shutil.rmtree(reports / "logs" / phase.name.replace(" ", "-"), ignore_errors=True)
    kept = sorted(path.name for path in (reports / "logs").iterdir())
    print(told(phases, verdict, load, f"{reports / 'logs'} ({', '.join(kept)})" if kept else ""), flush=True)
    if verdict.good and os.environ.get(budget.UPDATE):
        budget.update({phase.name: phase.results.seconds for phase in phases})
    (reports / "junit.xml").write_text(junit(phases, verdict))
    return 0 if verdict.good else 1


def _run(step: Step, folder: Path, reports: Path) -> Phase:
    print(f"\n== {step.name}", flush=True)
    name = step.name.replace(" ", "-")
    log = reports / f"{name}.jsonl"
    command = [*step.command, *([step.log.format(log)] if step.log else [])]
    unset = {key: value for key, value in step.variables.items() if key not in os.environ}
    variables = {**unset, LOGS: str(reports / "logs" / name), rights.FOLDER: str(reports / "rights")}
    ended = process.run(command, folder, step.limit, variables)
    found = results.Results()
    if log.exists():
        with log.open() as lines:
            found = results.read(lines)
    return Phase(step.name, ended.seconds, ended.code, found, ended.last, ended.limit)


def _second_look(step: Step, phase: Phase, folder: Path, reports: Path) -> list[Phase]:
    """What failed is run once more, alone; nothing if that is not what ended the phase."""
    failed = phase.results.failures
    causes = {failure.cause for failure in failed.values()}
    ended_by_tests = phase.code == 1 and phase.limit is None
    if not (step.again and ended_by_tests and 0 < len(causes) <= MOST_LOOKED_AT_AGAIN):
        return []
    again = replace(step, name=SECOND_LOOK, command=[*step.again, *failed])
    return [_run(again, folder, reports)]


if __name__ == "__main__":
    sys.exit(main())
