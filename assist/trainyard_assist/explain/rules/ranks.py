"""The rank that the others wait for, if no other rule finds a cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed

from ... import read, text
from .. import facts
from ..model import Finding, Observation, Ref, Subject
from .finding import finding_of

_PATIENCE: Final = 5.0
"""Seconds in which a Job creates its pods."""
_SLOW: Final = 120.0
"""Seconds after which a pod that is not Ready counts as missing, even without an event."""
_LEFT: Final = 60.0
"""Seconds that the others may take to finish, such as to write a checkpoint, before a rank counts as left."""
_TOGETHER: Final = frozenset(
    {
        *("deepspeed", "horovod", "jax", "lightgbm", "mlx"),
        *("mpi", "paddle", "tensorflow", "torch", "torchtune"),
    }
)
"""Frameworks whose ranks begin and end together."""


def missing(observation: Observation) -> Finding | None:
    """Some ranks are ready, and one is missing."""
    for job in observation.jobs:
        if not facts.is_trainer(job) or read.suspended(job):
            continue
        pods = {read.index(pod): pod for pod in observation.pods_of(job)}
        if not any(facts.is_ready(pod) for pod in pods.values()):
            continue
        for rank in range(facts.ranks(job)):
            pod = pods.get(rank)
            why = _no_pod(observation, job) if pod is None else _not_ready(observation, pod)
            if why and rank not in facts.done(job):
                about = facts.ref(job, "Job") if pod is None else facts.ref(pod, "Pod")
                return _missing(observation, about, rank, f"node {rank} of {facts.ranks(job)} {why}")
    return None


def left(observation: Observation) -> Finding | None:
    """Some ranks, of a framework whose ranks end together, succeeded a while ago, and others still run."""
    framework = read.texts(observation.runtime, "metadata", "labels").get(names.FRAMEWORK_LABEL)
    if framework not in _TOGETHER:
        return None
    for job in filter(facts.is_trainer, observation.jobs):
        pods = {read.index(pod): pod for pod in observation.pods_of(job)}
        gone = [rank for rank in sorted(facts.done(job)) if _ended_for(observation, pods.get(rank)) >= _LEFT]
        others = [pod for pod in pods.values() if facts.is_ready(pod)]
        if gone and others:
            return _left(observation, job, gone, _ended_for(observation, pods.get(gone[0])), others)
    return None


def _left(
    observation: Observation, job: Json, gone: list[int], seconds: float, others: list[Json]
) -> Finding:
    message = (
        f"{'nodes' if len(gone) > 1 else 'node'} {listed(gone)} of {facts.ranks(job)} ended with exit "
        f"code 0 {text.duration(seconds)} ago, and {len(others)} still run: if they wait for a node "
        "that has ended, they wait forever"
    )
    waits = others[0]
    first = next(iter(read.objects(waits, "spec", "containers")), None)
    return finding_of(
        observation,
        Reason.RANK_LEFT,
        facts.ref(waits, "Pod"),
        message,
        pod=read.name(waits),
        container=read.text(first, "name"),
        namespace=facts.namespace(observation),
    )


def _ended_for(observation: Observation, pod: Json | None) -> float:
    """Seconds since the pod ended; 0 if it is gone or runs."""
    ended = [
        read.moment(status, "state", "terminated", "finishedAt")
        for status, _ in (read.containers(pod) if pod is not None else ())
        if read.at(status, "state", "terminated") is not None
    ]
    return facts.since(observation, max(ended)) if ended else 0.0


def _no_pod(observation: Observation, job: Json) -> str:
    is_known = Subject.PODS not in observation.unseen
    return "has no pod" if is_known and facts.age(observation, job) >= _PATIENCE else ""


def _not_ready(observation: Observation, pod: Json) -> str:
    if facts.is_ready(pod):
        return ""
    events, age = facts.warnings(observation, pod, "Unhealthy"), facts.age(observation, pod)
    if not events and age < _SLOW:
        return ""
    why = read.text(events[-1], "message") if events else f"no event explains it after {text.duration(age)}"
    return f"is {read.text(pod, 'status', 'phase')} and not Ready: {why}"


def _missing(observation: Observation, about: Ref, rank: int, message: str) -> Finding:
    finding = finding_of(
        observation,
        Reason.RANK_MISSING,
        about,
        message,
        what=f"{about.kind.lower()} {about.name}",
        namespace=facts.namespace(observation),
    )
    return replace(finding, ranks=(rank,))
