"""A runtime leaves the operator's variables to the operator."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import names

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """No training container has a variable that the operator sets for its ML policy."""
    policy, _ = workload.ml_policy
    reserved = {
        name: chosen
        for chosen, its in names.RESERVED_ENV.items()
        if policy.get(chosen) is not None
        for name in its
    }
    for container in workload.training_containers():
        for position, entry in enumerate(container.env):
            if chosen := reserved.get(entry["name"]):
                at = container.path.child("env").index(position).child("name")
                message = f"should be left out: the operator sets {entry['name']} for the policy {chosen}"
                yield Finding(at, message)


RULE = Rule(
    id="reserved-env",
    title="A runtime does not set the operator's variables",
    why=(
        "The operator silently overwrites them, so the runtime's values have no effect. A TrainJob that sets "
        "one is refused, or warned of if it is a variable of Open MPI 5."
    ),
    remedy="Remove the variable. The numbers of nodes and processes are fields of the TrainJob.",
    severity=Severity.LOW,
    levels={Subject.RUNTIMES: Level.ADVISORY},
    check=check,
)
