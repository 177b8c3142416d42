"""Frameworks for which Trainer v2.3 has no ML policy: who trains, and under which addresses.

Called by their plugins. The runtime's label says which framework it is; a
policy of the runtime, whichever it is, takes precedence over the label (ADR 41).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.errors import FieldPath, invalid

from ...model import Json
from ..info import Info, PodSet

LONGEST: Final = 64 * 1024
"""Bytes of addresses in a variable: each pod has all of them, and etcd keeps each pod."""

_NODES: Final = FieldPath("spec.trainer.numNodes")


def trainers(info: Info, framework: str) -> PodSet | None:
    """The pods of the trainer's step, if the runtime is of that framework and has no ML policy."""
    policies = [source for source, value in (info.ml_policy or {}).items() if value is not None]
    if (
        info.settings.as_trainer_builds
        or info.runtime.labels.get(names.FRAMEWORK_LABEL) != framework
        or set(policies) - {"numNodes"}
    ):
        return None
    return info.pod_set(ancestor=names.ANCESTOR_TRAINER)


def addresses(info: Info, workers: PodSet, others: Sequence[PodSet] = ()) -> dict[str, list[str]]:
    """The address and port of each pod, by pod set; raises `InvalidFieldError` if that is too much."""
    members = [pods for pods in (workers, *others) if pods.count > 0]
    longest = max((len(_address(info, pods, pods.count - 1)) for pods in members), default=1)
    most = max(0, LONGEST // longest - sum(pods.count for pods in others))
    if workers.count > most:
        detail = (
            f"must be less than or equal to {most}, since each pod has the addresses of all in a variable"
        )
        raise invalid(_NODES, workers.count, detail)
    return {pods.name: [_address(info, pods, index) for index in range(pods.count)] for pods in members}


def sets(container: Json | None, variable: str) -> bool:
    """Whether the container has the variable already: who trains may know better."""
    return any(entry["name"] == variable for entry in (container or {}).get("env") or ())


def with_missing(info: Info, pods: PodSet, env: Iterable[Json]) -> Info:
    """`info` with those variables that the container does not have yet, and with the port."""
    container = info.container(pods.name)
    missing = [variable for variable in env if not sets(container, variable["name"])]
    return info.with_env(pods.name, missing).with_port(pods.name)


def address_of(first: str, variable: str) -> str:
    """The address of the pod whose number is in a variable, which Kubernetes fills in; `first` is pod 0's."""
    host, _, domain = first.partition(".")
    return f"{host.removesuffix('0')}$({variable}).{domain}"


def _address(info: Info, pods: PodSet, index: int) -> str:
    return f"{info.endpoint(pods, index)}:{names.TRAINER_PORT}"
