"""Asks the user for a yes, at a terminal.

Used by the commands, which have another way to say it where there is none, such as `--yes`.
"""

from __future__ import annotations

import sys

import typer


def says_yes(question: str) -> bool:
    """Whether the user says yes; nobody does where there is no terminal.

    Raises:
        typer.Abort: The user has interrupted the question.
    """
    return sys.stdin.isatty() and typer.confirm(question, err=True)


def confirmed(question: str) -> bool:
    """The same where nothing happens without a yes, so that an interrupt is a no."""
    try:
        return says_yes(question)
    except typer.Abort:
        print(file=sys.stderr)
        return False
