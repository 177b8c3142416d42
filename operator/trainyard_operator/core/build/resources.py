"""Requests of pods: GPUs, and the sums for gang schedulers.

Called by the plugins. Follows Trainer v2.3, which recognizes a GPU by `gpu` in
the resource's name, and Kubernetes' own sum of a pod's requests. Quantities
are canonical text, as `templates.checked` leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from trainyard_api import json_reader, names, quantity
from trainyard_api.amounts import Amounts, added, of_pod
from trainyard_api.errors import FieldPath

from ..model import Json
from . import templates
from .info import Info

_PATH: Final = FieldPath("spec.trainer.resourcesPerNode")
_KINDS: Final = ("requests", "limits")
_PARTITION: Final = "nvidia.com/mig-"
_TPU: Final = "google.com/tpu"
_POD_LEVEL: Final = ("cpu", "memory")
_POD_LEVEL_PREFIX: Final = "hugepages-"


def per_node(info: Info) -> Json:
    """The resources that processes are counted by.

    What the TrainJob names counts as it says, the rest as the runtime has it.
    Trainer v2.3 does not count the rest when the TrainJob names anything.
    """
    own = json_reader.optional_mapping((info.trainer or {}).get("resourcesPerNode"), _PATH)
    if own is None:
        return _of_node(info)
    amounts = templates.resources(own, _PATH)
    if info.settings.as_first_release_builds:
        return amounts
    named = {name for kind in _KINDS for name in amounts.get(kind, {})}
    node = _of_node(info)
    return {
        kind: {name: amount for name, amount in node.get(kind, {}).items() if name not in named}
        | amounts.get(kind, {})
        for kind in _KINDS
    }


def _of_node(info: Info) -> Json:
    """The resources of the first container `node` that trains or works for a launcher."""
    for job in info.jobs:
        if job["name"] == names.NODE or templates.ancestor(job) == names.ANCESTOR_TRAINER:
            container = templates.container(job, names.NODE)
            if container is not None:
                resources: Json = container["resources"]
                return resources
    return {}


def gpu_count(resources: Json) -> int:
    """How many GPUs: the first resource, by name, with `gpu` in it; of the requests, else of the limits."""
    for kind in _KINDS:
        for name, amount in sorted(resources.get(kind, {}).items()):
            if "gpu" in name.lower() and (count := quantity.parse(amount).ceil()) != 0:
                return count
    return 0


def contradictions(info: Info) -> Iterator[str]:
    """Warnings if Kubernetes refuses a node's request and limit, of which the TrainJob sets one at most."""
    own = json_reader.mapping((info.trainer or {}).get("resourcesPerNode"), _PATH)
    if not own or info.ml_policy is None:
        return
    node = _of_node(info)
    limits = _parsed(node.get("limits", {}))
    for name, request in sorted(_parsed(node.get("requests", {})).items()):
        limit = limits.get(name)
        if limit is not None and (request.nano > limit.nano or ("/" in name and request.nano < limit.nano)):
            yield (
                f"{_PATH}: with what the runtime sets, a node requests {request} of {name}, and its limit is "
                f"{limit}: set both here, or Kubernetes refuses the pods"
            )


def uncounted(resources: Json) -> dict[str, int]:
    """How many accelerators that do not count as GPUs, by resource: partitions of GPUs (MIG), and TPUs."""
    amounts = {name: amount for kind in _KINDS for name, amount in resources.get(kind, {}).items()}
    return {
        name: count
        for name, amount in sorted(amounts.items())
        if (name == _TPU or is_partition(name)) and (count := quantity.parse(amount).ceil()) > 0
    }


def is_partition(resource: str) -> bool:
    """Whether it is a partition of a GPU, of which a process can use only one."""
    return resource.startswith(_PARTITION)


def pod_requests(job: Json, *, limits_count: bool = False) -> Amounts:
    """Requests of one pod of a checked ReplicatedJob, summed up like Kubernetes' scheduler.

    Requests of the pod as a whole replace the sum of its containers' requests; the overhead comes on top.

    Args:
        job: The ReplicatedJob.
        limits_count: Whether a limit is the request where there is none, as the API server has it
            in a pod. Trainer's sum for a gang leaves it out (ADR 32).
    """
    spec = templates.pod_template(job)["spec"]
    wanted_by = partial(_requests, limits_count=limits_count)
    init_containers = spec.get("initContainers", ())
    running = of_pod(
        map(wanted_by, spec.get("containers", ())),
        ((wanted_by(container), container.get("restartPolicy") == "Always") for container in init_containers),
    )
    for name, amount in wanted_by(spec).items():
        if name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX):
            running[name] = amount
    return added(running, _parsed(spec.get("overhead") or {}))


def of_container(container: Json) -> Amounts:
    """Requests of a container, as the API server has them: a limit is the request where there is none."""
    return _requests(container, limits_count=True)


def _requests(owner: Json, *, limits_count: bool) -> Amounts:
    resources = owner.get("resources") or {}
    limits = resources.get("limits") if limits_count else None
    return _parsed({**(limits or {}), **(resources.get("requests") or {})})


def _parsed(given: Json) -> Amounts:
    return {name: quantity.parse(amount) for name, amount in given.items()}
