"""A TrainJob that waits for its user, who has a shell in it: its command, and that of the shell.

Called by `trainyard run --interactive`. The job ends by itself after its time, so
what nobody ends does not hold quota for ever. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import durations

from ..workspace import ENTER

NAME: Final = "shell"
"""How a generated name begins."""
LIMIT: Final = "8h"
"""How long such a job may run, unless its user says something else: a day's work."""
READY: Final = "trainyard: ready"
"""The line that each node prints once its folder and its requirements are there."""

# As process 1, it has to ask for the signal by which pods are ended.
_WAIT: Final = f"""\
trap 'exit 143' TERM
echo '{READY}'
sleep "$1" & wait $!
echo 'trainyard: its time is over'
"""
_SHELL: Final = f"{ENTER}command -v bash >/dev/null 2>&1 && exec bash\nexec sh\n"
_PROGRAM: Final = f'{ENTER}exec "$@"\n'


def waiting(seconds: float) -> tuple[str, ...]:
    """The command that waits so long on each node, and then is complete."""
    return ("sh", "-c", _WAIT, "trainyard", f"{seconds:.0f}")


def shell(words: Sequence[str]) -> tuple[str, ...]:
    """What runs in the first rank, in the folder that travels with the job if there is one.

    Args:
        words: A command; none for a shell.
    """
    return ("sh", "-c", _PROGRAM, "trainyard", *words) if words else ("sh", "-c", _SHELL)


def sentence(seconds: float, *, keep: bool) -> str:
    """What the plan says of it."""
    limit = durations.words(seconds)
    end = f"after {limit} (--time-limit)"
    return f"in rank 0; the job ends {end}" if keep else f"in rank 0; the job ends with it, or {end}"
