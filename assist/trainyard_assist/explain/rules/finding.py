"""The finding that a rule makes of a cause."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed

from ... import read
from .. import facts
from ..causes import TABLE
from ..model import Finding, Observation, Ref


def finding_of(
    observation: Observation,
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
    if "namespace" in words:  # of a command, which needs the cluster's options too
        words["namespace"] = shlex.join([words["namespace"], *observation.options])
    step = TABLE[cause].next_step.format(**words)
    if lost := _goes_with_it(observation) if _AGAIN.search(step) else "":
        step += f". {lost}"
    return Finding(cause, about, message, step, facts.waiting_for(observation, pods), tuple(log))


_AGAIN: Final = re.compile(r"\bcreate\b.*\bagain\b")


def _goes_with_it(observation: Observation) -> str:
    """The data that is lost when the TrainJob is deleted to create it again; empty if none."""
    jobset = observation.jobset
    lost = listed(
        read.deleted_volumes(observation.runtime, "spec", "template", "spec")
        if jobset is None
        else read.deleted_volumes(jobset, "spec")
    )
    if not lost:
        return ""
    return (
        f"If you delete this TrainJob, its volume ({lost}) and the checkpoints on it are deleted too. Use "
        "another name for the new TrainJob, and delete this one when you have copied the checkpoints or no "
        "longer need them"
    )
