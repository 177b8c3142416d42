"""The command: `python -m benchmarks [SCENARIO...]`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

from trainyard_api.errors import UserError
from trainyard_sandbox.locks import locked
from trainyard_sandbox.paths import PROJECT, cache_dir

from . import controllers, plane, report
from .bench import OURS, of_checkout
from .rounds import Results, measure
from .scenarios import ALL


def main() -> int:
    """Measure, print tables, and write results and charts; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    scenarios = {scenario.name: scenario for scenario in ALL}
    usual = [scenario for scenario in ALL if not scenario.asked_for]
    parser.add_argument(
        "scenario",
        nargs="*",
        help=f"which: {', '.join(scenarios)} (default: {', '.join(scenario.name for scenario in usual)})",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a little of each, one round, the reference as shipped alone: 5 minutes",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help="compare with the operator of another checkout, in the place of the reference",
    )
    parser.add_argument("--rounds", type=int, help="how often each side has its turn (default: 3)")
    parser.add_argument(
        "--output",
        type=Path,
        default=PROJECT / ".benchmarks",
        metavar="FOLDER",
        help="where results.json, the tables and the charts go (default: .benchmarks)",
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.scenario if name not in scenarios]:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are: {', '.join(scenarios)}")
    chosen = [scenarios[name] for name in arguments.scenario] or usual
    if arguments.against and (only_here := [scenario.name for scenario in chosen if scenario.only_here]):
        without = f"{', '.join(only_here)}: runs the programs of this checkout alone; nothing to compare"
        if arguments.scenario:
            parser.error(without)
        print(without, file=sys.stderr)
        chosen = [scenario for scenario in chosen if not scenario.only_here]
    if arguments.quick:  # the reference as it is shipped is enough
        chosen = [replace(scenario, sides=scenario.sides[:2]) for scenario in chosen]
    against = arguments.against and arguments.against.resolve()

    # What a shell starts in the background ignores Ctrl-C unless told otherwise. All three do what Ctrl-C
    # does: the sandbox goes down before the command ends.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: signal.raise_signal(signal.SIGINT))

    def keep(results: Results) -> None:
        report.write(results, arguments.output)

    try:
        if against:
            before = of_checkout(against)
            chosen = [replace(scenario, sides=(OURS, before)) for scenario in chosen]
        with locked(cache_dir() / "locks" / "benchmarks.lock", "other benchmarks"):
            # Before there is an event loop: while one runs, only what is awaited hears a signal.
            plane.build()
            for checkout in filter(None, (PROJECT, against)):
                controllers.environment(checkout)
            results = asyncio.run(measure(chosen, keep, quick=arguments.quick, rounds=arguments.rounds))
    except UserError as error:
        print(error.shown, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Ended early. Everything that it had started has ended, too.", file=sys.stderr)
        return 130
    print(report.text(results))
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
