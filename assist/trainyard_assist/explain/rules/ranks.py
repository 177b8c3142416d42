"""Which rank the others wait for, when no rule knows more."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trainyard_api import names
from trainyard_api.reasons import Reason

from .. import read, text
from ..model import Finding, Json, Observation, Ref
from .found import found

_PATIENCE: Final = 5.0
"""Seconds in which a Job creates its pods."""
_SLOW: Final = 120.0
"""Seconds after which a pod that is not Ready counts as missing, even without an event."""
_LEFT: Final = 60.0
"""Seconds that the others may take to finish, such as to write a checkpoint, before a rank counts as left."""
_TOGETHER: Final = frozenset(
    {"deepspeed", "horovod", "jax", "mlx", "mpi", "tensorflow", "torch", "torchtune"}
)
"""Frameworks whose ranks begin and end together."""


def missing(o: Observation) -> Finding | None:
    """Some ranks are ready, and one is missing."""
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
                return _missing(o, about, rank, f"node {rank} of {read.ranks(job)} {why}")
    return None


def left(o: Observation) -> Finding | None:
    """Some ranks, of a framework whose ranks end together, succeeded a while ago, and others still run."""
    framework = read.texts(o.runtime, "metadata", "labels").get(names.FRAMEWORK_LABEL)
    for job in o.jobs:
        pods = {read.index(pod): pod for pod in read.current_pods(o) if read.job_of(o, pod) is job}
        gone = [rank for rank in sorted(read.done(job)) if _ended_for(o, pods.get(rank)) >= _LEFT]
        others = [pod for pod in pods.values() if read.is_ready(pod)]
        if framework in _TOGETHER and read.is_trainer(job) and gone and others:
            return _left(o, job, gone, _ended_for(o, pods.get(gone[0])), others)
    return None


def _left(o: Observation, job: Json, gone: list[int], seconds: float, others: list[Json]) -> Finding:
    message = (
        f"{'nodes' if len(gone) > 1 else 'node'} {text.listed(gone)} of {read.ranks(job)} ended with exit "
        f"code 0 {text.duration(seconds)} ago, and {len(others)} still run: if they wait for what has "
        "ended, they wait forever"
    )
    waits = others[0]
    first = next(iter(read.objects(waits, "spec", "containers")), None)
    return found(
        o,
        Reason.RANK_LEFT,
        read.ref(waits, "Pod"),
        message,
        pod=read.name(waits),
        container=read.text(first, "name"),
        namespace=read.namespace(o),
    )


def _ended_for(o: Observation, pod: Json | None) -> float:
    """Seconds since the pod ended; 0 if it is gone or runs."""
    ended = [
        read.moment(status, "state", "terminated", "finishedAt")
        for status, _ in (read.containers(pod) if pod is not None else ())
        if read.at(status, "state", "terminated") is not None
    ]
    return read.since(o, max(ended)) if ended else 0.0


def _no_pod(o: Observation, job: Json) -> str:
    return "has no pod" if read.age(o, job) >= _PATIENCE else ""


def _not_ready(o: Observation, pod: Json) -> str:
    said = read.warnings(o, pod, "Unhealthy")
    age = read.age(o, pod)
    if read.is_ready(pod) or (not said and age < _SLOW):
        return ""
    why = read.text(said[-1], "message") if said else f"no event says why after {text.duration(age)}"
    return f"is {read.text(pod, 'status', 'phase')} and not Ready: {why}"


def _missing(o: Observation, about: Ref, rank: int, message: str) -> Finding:
    what = f"{about.kind.lower()} {about.name}"
    finding = found(o, Reason.RANK_MISSING, about, message, what=what, namespace=read.namespace(o))
    return replace(finding, ranks=(rank,))
