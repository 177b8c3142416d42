"""A node of some pool has the requested accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import quantity

from ..manifest import Container, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject
from .accelerators_equal import amount, is_accelerator


def requested_accelerators(container: Container) -> dict[str, quantity.Quantity]:
    """The accelerators that a container asks for, by resource name."""
    quantities = {}
    for part in ("requests", "limits"):
        amounts, path = container.resources.amounts(part)
        for name, value in amounts.items():
            if is_accelerator(name):
                quantities[name] = amount(value, path.key(name))
    return {name: value for name, value in quantities.items() if value.nano > 0}


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Some pool has each requested accelerator, and enough of it on one node."""
    if not parameters.pools:
        return
    for container in workload.containers():
        for name, requested in requested_accelerators(container).items():
            limits, path = container.resources.amounts("limits")
            if name not in limits:
                _, path = container.resources.amounts("requests")
            offers = {
                pool.name: quantity.parse(pool.resources[name])
                for pool in parameters.pools
                if name in pool.resources
            }
            if not offers:
                pools = ", ".join(pool.name for pool in parameters.pools)
                message = f"must be a resource that a pool has; none of {pools} has it"
                yield Finding(path.key(name), message, against="pools")
            elif all(offer.nano < requested.nano for offer in offers.values()):
                most = ", ".join(f"{pool} has {offer}" for pool, offer in sorted(offers.items()))
                message = f"must fit a node of a pool: {requested} are requested, {most}"
                against = f"pools.{next(iter(offers))}" if len(offers) == 1 else "pools"
                yield Finding(path.key(name), message, against=against)


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
