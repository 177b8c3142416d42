"""Accelerators are the same in requests and limits."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import quantity
from trainyard_api.errors import FieldPath, invalid
from trainyard_api.json_reader import shown
from trainyard_api.quantity import Quantity

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject


def is_accelerator(name: str) -> bool:
    """Whether a resource is a device: what has a domain that is not Kubernetes' own."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def amount(value: object, path: FieldPath) -> Quantity:
    """The quantity at `path`; raises `InvalidFieldError`."""
    try:
        return quantity.parse(value)
    except ValueError as error:
        raise invalid(path, shown(value), str(error)) from error


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """A request has an equal limit; a limit without a request is a request too, as in Kubernetes."""
    for container in workload.containers():
        requests, requests_path = container.resources.amounts("requests")
        limits, limits_path = container.resources.amounts("limits")
        for name in requests:
            if not is_accelerator(name):
                continue
            request = amount(requests[name], requests_path.key(name))
            if limits.get(name) is None:
                edits = (Edit(limits_path.key(name), requests[name]),)
                yield Finding(
                    requests_path.key(name), "must have a limit of the same amount, has none", edits
                )
                continue
            most = amount(limits[name], limits_path.key(name))
            if request.nano != most.nano:
                yield Finding(requests_path.key(name), f"must equal its limit, which is {most}; is {request}")


RULE = Rule(
    id="accelerators-equal",
    title="Accelerators are the same in requests and limits",
    why="Devices cannot be overcommitted: the API server refuses every pod that asks for "
    "more or less than its limit, and the job hangs.",
    remedy="Write the same amount under requests and limits, or only under limits.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    fixes=True,
    check=check,
)
