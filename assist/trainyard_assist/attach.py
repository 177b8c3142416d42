"""The output of `trainyard attach` about a TrainJob: its states, and the exit code of its end. Pure.

It makes no decisions: the operator writes the state into the TrainJob, and `explain` finds what it waits for.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_operator.core.status import attempts as noted_attempts
from trainyard_operator.core.status.display_state import State

from . import jobs, read
from .explain import Diagnosis, Observation, because
from .explain.rules import attempts, containers
from .text import duration

_STEP: Final = 10
"""Percent of progress between two lines."""
_LAST_CODE: Final = 255
_OF_RANKS: Final = frozenset(
    {Reason.CONTAINER_EXITED, Reason.OOM_KILLED, Reason.ATTEMPT_FAILED, Reason.SAME_FAILURE}
)
"""Causes of a failure that are the exit of a rank."""


def is_explained(row: jobs.Row) -> bool:
    """Whether there is something to say of what it waits for."""
    return not row.is_over and row.state != State.RUNNING


def line(row: jobs.Row, now: datetime, diagnosis: Diagnosis | None = None) -> str:
    """The state of the TrainJob, and what it waits for.

    Args:
        row: What was seen of it.
        now: By the clock of the API server.
        diagnosis: What `explain` says; None: nobody asked, or there was no answer.
    """
    parts = [f"TrainJob {row.namespace}/{row.name} is {row.state}"]
    parts += [f"{row.nodes} nodes ready"] if row.nodes and row.state in jobs.RUNNING else []
    if row.state == State.RUNNING:
        parts += [] if row.progress is None else [f"{row.progress}%"]
        parts += [] if row.ends is None else [f"ETA {duration((row.ends - now).total_seconds())}"]
    finding = None if diagnosis is None else diagnosis.finding
    return ", ".join(parts) + ("" if finding is None else f": {because(finding)}")


def mark(row: jobs.Row, diagnosis: Diagnosis | None = None, position: int | None = None) -> tuple[Any, ...]:
    """Values that print the line again when they change: not each node, each percent, each second.

    `position`: its place in its queue.
    """
    finding = None if diagnosis is None else diagnosis.finding
    progress = row.progress if row.state == State.RUNNING else None
    return (
        row.state,
        None if progress is None else progress // _STEP,
        None if finding is None else (finding.cause, finding.object, finding.ranks),
        position,
    )


def exit_code(observation: Observation, diagnosis: Diagnosis) -> int:
    """The exit code of a TrainJob that has ended.

    0: it is complete. Otherwise that of the rank that failed first; 1: nobody knows it, or it failed
    for another cause, such as its deadline.
    """
    if read.holds(observation.trainjob, names.COMPLETE):
        return 0
    if diagnosis.finding is None or diagnosis.finding.cause not in _OF_RANKS:
        return 1
    code = _code(observation)
    return code if 0 < code <= _LAST_CODE else 1


def _code(observation: Observation) -> int:
    """As the operator has noted it; else as the pods that are left show it; 0 if neither knows."""
    noted, first = attempts.of_now(observation), containers.first_failure(observation)
    if noted is None and first is not None:
        return first.exit_code
    last = noted or next(reversed(attempts.of(observation)), None)
    return last["exitCode"] if last is not None and noted_attempts.is_failure(last) else 0
