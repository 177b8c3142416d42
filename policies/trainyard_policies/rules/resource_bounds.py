"""No node of a job asks for more than the stack allows, or for an amount that nobody counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from trainyard_api import amounts, quantity
from trainyard_api.quantity import Quantity

from ..manifest import Container, ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject
from .accelerators_equal import amount

_COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
"""What every container uses: 0 of it is no limit for the kubelet, and nothing for a quota."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each request and limit is at most the bound for its resource, and not 0 of what everybody uses."""
    bounds = {name: quantity.parse(most) for name, most in parameters.bounds.items()}
    for resources in workload.resources():
        for part in ("requests", "limits"):
            given, path = resources.amounts(part)
            for name, value in given.items():
                asks = amount(value, path.key(name))
                if name in bounds and asks.nano > bounds[name].nano:
                    yield Finding(
                        path.key(name),
                        f"must be at most {bounds[name]} on this platform, is {value}",
                        against=f"maxResources.{name}",
                    )
                elif name in _COUNTED and not asks.nano:
                    message = "must be more than 0: leave it out to get the default of the namespace"
                    yield Finding(path.key(name), message)
    if workload.subject is Subject.RUNTIMES:  # of a TrainJob's pods, only some containers are known
        for job in workload.jobs:
            yield from _of_pod(job, bounds)


def _of_pod(job: ReplicatedJob, bounds: Mapping[str, Quantity]) -> Iterator[Finding]:
    def requested(container: Container) -> dict[str, Quantity]:
        limits, _ = container.resources.amounts("limits")
        requests, _ = container.resources.amounts("requests")
        given = {**limits, **requests}.items()
        return {name: quantity.parse(value) for name, value in given if name in bounds}

    for name, most, total in together(job, requested):
        if most.nano <= bounds[name].nano < total.nano:
            yield Finding(
                job.pod_path.child("containers"),
                f"must request together at most {bounds[name]} of {name} on this platform; a pod of "
                f"{job.name!r} requests {total}",
                against=f"maxResources.{name}",
            )


def together(
    job: ReplicatedJob, requested: Callable[[Container], Mapping[str, Quantity]]
) -> Iterator[tuple[str, Quantity, Quantity]]:
    """Each resource that the containers of a pod request: the most that one requests, and the pod's sum.

    Also of a resource that the pod requests itself: Kubernetes refuses a pod whose containers request
    more of it, and before 1.34 it does not look at the pod's own amounts.
    """
    containers = [requested(container) for container in job.containers("containers")]
    starting = [
        (requested(container), container.value.get("restartPolicy") == "Always")
        for container in job.containers("initContainers")
    ]
    highest = amounts.highest([*containers, *(requests for requests, _ in starting)])
    for name, total in amounts.of_pod(containers, starting).items():
        yield name, highest[name], total


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
