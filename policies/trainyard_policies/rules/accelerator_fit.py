"""A node of some pool has the requested accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainyard_api import quantity
from trainyard_api.quantity import Quantity

from ..manifest import Container, ReplicatedJob, Workload
from ..parameters import Parameters, Pool
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject
from .accelerators_equal import amount, is_accelerator
from .resource_bounds import together


def requested_accelerators(container: Container) -> dict[str, Quantity]:
    """The accelerators that a container asks for, by resource name."""
    quantities = {}
    for part in ("requests", "limits"):
        amounts, path = container.resources.amounts(part)
        for name, value in amounts.items():
            if is_accelerator(name):
                quantities[name] = amount(value, path.key(name))
    return {name: value for name, value in quantities.items() if value.nano > 0}


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Some pool has each requested accelerator, and enough of it on one node for a pod."""
    pools = parameters.pools
    if not pools:
        return
    for container in workload.containers():
        for name, requested in requested_accelerators(container).items():
            limits, path = container.resources.amounts("limits")
            if name not in limits:
                _, path = container.resources.amounts("requests")
            offers = _offers(name, pools)
            if not offers:
                listed = ", ".join(pool.name for pool in pools)
                message = f"must be a resource that a pool has; none of {listed} has it"
                yield Finding(path.key(name), message, against="pools")
            elif not _fits(requested, offers):
                message = f"must fit a node of a pool: {requested} are requested, {_listed(offers)}"
                yield Finding(path.key(name), message, against=_against(offers))
    if workload.subject is Subject.RUNTIMES:  # of a TrainJob's pods, only some containers are known
        for job in workload.jobs:
            yield from _of_pod(job, pools)


def _of_pod(job: ReplicatedJob, pools: Sequence[Pool]) -> Iterator[Finding]:
    offers = {name: _offers(name, pools) for pool in pools for name in pool.resources}

    def requested(container: Container) -> dict[str, Quantity]:
        return {name: most for name, most in requested_accelerators(container).items() if name in offers}

    for name, most, total in together(job, requested):
        if _fits(most, offers[name]) and not _fits(total, offers[name]):
            message = (
                f"must fit a node of a pool together: a pod of {job.name!r} requests {total} of {name}, "
                f"{_listed(offers[name])}"
            )
            yield Finding(job.pod_path.child("containers"), message, against=_against(offers[name]))


def _offers(name: str, pools: Sequence[Pool]) -> dict[str, Quantity]:
    """What a node of each pool has of a resource, by the pool's name."""
    return {pool.name: quantity.parse(pool.resources[name]) for pool in pools if name in pool.resources}


def _fits(requested: Quantity, offers: Mapping[str, Quantity]) -> bool:
    return any(offer.nano >= requested.nano for offer in offers.values())


def _listed(offers: Mapping[str, Quantity]) -> str:
    return ", ".join(f"{pool} has {offer}" for pool, offer in sorted(offers.items()))


def _against(offers: Mapping[str, Quantity]) -> str:
    return f"pools.{next(iter(offers))}" if len(offers) == 1 else "pools"


RULE = Rule(
    id="accelerator-fit",
    title="A node of some pool has the requested accelerators",
    why="A pod that asks for more devices than any node has stays pending forever.",
    remedy="Request no more than a node of one of the stack's pools has, and use more nodes instead.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("pools",),
    check=check,
)
