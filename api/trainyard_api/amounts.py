"""Amounts of several resources, and their sum in a pod: pure.

The operator sums up what it builds, and the rules what a runtime says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .quantity import ZERO, Quantity

Amounts = dict[str, Quantity]


def added(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> Amounts:
    """The sum of both."""
    result = dict(first)
    _add(result, second)
    return result


def highest(several: Iterable[Mapping[str, Quantity]]) -> Amounts:
    """Of each resource the largest amount."""
    result: Amounts = {}
    for amounts in several:
        _raise_to(result, amounts)
    return result


def of_pod(
    containers: Iterable[Mapping[str, Quantity]],
    init_containers: Iterable[tuple[Mapping[str, Quantity], bool]],
) -> Amounts:
    """The sum of what a pod's containers request, as Kubernetes' scheduler has it.

    Containers and sidecars run together; each other init container runs together with the sidecars before
    it.

    Args:
        containers: What each container requests.
        init_containers: What each init container requests, and whether it is a sidecar (`restartPolicy:
            Always`).
    """
    running: Amounts = {}
    for requests in containers:
        _add(running, requests)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for requests, is_sidecar in init_containers:
        if is_sidecar:
            _add(running, requests)
            _add(sidecars, requests)
        _raise_to(starting, sidecars if is_sidecar else added(requests, sidecars))
    _raise_to(running, starting)
    return running


def _add(target: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        target[name] = target.get(name, ZERO) + amount


def _raise_to(target: Amounts, floor: Mapping[str, Quantity]) -> None:
    for name, amount in floor.items():
        if name not in target or amount.nano > target[name].nano:
            target[name] = amount
