"""Failed attempts of a TrainJob, as the operator recorded them: their pods may be gone."""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_operator.core.status import attempts

from ... import read, text
from .. import facts
from ..model import Finding, Observation, Ref
from .finding import finding_of

_UNKNOWN: Final = {
    "attempt": 1,
    "job": "a job",
    "index": 0,
    "pod": "",
    "node": "",
    "container": "",
    "exitCode": 0,
    "reason": "",
}
_KINDS: Final[dict[str, type]] = {
    **{field: type(value) for field, value in _UNKNOWN.items()},
    "rank": int,
    "lostOthers": bool,
    "signal": str,
    "message": str,
    "failedAt": str,
}


def last_failed(observation: Observation) -> Finding | None:
    """The last attempt has failed, and none of its pods says more."""
    noted = of(observation)
    return failed(observation, noted[-1]) if noted else None


def failed(observation: Observation, attempt: Json) -> Finding:
    """How the attempt failed, as a finding."""
    about = Ref("Pod", attempt["pod"], facts.namespace(observation))
    log = text.tail(read.text(attempt, "message"))
    return finding_of(observation, Reason.ATTEMPT_FAILED, about, sentence(attempt), log=log)


def sentence(attempt: Json) -> str:
    """How the attempt ended, and which it was unless it was the first."""
    counted = f"in attempt {attempt['attempt']} " if attempt["attempt"] > 1 else ""
    return f"{counted}{attempts.sentence(attempt)}"


def of_now(observation: Observation) -> Json | None:
    """The record of the JobSet's current attempt; None if there is none."""
    return next((noted for noted in of(observation) if noted["attempt"] == now(observation)), None)


def now(observation: Observation) -> int:
    """The number of the current attempt, counted from 1."""
    if observation.jobset is None:
        return max((noted["attempt"] for noted in of(observation)), default=1)
    return read.number(observation.jobset, "status", "restarts") + 1


def of(observation: Observation) -> list[Json]:
    """The noted attempts of its JobSet, each with every field that a sentence needs.

    Not those of an earlier JobSet, which somebody has deleted: their numbers come again.
    """
    noted = read.objects(observation.trainjob, "status", names.STATUS_FIELD, "attempts")
    since = read.moment(facts.own_jobset(observation), "metadata", "creationTimestamp")
    known = attempts.counted([_whole(attempt) for attempt in noted])
    return [each for each in known if "failedAt" not in each or read.moment(each, "failedAt") >= since]


def _whole(noted: Json) -> Json:
    fields = {field: noted[field] for field, kind in _KINDS.items() if isinstance(noted.get(field), kind)}
    return {**_UNKNOWN, **fields}


def which(observation: Observation) -> str:
    """The current attempt and how the previous one ended, to append to a state; empty in the first."""
    current = now(observation)
    if current == 1:
        return ""
    before = next((noted for noted in of(observation) if noted["attempt"] == current - 1), None)
    return f", attempt {current}" + (f"; {_end(before)}" if before is not None else "")


def _end(attempt: Json) -> str:
    which = f"attempt {attempt['attempt']}"
    if attempts.is_failure(attempt):
        return f"in {which} {attempts.sentence(attempt)}"
    return f"{which} ended because its pod {attempts.NO_FAILURE[attempt['reason']]}; nothing to do"


def summary(observation: Observation) -> str:
    """Each attempt in a few words."""
    return "; ".join(f"{attempt['attempt']}: {_briefly(attempt)}" for attempt in of(observation))


def _briefly(attempt: Json) -> str:
    who = attempts.who(attempt)
    if not attempts.is_failure(attempt):
        return f"{who} {attempts.NO_FAILURE[attempt['reason']]}"
    return f"{who} failed first, {attempt['reason']} {attempt['exitCode']}"
