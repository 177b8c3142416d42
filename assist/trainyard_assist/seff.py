"""Requests and use of a TrainJob's ranks, as far as the cluster measures them.

Called by `trainyard seff`, which reads the pods and their metrics with the
rights of its user. What is used is what is used now: it advises only where
that leaves no doubt. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.quantity import NANO
from trainyard_api.shown import listed
from trainyard_operator.core.build.resources import gpu_count

from . import read
from .logs import Place, label

MOST: Final = 10_000
"""Ranks of a ReplicatedJob that are counted without their pods."""
SETTLED: Final = 600.0
"""Seconds after which a rank has loaded what it needs: before that it advises nobody to ask for less."""
TIGHT: Final = 0.95
"""The share of its memory limit from which on a container is close to its end."""
SPARE: Final = 4
"""A rank that requests this many times the memory that it uses requests too much..."""
WORTH: Final = 2**30
"""... if so many bytes at least are left over."""
_DIGITS: Final = 9
_SIZES: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10), ("", 1))


class Kind(StrEnum):
    """Kind of resource; the value is its name in JSON."""

    CPU = "cpu"
    MEMORY = "memory"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True)
class Amount:
    """Request and use of one kind: cores, bytes or devices."""

    requested: float | None = None
    """Requested amount; None: not requested, or unknown."""
    used: float | None = None
    """Used amount; None: not measured."""

    @property
    def percent(self) -> int | None:
        """How much of what it asks for it uses."""
        if not self.requested or self.used is None:
            return None
        return round(100 * self.used / self.requested)


Amounts = Mapping[Kind, Amount]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A pod that trains, or one that is to train."""

    label: str
    """Its number, or its place: `launcher-0`."""
    place: Place
    pod: str = ""
    """Empty: it has none, or none any more."""
    amounts: Amounts = field(default_factory=dict)
    tight: int | None = None
    """Percent of its memory limit that a container uses, if that is close to all of it."""
    killed: bool = False
    """Whether a container of it was killed because it used more memory than its limit."""
    settled: bool = False
    """Whether it has run for so long that what it uses now says something."""

    @property
    def is_measured(self) -> bool:
        """Whether somebody measures it."""
        return any(amount.used is not None for amount in self.amounts.values())


def ranks(
    pods: Iterable[Json], metrics: Iterable[Json], jobset: Json | None, now: datetime
) -> Sequence[Rank]:
    """All ranks, in their order; tolerates anything that is missing.

    Args:
        pods: Those of the TrainJob, in any order; of each place the newest counts.
        metrics: The PodMetrics of its namespace.
        jobset: Its JobSet, which knows of the pods that are not there.
        now: By the clock of the API server.
    """
    planned = _planned(jobset)
    newest = _newest(pods)
    measured = {read.name(each): each for each in metrics}
    places = sorted({*planned, *newest}, key=lambda place: (place.job, place.index))
    jobs = {place.job for place in places}
    return [
        _rank(
            place,
            label(place, jobs),
            newest.get(place),
            measured=measured,
            planned=planned.get(place, {}),
            now=now,
        )
        for place in places
    ]


def total(of: Sequence[Rank]) -> dict[Kind, Amount]:
    """The sums; one is None if a part of it is not known, or nobody requests any."""
    return {
        kind: Amount(
            _sum(_requested(rank, kind) for rank in of) or None,
            _sum(rank.amounts.get(kind, Amount()).used for rank in of),
        )
        for kind in Kind
    }


def _requested(rank: Rank, kind: Kind) -> float | None:
    """The requested amount; a rank that requests something, but no GPUs, requests 0 of them."""
    requested = rank.amounts.get(kind, Amount()).requested
    is_known = any(amount.requested is not None for amount in rank.amounts.values())
    return 0.0 if requested is None and is_known and kind is Kind.GPUS else requested


def advice(of: Sequence[Rank]) -> list[str]:
    """Certain advice, in sentences: ranks killed for memory, close to the limit, or with large requests."""
    killed = [rank.label for rank in of if rank.killed]
    tight = [f"{rank.label} ({rank.tight} %)" for rank in of if rank.tight is not None and not rank.killed]
    sentences = []
    if killed:
        sentences.append(
            f"The kernel killed {_ranks(killed)}, which used more memory than the limit (OOMKilled): "
            "ask for more (resourcesPerNode)."
        )
    if tight:
        sentences.append(
            f"The memory of {_ranks(tight)} is close to its limit, and the kernel kills what uses more: "
            "ask for more (resourcesPerNode)."
        )
    if not killed and not tight:
        for job in dict.fromkeys(rank.place.job for rank in of):
            sentences += _spare([rank for rank in of if rank.place.job == job], job, alone=len(of))
    return sentences


def shown(kind: Kind, amount: float) -> str:
    """As Kubernetes writes it, with as many digits as a reader needs: `3.9`, `2.1Gi`."""
    if kind is not Kind.MEMORY:
        return _digits(amount)
    suffix, size = next((unit for unit in _SIZES if amount >= unit[1]), _SIZES[-1])
    return f"{_digits(amount / size)}{suffix}"


def _digits(amount: float) -> str:
    digits = 2 if amount < 1 else 1 if amount < 10 else 0
    text = f"{amount:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _ranks(labels: Sequence[str]) -> str:
    return f"rank{'s' if len(labels) > 1 else ''} {listed(labels)}"


def _spare(of: Sequence[Rank], job: str, *, alone: int) -> list[str]:
    """Advice if all ranks of a ReplicatedJob request far more memory than they use."""
    memory = [rank.amounts.get(Kind.MEMORY, Amount()) for rank in of]
    least = min(amount.requested or 0.0 for amount in memory)
    used = [amount.used for amount in memory if amount.used is not None]
    if len(used) < len(of) or not all(rank.settled for rank in of):
        return []
    most = max(used)
    if least < SPARE * most or least - most < WORTH:
        return []
    who = "Each rank" if len(of) == alone else f"Each rank of {job}"
    return [
        f"{who} asks for {shown(Kind.MEMORY, least)} of memory, and none uses more than "
        f"{shown(Kind.MEMORY, most)} now: a job that asks for less (resourcesPerNode) starts sooner."
    ]


def _rank(
    place: Place,
    name: str,
    pod: Json | None,
    *,
    measured: Mapping[str, Json],
    planned: Mapping[Kind, float],
    now: datetime,
) -> Rank:
    if pod is None:
        return Rank(label=name, place=place, amounts=_amounts(planned, {}))
    statuses = read.objects(pod, "status", "containerStatuses")
    started = [read.moment(status, "state", "running", "startedAt") for status in statuses]
    runs = bool(started) and all(read.at(status, "state", "running") for status in statuses)
    usage = _usage(measured.get(read.name(pod)))
    return Rank(
        label=name,
        place=place,
        pod=read.name(pod),
        amounts=_amounts(_requests(pod) or planned, _sums(usage.values())),
        tight=_tight(pod, usage),
        killed=any(
            read.text(status, state, "terminated", "reason") == "OOMKilled"
            for status in statuses
            for state in ("state", "lastState")
        ),
        settled=runs and (now - max(started)).total_seconds() >= SETTLED,
    )


def _amounts(requests: Mapping[Kind, float], usage: Mapping[Kind, float]) -> Amounts:
    return {kind: Amount(requests.get(kind), usage.get(kind)) for kind in Kind}


# --- what is asked for ----------------------------------------------------------


def _newest(pods: Iterable[Json]) -> dict[Place, Json]:
    """The pod of each rank; a pod that is none of a JobSet's has no place."""
    newest: dict[Place, Json] = {}
    for pod in sorted(pods, key=lambda pod: read.moment(pod, "metadata", "creationTimestamp")):
        labels = read.texts(pod, "metadata", "labels")
        annotations = read.texts(pod, "metadata", "annotations")
        job = labels.get(names.REPLICATED_JOB_LABEL, "")
        number = names.JOB_COMPLETION_INDEX_LABEL
        index = labels.get(number) or annotations.get(number) or "0"
        place = Place(job, int(index) if index.isdecimal() and len(index) <= _DIGITS else 0)
        if job and place.is_rank:
            newest[place] = pod
    return newest


def _planned(jobset: Json | None) -> dict[Place, Mapping[Kind, float]]:
    """The requests of each rank of the JobSet, with or without a pod."""
    planned: dict[Place, Mapping[Kind, float]] = {}
    for job in read.objects(jobset, "spec", "replicatedJobs"):
        template = read.at(job, "template", "spec")
        requests = _requests(read.at(template, "template"))
        count = read.number(job, "replicas", default=1) * read.number(template, "parallelism", default=1)
        places = (Place(read.text(job, "name"), index) for index in range(min(count, MOST)))
        planned |= {place: requests for place in places if place.is_rank}
    return planned


def _requests(pod: Any) -> dict[Kind, float]:
    """The requests of a pod, or of a template; empty if unknown."""
    amounts = read.requests(pod)
    requests = {kind: amounts[kind].nano / NANO for kind in (Kind.CPU, Kind.MEMORY) if kind in amounts}
    gpus = gpu_count({"requests": {name: str(amount) for name, amount in amounts.items()}})
    return requests | ({Kind.GPUS: float(gpus)} if gpus else {})


# --- what is used ---------------------------------------------------------------


def _usage(metrics: Json | None) -> dict[str, Mapping[Kind, float]]:
    """The use of each container of a pod."""
    return {
        read.text(container, "name"): {
            kind: amount.nano / NANO
            for kind in (Kind.CPU, Kind.MEMORY)
            if (amount := read.amount(container, "usage", kind)) is not None
        }
        for container in read.objects(metrics, "containers")
    }


def _sums(usage: Iterable[Mapping[Kind, float]]) -> dict[Kind, float]:
    sums: dict[Kind, float] = {}
    for container in usage:
        for kind, amount in container.items():
            sums[kind] = sums.get(kind, 0.0) + amount
    return sums


def _tight(pod: Json, usage: Mapping[str, Mapping[Kind, float]]) -> int | None:
    shares = []
    for container in read.objects(pod, "spec", "containers"):
        limit = read.amount(container, "resources", "limits", Kind.MEMORY)
        used = usage.get(read.text(container, "name"), {}).get(Kind.MEMORY)
        if limit is not None and limit.nano > 0 and used is not None:
            shares.append(used * NANO / limit.nano)
    most = max(shares, default=0.0)
    return int(100 * most) if most >= TIGHT else None


def _sum(amounts: Iterable[float | None]) -> float | None:
    listed_amounts = list(amounts)
    present = [amount for amount in listed_amounts if amount is not None]
    return sum(present) if present and len(present) == len(listed_amounts) else None
