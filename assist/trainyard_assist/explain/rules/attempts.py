"""How the attempts of a TrainJob failed, as the operator noted it: their pods may be gone."""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_operator.core import attempts

from .. import read, text
from ..model import Finding, Json, Observation, Ref
from .found import found

_UNKNOWN: Final = {
    "attempt": 0,
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


_LATELY: Final = 60.0
"""Seconds that a new attempt must last after a failed one before the failure is no longer reported."""


def last_failed(o: Observation) -> Finding | None:
    """The last attempt has failed, and none of its pods says more."""
    noted = of(o)
    return _failed(o, noted[-1]) if noted else None


def tried_again(o: Observation) -> Finding | None:
    """An attempt has failed just now, and the next one begins."""
    noted = of(o)
    if not noted or read.since(o, read.moment(noted[-1], "failedAt")) >= _LATELY:
        return None
    return _failed(o, noted[-1], f"attempt {noted[-1]['attempt'] + 2} begins: ")


def _failed(o: Observation, attempt: Json, now: str = "") -> Finding:
    counted = f"in attempt {attempt['attempt'] + 1} " if now or attempt["attempt"] else ""
    about = Ref("Pod", attempt["pod"], read.namespace(o))
    log = text.tail(read.text(attempt, "message"))
    return found(o, Reason.ATTEMPT_FAILED, about, f"{now}{counted}{attempts.sentence(attempt)}", log=log)


def of(o: Observation) -> list[Json]:
    """The noted attempts, each with every field that a sentence needs."""
    return [_whole(noted) for noted in read.objects(o.trainjob, "status", names.STATUS_FIELD, "attempts")]


def _whole(noted: Json) -> Json:
    known = {field: noted[field] for field, kind in _KINDS.items() if isinstance(noted.get(field), kind)}
    return {**_UNKNOWN, **known}


def which(o: Observation) -> str:
    """Which attempt it is in, to append to a state; empty in the first."""
    noted = of(o)
    return f", in attempt {noted[-1]['attempt'] + 2}" if noted else ""


def told(o: Observation) -> str:
    """Each attempt in a few words."""
    return "; ".join(
        f"{one['attempt'] + 1}: {attempts.who(one)} failed first, {one['reason']} {one['exitCode']}"
        for one in of(o)
    )
