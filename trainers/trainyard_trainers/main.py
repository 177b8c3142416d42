"""The command: says what is wrong in one line before anything is loaded, and leaves the rest to torchrun."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import arguments, columns, memory, rewards, weights
from .failures import FAILURES, Failure
from .settings import METHODS, Settings

_ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd")


def main(given: Sequence[str] | None = None) -> int:
    """Run the command in this process, which becomes torchrun's; returns only if that is of no use.

    Args:
        given: The command line; the process's by default.
    """
    options, written_as_options = _parser().parse_known_args(given)
    command = [options.method, *written_as_options, *options.settings]
    try:
        check(arguments.read(command), os.environ)
    except Failure as failure:
        print(failure, file=sys.stderr, flush=True)
        return failure.exit_code
    program = torchrun(command, os.environ)
    os.execv(program[0], program)  # noqa: S606 - no shell is wanted


def check(settings: Settings, environment: Mapping[str, str]) -> None:
    """Whether it can be trained, as far as that is known without loading the model.

    Args:
        settings: What to train, and how.
        environment: Of the process: the operator says there how many processes a node has.

    Raises:
        Failure: It cannot.
    """
    model = weights.tensors(Path(settings.model))
    if settings.use_peft:
        weights.targets(model, settings.lora_target_modules)
        weights.targets(model, settings.lora_modules_to_save)
    if not any(Path(device).exists() for device in _ACCELERATORS):
        processes = environment.get("PET_NPROC_PER_NODE", "")
        count = int(processes) if processes.isdigit() else 1
        memory.check(model, settings, memory.of_container(), count, "the container")
    for reward in getattr(settings, "reward", ()):
        rewards.check(reward)
    columns.template(settings)
    from . import data  # noqa: PLC0415 - takes seconds, and what is told before needs none of it

    data.load(settings)


def torchrun(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """torchrun's command; nodes, processes and addresses are in the variables that the operator sets."""
    alone = [] if "PET_NNODES" in environment else ["--standalone"]
    return [sys.executable, "-m", "torch.distributed.run", *alone, "-m", "trainyard_trainers.train", *command]


def _parser() -> argparse.ArgumentParser:
    codes = sorted({kind.exit_code for kind in FAILURES})
    kinds = [
        f"  {code:3}  {kind.reason}: {kind.means}"
        for code in codes
        for kind in FAILURES
        if kind.exit_code == code
    ]
    parser = argparse.ArgumentParser(
        prog="python -m trainyard_trainers",
        description="Post-train the model in /workspace/model on the dataset in /workspace/dataset.",
        epilog=f"{arguments.usage()}\n\nexit codes:\n    0  trained\n" + "\n".join(kinds),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("method", metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="*", help="settings; see below")
    return parser
