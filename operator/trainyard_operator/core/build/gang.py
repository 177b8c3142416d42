"""The pods of a TrainJob that must be scheduled together, or not at all.

Called by the plugins of the gang schedulers. Without a `dependsOn` these are
all pods, as in Trainer v2.3. With one, Trainer's count waits for pods that
are not even created until others are ready, and nothing ever starts; here
the gang is the trainers and what they wait for to be ready, without those that
wait like this themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.amounts import Amounts, added
from trainyard_api.errors import FieldPath

from ..model import Json
from . import resources, templates
from .info import Info

_READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class Gang:
    """The ReplicatedJobs of the gang, the number of their pods, and their requests."""

    jobs: frozenset[str]
    pods: int
    requests: Json


def members(info: Info) -> frozenset[str]:
    """The ReplicatedJobs that belong to it; raises `InvalidFieldError` as `of` does."""
    everybody = frozenset(pods.name for pods in info.pod_sets)
    awaited = {job["name"]: _dependencies(job) for job in info.jobs}
    if not any(awaited.values()):
        return everybody
    visited: set[str] = set()
    reached = {job["name"] for job in info.jobs if templates.ancestor(job) == names.ANCESTOR_TRAINER}
    while reached:
        visited |= reached
        reached = {name for job in reached for name in _ready(awaited[job]) & everybody} - visited
    together = frozenset(job for job in visited if not _ready(awaited[job]))
    return together or everybody


def of(info: Info) -> Gang:
    """The gang of a TrainJob; raises `InvalidFieldError` for a `dependsOn` that cannot be read."""
    together = members(info)
    limits_count = not info.settings.as_first_release_builds
    amounts = [
        (pods.count, resources.pod_requests(job, limits_count=limits_count))
        for job, pods in zip(info.jobs, info.pod_sets, strict=True)
        if pods.name in together
    ]
    total: Amounts = {}
    for count, requests in amounts:
        total = added(total, {name: amount.times(count) for name, amount in requests.items()})
    return Gang(
        together,
        sum(count for count, _ in amounts),
        {name: str(amount) for name, amount in total.items()},
    )


def _dependencies(job: Json) -> tuple[tuple[str, str], ...]:
    path = FieldPath("dependsOn")
    items = json_reader.named_objects(job.get("dependsOn"), path)
    return tuple(
        (item["name"], json_reader.text(item.get("status"), path.index(i).child("status")) or "")
        for i, item in enumerate(items)
    )


def _ready(dependencies: tuple[tuple[str, str], ...]) -> frozenset[str]:
    return frozenset(name for name, status in dependencies if status == _READY)
