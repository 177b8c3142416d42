"""What the `trainyard` command answers: exit code, stdout and stderr."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from trainyard_cli.main import exit_code


def answered(command: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[int, str, str]:
    """The exit code of a command's function, and what it prints, as `main` ends it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = exit_code(lambda: command(*arguments, **options))
    return code, out.getvalue(), err.getvalue()
