"""Which rank the others wait for, when nothing more is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .. import read, text
from ..causes import Cause
from ..model import Finding, Json, Observation, Ref
from .found import found

_PATIENCE: Final = 5.0
"""Seconds in which a Job makes its pods."""
_SLOW: Final = 120.0
"""Seconds after which a pod that is not Ready is missed, even if nothing is said of it."""


def missing(o: Observation) -> Finding | None:
    """Some ranks are ready, and one is not there."""
    for job in o.jobs:
        if not read.is_trainer(job) or read.suspended(job):
            continue
        pods = {read.index(pod): pod for pod in read.current_pods(o) if read.job_of(o, pod) is job}
        if not any(read.is_ready(pod) for pod in pods.values()):
            continue
        for rank in range(read.ranks(job)):
            pod = pods.get(rank)
            why = _no_pod(o, job) if pod is None else _not_ready(o, pod)
            if why and rank not in read.done(job):
                about = read.ref(job, "Job") if pod is None else read.ref(pod, "Pod")
                return _missing(o, about, rank, f"rank {rank} of {read.ranks(job)} {why}")
    return None


def _no_pod(o: Observation, job: Json) -> str:
    return "has no pod" if read.age(o, job) >= _PATIENCE else ""


def _not_ready(o: Observation, pod: Json) -> str:
    said = read.warnings(o, pod, "Unhealthy")
    age = read.age(o, pod)
    if read.is_ready(pod) or (not said and age < _SLOW):
        return ""
    why = read.text(said[-1], "message") if said else f"nothing was said of it for {text.duration(age)}"
    return f"is {read.text(pod, 'status', 'phase')} and not Ready: {why}"


def _missing(o: Observation, about: Ref, rank: int, message: str) -> Finding:
    what = f"{about.kind.lower()} {about.name}"
    finding = found(o, Cause.RANK_MISSING, about, message, what=what, namespace=read.namespace(o))
    return replace(finding, ranks=(rank,))
