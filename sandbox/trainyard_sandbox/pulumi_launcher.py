"""A sandbox's `pulumi` command: Pulumi's own, for only one stack, without leaving processes behind.

A sandbox points Pulumi to the stack file of its own stack. Pulumi would read
and write that file for any other stack too, so the command refuses other
stacks. If Pulumi is killed, its provider continues and may still write: a guard
process ends what Pulumi had started.

Called by the executable that `pulumi` writes for each sandbox, as `python -m
trainyard_sandbox.pulumi_launcher PULUMI STACK_FILE ARGUMENT...`; becomes PULUMI.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

CONFIG_FILE: Final = "PULUMI_OPTION_CONFIG_FILE"
STACK: Final = "PULUMI_OPTION_STACK"
MARK: Final = "TRAINYARD_PULUMI"
"""The variable by which a run's processes are found again, whatever their parent is by then."""
_MISUSED: Final = 2
_SETTLES: Final = 0.5
"""Seconds for a provider to end by itself once its engine is gone."""


def refusal(arguments: Sequence[str], environment: Mapping[str, str], stack_file: str) -> str:
    """Why Pulumi must not be run like this; empty if it may.

    Args:
        arguments: Those of the command `pulumi`.
        environment: Its environment.
        stack_file: The stack file of the sandbox, a path whose name is `Pulumi.<stack>.yaml`.
    """
    own = Path(stack_file).name.removeprefix("Pulumi.").removesuffix(".yaml")
    if environment.get(CONFIG_FILE) != stack_file or any(_values(arguments, "--config-file")):
        return ""
    for named in [*_stacks(arguments), *filter(None, [environment.get(STACK)])]:
        stack = named.rpartition("/")[2]
        if stack != own:
            return (
                f"This sandbox has only the stack {own!r}, and Pulumi would use its file for {stack!r} too. "
                f"To try the other one on a sandbox of its own: trainyard sandbox up --name {stack}, then "
                f"trainyard sandbox exec --name {stack} --stack {stack} -- make preview STACK={stack}"
            )
    return ""


def _stacks(arguments: Sequence[str]) -> Iterator[str]:
    yield from _values(arguments, "--stack", "-s")
    for index, pair in enumerate(pairwise(arguments)):
        if pair in (("stack", "init"), ("stack", "select")):
            yield from [word for word in arguments[index + 2 :] if not word.startswith("-")][:1]


def _values(arguments: Sequence[str], *flags: str) -> Iterator[str]:
    for index, argument in enumerate(arguments):
        for flag in flags:
            if argument == flag:
                yield from arguments[index + 1 : index + 2]
            elif argument.startswith(f"{flag}="):
                yield argument.partition("=")[2]
            elif not flag.startswith("--") and argument.startswith(flag):
                yield argument.removeprefix(flag)


def guard(process: int, mark: str) -> None:
    """Wait until the process of a pidfd has ended, then kill the remaining processes with its mark."""
    waits = select.poll()
    waits.register(process, select.POLLIN)
    waits.poll()
    if not (left := marked(mark)):
        return
    waits.unregister(process)
    waits.poll(_SETTLES * 1000)
    for pid in left & marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> set[int]:
    """The processes with the mark in their environment."""
    variable = f"{MARK}={mark}".encode()
    processes = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if variable in (folder / "environ").read_bytes().split(b"\0"):
                processes.add(int(folder.name))
    return processes


def _start_guard(mark: str) -> None:
    """Start this process's guard in a session of its own, without open pipes that others read."""
    # From here on the guard learns of the end, however late it starts on a machine with much to do.
    process = os.pidfd_open(os.getpid())
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        os.close(process)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            kept = os.dup2(process, 3)
            os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
            guard(kept, mark)
    finally:
        os._exit(0)


def main(arguments: Sequence[str]) -> int:
    """Become Pulumi, or say why not."""
    pulumi, stack_file, *options = arguments
    if why := refusal(options, os.environ, stack_file):
        print(why, file=sys.stderr)
        return _MISUSED
    mark = uuid.uuid4().hex
    _start_guard(mark)
    os.execve(pulumi, ["pulumi", *options], {**os.environ, MARK: mark})  # noqa: S606 - what was asked for


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
