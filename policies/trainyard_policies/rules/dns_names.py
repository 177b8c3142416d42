"""Nodes that find each other by their DNS names have such names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject
from .ml_policy import POLICIES

_SPEC: Final = FieldPath("spec")
_LISTS_HOSTS: Final = "mpi"
"""Its launcher reaches even a single node by its name; with other policies, a single node is `localhost`."""


def check(workload: Workload, _: Parameters) -> Iterator[Finding]:
    """As the operator does with a TrainJob that asks for no other number of nodes."""
    network, at = json_reader.below(workload.spec, _SPEC, "template", "spec", "network")
    if network.get("enableDNSHostnames") is not False:
        return
    policy, policy_at = workload.ml_policy
    nodes = json_reader.integer(policy.get("numNodes"), policy_at.child("numNodes"))
    meet = nodes is not None and nodes > 1 and bool(workload.trainers())
    at = at.child("enableDNSHostnames")
    for name in POLICIES:
        if policy.get(name) is not None and (meet or name == _LISTS_HOSTS):
            message = f"must not be false: with the policy {name}, nodes find each other by their DNS names"
            yield Finding(at, message, (Edit(at),))


RULE = Rule(
    id="dns-names",
    title="Nodes that find each other by their DNS names have such names",
    why="The operator gives each node the address of the first, or the launcher those of all. Without DNS "
    "names there are none, and each TrainJob on the runtime is refused.",
    remedy="Leave spec.template.spec.network.enableDNSHostnames out, or set spec.mlPolicy.numNodes to 1.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    fixes=True,
    check=check,
)
