"""Whether all ranks of a job that runs are silent: neither print nor compute.

Where torchrun starts the ranks, it says so in the log of their pod
(`trainyard_platform.catalog.in_pods.sitecustomize`).
"""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json

from ... import read, text
from .. import facts
from ..model import Observation, Silence

_SILENT: Final = re.compile(
    r"trainyard: silent since (?P<since>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ): "
    r"no output and no CPU of PID (?P<pids>[\d ]{1,300})"
)
_BEGINS: Final = "trainyard: silent "


def pods(observation: Observation) -> list[Json]:
    """The pods whose logs may say so, if all of them are ready."""
    candidates = [pod for pod in observation.current_pods if _says_so(pod)]
    return candidates if all(map(facts.is_ready, candidates)) else []


def _says_so(pod: Json) -> bool:
    return names.MODULE_ANNOTATION in read.texts(pod, "metadata", "annotations")


def of(pod: str, log: str) -> Silence | None:
    """The silence that the end of the pod's log tells of; None if its ranks are not silent."""
    lines = [line for line in log.splitlines() if line.startswith(_BEGINS)]
    match = _SILENT.fullmatch(lines[-1]) if lines else None
    if match is None:
        return None
    try:
        return Silence(pod, datetime.fromisoformat(match["since"]), match["pids"].strip())
    except ValueError:
        return None


def notice(observation: Observation) -> str:
    """Since when all ranks are silent and how to look, to append to a state; empty if they are not."""
    if not observation.silences:
        return ""
    since, first = max(silence.since for silence in observation.silences), observation.silences[0]
    every, looked_at = len(pods(observation)), len(observation.silences)
    whose = "any rank" if every == looked_at else f"any rank of {looked_at} of {every} pods"
    place = ("-n", facts.namespace(observation), *observation.options)
    signal = ("sh", "-c", f"kill -USR1 {first.pids}")
    command = shlex.join(["kubectl", "exec", *place, first.pod, "-c", names.NODE, "--", *signal])
    return (
        f"; silent for {text.duration(facts.since(observation, since))}: no output and no CPU of {whose} "
        f"since {since:%H:%M} UTC. "
        f"{command} makes each rank of this pod print its Python stack to the log"
    )
