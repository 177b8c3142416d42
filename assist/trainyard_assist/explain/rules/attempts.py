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
_KINDS: Final[dict[str, type]] = {
    **{field: type(value) for field, value in _UNKNOWN.items()},
    "rank": int,
    "lostOthers": bool,
    "signal": str,
    "message": str,
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
    return [_whole(noted) for noted in read.objects(o.trainjob, "status", names.STATUS_FIELD, "attempts")]


def _whole(noted: Json) -> Json:
    known = {field: noted[field] for field, kind in _KINDS.items() if isinstance(noted.get(field), kind)}
    return {**_UNKNOWN, **known}


def told(o: Observation) -> str:
    """Each attempt in a few words."""
    return "; ".join(
        f"{one['attempt'] + 1}: {attempts.who(one)} failed first, {one['reason']} {one['exitCode']}"
        for one in of(o)
    )
