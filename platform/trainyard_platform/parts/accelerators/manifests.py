"""From a stack's accelerators to the values of their charts, and to runtimes prepared for them: pure."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainyard_api import names, pools
from trainyard_api.pools import NodePool, Provider

from ...catalog.files import Runtime
from ..node_pools import manifests as pool_manifests
from . import settings
from .settings import Accelerator, AcceleratorKind

Values = dict[str, Any]


def values(
    kind: AcceleratorKind, accelerator: Accelerator, image: tuple[str, str], declared: Mapping[str, NodePool]
) -> Values:
    """Values of the device plugin's chart: where the pools are that have the accelerator.

    Args:
        kind: The kind of accelerator; one that has a chart.
        accelerator: What the stack says about it.
        image: Repository and tag.
        declared: The stack's pools.
    """
    offered = settings.resources(kind, accelerator)
    having = {
        name: pool
        for name, pool in declared.items()
        if not pools.resources(pool).keys().isdisjoint(offered)
        and pool.provider is not Provider.KWOK  # which has no devices
    }
    return _VALUES[kind](kind, accelerator, image, having)


def equipped(runtime: Runtime, stack: Mapping[AcceleratorKind, Accelerator]) -> Runtime:
    """The runtime, with what their accelerators need in the environment of the training containers.

    A container that asks for none may get any from its TrainJob, and so gets it for all.
    """
    manifest = copy.deepcopy(runtime.manifest)
    for container in _training(manifest["spec"]["template"]["spec"]["replicatedJobs"]):
        asked = set((container.get("resources") or {}).get("limits") or {})
        everything = [
            one for kind, accelerator in stack.items() for one in settings.resources(kind, accelerator)
        ]
        told: dict[str, str] = {}
        for kind, accelerator in stack.items():
            if not asked.intersection(everything) or asked.intersection(
                settings.resources(kind, accelerator)
            ):
                told |= {**settings.facts()[kind].environment, **accelerator.environment}
        known = {entry["name"] for entry in container.get("env", [])}
        added = [{"name": name, "value": value} for name, value in told.items() if name not in known]
        if added:
            container["env"] = [*container.get("env", []), *added]
    return replace(runtime, manifest=manifest)


def _training(jobs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for job in jobs:
        template = job["template"]
        step = template.get("metadata", {}).get("labels", {}).get(names.ANCESTOR_LABEL)
        if step == names.ANCESTOR_TRAINER or job["name"] == names.NODE:
            yield from template["spec"]["template"]["spec"]["containers"]


def _nvidia(
    kind: AcceleratorKind, accelerator: Accelerator, image: tuple[str, str], having: Mapping[str, NodePool]
) -> Values:
    selectors = [pools.selector(name, pool) for name, pool in having.items()]
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in selector.items()
            ]
        }
        for selector in selectors or [settings.facts()[kind].node_labels]
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    repository, tag = image
    return {
        "image": {"repository": repository, "tag": tag},
        "migStrategy": str(accelerator.mig.strategy) if accelerator.mig else "none",
        "affinity": {"nodeAffinity": required},
        "tolerations": _tolerations(kind, having),
    }


def _amd(
    kind: AcceleratorKind, _: Accelerator, image: tuple[str, str], having: Mapping[str, NodePool]
) -> Values:
    # Its chart has one choice of labels, not one for each pool; without a GPU the
    # plugin has nothing to do.
    repository, tag = image
    return {
        "dp": {"image": {"repository": repository, "tag": tag}},
        "node_selector_enabled": False,
        "tolerations": _tolerations(kind, having),
    }


def _efa(
    kind: AcceleratorKind, _: Accelerator, image: tuple[str, str], having: Mapping[str, NodePool]
) -> Values:
    # Its chart chooses nodes by their machine, with a list of all that have EFA; the
    # list is replaced as a whole, so machines that are newer than the chart count
    # too.
    machines = sorted({pool.machine.type for pool in having.values() if pool.machine.type})
    repository, tag = image
    return {
        "image": {"repository": repository, "tag": tag},
        **({"supportedInstanceLabels": {"values": machines}} if machines else {}),
        "tolerations": _tolerations(kind, having),
    }


_VALUES = {AcceleratorKind.NVIDIA: _nvidia, AcceleratorKind.AMD: _amd, AcceleratorKind.EFA: _efa}


def _tolerations(kind: AcceleratorKind, having: Mapping[str, NodePool]) -> list[dict[str, str]]:
    """Of the pools' taints, and of the usual one for nodes with accelerators."""
    found = [{"key": settings.facts()[kind].resource, "operator": "Exists"}]
    for pool in having.values():
        for toleration in pool_manifests.tolerations(pool):
            said = toleration.model_dump(by_alias=True, mode="json")
            entry = {key: value for key, value in said.items() if value not in (None, "")}
            if entry not in found:
                found.append(entry)
    return found
