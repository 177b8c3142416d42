"""No node of a job asks for more than the stack allows."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader, quantity
from trainyard_api.errors import invalid

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each request and limit is at most the bound for its resource."""
    bounds = {name: quantity.parse(most) for name, most in parameters.max_resources.items()}
    for container in workload.containers():
        for part in ("requests", "limits"):
            amounts, path = container.amounts(part)
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


RULE = Rule(
    id="resource-bounds",
    title="No training node requests more than the platform allows",
    why="A pod that fits no node stays pending, and so does its whole gang.",
    remedy="Request no more than the platform allows, or ask your platform team to allow more "
    "(policies.parameters.maxResources in the stack file).",
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("max_resources",),
    check=check,
)
