"""How the attempts of a TrainJob failed, as the operator has noted it: their pods may be gone."""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_operator.core import attempts

from .. import read, text
from ..causes import Cause
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


def last_failed(o: Observation) -> Finding | None:
    """The last attempt has failed, and no pod of it tells more."""
    noted = of(o)
    if not noted:
        return None
    last = noted[-1]
    counted = "" if last["attempt"] == 0 else f"in attempt {last['attempt'] + 1} "
    about = Ref("Pod", last["pod"], read.namespace(o))
    log = text.tail(read.text(last, "message"))
    return found(o, Cause.ATTEMPT_FAILED, about, f"{counted}{attempts.sentence(last)}", log=log)


def of(o: Observation) -> list[Json]:
    """What is noted of the attempts, each with every field that a sentence is made of."""
    noted = read.objects(o.trainjob, "status", names.STATUS_FIELD, "attempts")
    return [{**_UNKNOWN, **attempt} for attempt in noted if isinstance(attempt.get("attempt"), int)]


def told(o: Observation) -> str:
    """Each attempt in a few words."""
    return "; ".join(
        f"{one['attempt'] + 1}: {one['job']} {one['index']} failed first, {one['reason']} {one['exitCode']}"
        for one in of(o)
    )
