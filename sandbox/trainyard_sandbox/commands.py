"""Runs other programs with their output in a log; a failure shows its last lines."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from .errors import SandboxError
from .isolation import die_with_parent
from .paths import cache_dir

FETCHES = 3
"""How often a fetch is tried before it counts as failed."""
_PAUSE_SECONDS = 5.0
_interrupted = threading.Event()
"""Ctrl-C has ended what runs; to a thread that waits for a program, it looks as if that had failed."""


def new_log(name: str) -> Path:
    """An empty log of that name in the cache folder."""
    path = cache_dir() / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run programs.

    If the block fails, what has not begun never begins; after Ctrl-C, nothing is tried again either.
    """
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                _interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_logged(
    arguments: Sequence[str | Path],
    log: Path,
    doing: str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    tries: int = 1,
) -> None:
    """Run a command until it or this process ends, appending its output to `log`.

    Args:
        arguments: The program and its arguments.
        log: The file for the output.
        doing: What it does, to follow "could not".
        cwd: Its folder; by default the current one.
        env: Its environment; by default this process's.
        tries: How often to run it until it succeeds or is interrupted: for fetches, since networks fail at
            times.

    Raises:
        SandboxError: "Could not <doing>", with the end of the log, when it fails or is missing.
    """
    for left in reversed(range(tries)):
        code = _code(arguments, log, doing, cwd, env)
        if not code:
            return
        if left and _interrupted.wait(_PAUSE_SECONDS):
            break
    raise SandboxError(f"Could not {doing} (exit code {code}).", log)


def _code(
    arguments: Sequence[str | Path], log: Path, doing: str, cwd: Path | None, env: Mapping[str, str] | None
) -> int:
    with log.open("ab") as output:
        try:
            return subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=env,
                check=False,
                preexec_fn=die_with_parent,
            ).returncode
        except FileNotFoundError:
            raise SandboxError(f"Could not {doing}: {arguments[0]} is not on PATH.") from None
