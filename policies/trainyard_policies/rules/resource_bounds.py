"""No node of a job asks for more than the stack allows, or for an amount that nobody counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader, quantity
from trainyard_api.errors import invalid

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject

_COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
"""What every container uses: 0 of it is no limit for the kubelet, and nothing for a quota."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each request and limit is at most the bound for its resource, and not 0 of what everybody uses."""
    bounds = {name: quantity.parse(most) for name, most in parameters.max_resources.items()}
    for resources in workload.resources():
        for part in ("requests", "limits"):
            amounts, path = resources.amounts(part)
            for name, value in amounts.items():
                try:
                    amount = quantity.parse(value)
                except ValueError as error:
                    raise invalid(path.key(name), json_reader.shown(value), str(error)) from error
                if name in bounds and amount.nano > bounds[name].nano:
                    yield Finding(
                        path.key(name),
                        f"must be at most {bounds[name]} on this platform, is {value}",
                        against=f"maxResources.{name}",
                    )
                elif name in _COUNTED and not amount.nano:
                    message = "must be more than 0: leave it out to get the default of the namespace"
                    yield Finding(path.key(name), message)


RULE = Rule(
    id="resource-bounds",
    title="No training node requests more than the platform allows, or an amount of 0",
    why="A pod that fits no node stays pending, and so does its whole gang. A container with an amount of 0 "
    "uses CPU, memory or disk without limit, and neither Kueue nor a ResourceQuota counts it.",
    remedy="Request what a container needs, but no more than the platform allows, or ask your platform team "
    "to allow more (policies.parameters.maxResources in the stack file).",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("max_resources",),
    check=check,
)
