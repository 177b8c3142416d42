"""From a stack's accelerators to the values of their charts: pure."""

from collections.abc import Mapping
from typing import Any

from trainyard_api import pools
from trainyard_api.pools import NodePool, Provider

from ...stack import accelerators
from ...stack.accelerators import Accelerator, AcceleratorKind
from ..node_pools import manifests as pool_manifests

Values = dict[str, Any]


def values(
    kind: AcceleratorKind, accelerator: Accelerator, image: Values, declared: Mapping[str, NodePool]
) -> Values:
    """Values of the device plugin's chart: where the pools are that have the accelerator.

    Args:
        kind: The kind of accelerator; one that has a chart.
        accelerator: The stack's settings.
        image: Its image, as `helm.image` has it.
        declared: The stack's pools.
    """
    offered = accelerators.resources(kind, accelerator)
    matching_pools = {
        name: pool
        for name, pool in declared.items()
        if not pools.resources(pool).keys().isdisjoint(offered)
        and pool.provider is not Provider.KWOK  # which has no devices
    }
    return _VALUES[kind](kind, accelerator, image, matching_pools)


def _nvidia(
    kind: AcceleratorKind,
    accelerator: Accelerator,
    image: Values,
    matching_pools: Mapping[str, NodePool],
) -> Values:
    selectors = [pools.selector(name, pool) for name, pool in matching_pools.items()]
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in selector.items()
            ]
        }
        for selector in selectors or [accelerators.facts()[kind].node_labels]
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        "image": image,
        "migStrategy": str(accelerator.mig.strategy) if accelerator.mig else "none",
        "affinity": {"nodeAffinity": required},
        "tolerations": _tolerations(kind, matching_pools),
    }


def _amd(
    kind: AcceleratorKind, _: Accelerator, image: Values, matching_pools: Mapping[str, NodePool]
) -> Values:
    # Its chart has one choice of labels, not one for each pool; without a GPU the
    # plugin has nothing to do.
    return {
        "dp": {"image": image},
        "node_selector_enabled": False,
        "tolerations": _tolerations(kind, matching_pools),
    }


def _efa(
    kind: AcceleratorKind, _: Accelerator, image: Values, matching_pools: Mapping[str, NodePool]
) -> Values:
    # Its chart chooses nodes by their machine, with a list of all that have EFA; the
    # list is replaced as a whole, so machines that are newer than the chart count
    # too. Of an existing pool the machine is not known: then the chart's list stays.
    machines = {pool.machine.type or "" for pool in matching_pools.values()}
    known = machines and "" not in machines
    return {
        "image": image,
        **({"supportedInstanceLabels": {"values": sorted(machines)}} if known else {}),
        "tolerations": _tolerations(kind, matching_pools),
    }


_VALUES = {AcceleratorKind.NVIDIA: _nvidia, AcceleratorKind.AMD: _amd, AcceleratorKind.EFA: _efa}


def _tolerations(kind: AcceleratorKind, matching_pools: Mapping[str, NodePool]) -> list[dict[str, str]]:
    """Of the pools' taints, and of the usual one for nodes with accelerators."""
    tolerations = [{"key": accelerators.facts()[kind].resource, "operator": "Exists"}]
    for pool in matching_pools.values():
        for toleration in pool_manifests.tolerations(pool):
            fields = toleration.model_dump(by_alias=True, mode="json")
            entry = {key: value for key, value in fields.items() if value not in (None, "")}
            if entry not in tolerations:
                tolerations.append(entry)
    return tolerations
