"""How a rule says what it has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainyard_api.reasons import Reason

from .. import read
from ..causes import TABLE
from ..model import Finding, Json, Observation, Ref


def found(
    o: Observation,
    cause: Reason,
    about: Ref,
    message: str,
    *,
    pods: Sequence[Json] = (),
    log: Sequence[str] = (),
    **words: Any,
) -> Finding:
    """The finding, with the next step from the table, filled in with `words`.

    `pods` are those that the cause holds up; if others wait for them, the finding names them as ranks.
    """
    step = TABLE[cause].next_step.format(**words)
    return Finding(cause, about, message, step, read.waiting_for(o, pods), tuple(log))
