"""Other programs, run with their output in a log; a failure shows its last lines."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import SandboxError
from .isolation import die_with_parent
from .paths import cache_dir


def new_log(name: str) -> Path:
    """An empty log of that name in the cache folder."""
    path = cache_dir() / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def run_logged(
    arguments: Sequence[str | Path],
    log: Path,
    doing: str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end, or this process's, appending all it prints to `log`.

    Raises:
        SandboxError: "Could not <doing>", with the end of the log, when it fails or is missing.
    """
    with log.open("ab") as output:
        try:
            code = subprocess.run(
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
    if code:
        raise SandboxError(f"Could not {doing} (exit code {code}).", log)
