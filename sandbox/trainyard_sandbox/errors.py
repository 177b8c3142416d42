"""What can go wrong, in words for the person at the terminal."""

from __future__ import annotations

from pathlib import Path

from trainyard_api.errors import UserError


class SandboxError(UserError):
    """The sandbox could not do what it was asked to; the text says what to do about it.

    Args:
        message: One sentence that names the problem and the way out.
        log: A log whose last lines show the cause, or None.
    """

    def __init__(self, message: str, log: Path | None = None) -> None:
        self.message = message
        self.log = log
        super().__init__(message if log is None else f"{message}\n{_last_lines(log)}\n(whole log: {log})")


def _last_lines(log: Path) -> str:
    """The last lines of `log`, indented; says so if there are none."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-15:]
    except FileNotFoundError:
        lines = []
    return "\n".join(f"    {line}" for line in lines) or "    (the log is empty)"
