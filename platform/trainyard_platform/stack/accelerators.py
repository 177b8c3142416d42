"""Settings of accelerators: the kinds in the cluster, and the source of their device plugins.

The facts about each kind are data: `accelerators.yaml`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel

from trainyard_api.pools import NodePool, Provider
from trainyard_api.similar import hint, nearest
from trainyard_api.strict import StrictModel

from .value_types import Image

_MISTYPED = 0.85
"""Similarity with a known resource from which on an unknown one is a mistake: gpu.intel.com/xe is none."""
PROFILE = r"^[1-7]g\.[0-9]+gb(\+me)?$"


class AcceleratorKind(StrEnum):
    """Kind of accelerator. EFA, AWS's network between nodes, is detected and offered like one."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    TPU = "tpu"
    EFA = "efa"


class DevicePlugin(StrEnum):
    """Source of the device plugin, which reports a node's devices to the kubelet."""

    INSTALL = "install"
    SHIPPED = "shipped"


_SHIPPED_BY_GKE = frozenset({AcceleratorKind.NVIDIA, AcceleratorKind.TPU})
"""Kinds whose device plugin GKE runs on the nodes that it creates."""


class MigStrategy(StrEnum):
    """Resource names of a GPU's partitions: the MIG strategy of NVIDIA's device plugin."""

    SINGLE = "single"
    MIXED = "mixed"


class Mig(StrictModel):
    """Partitioned GPUs. The node image or NVIDIA's MIG manager partitions them."""

    strategy: MigStrategy
    """Resource of a partition. single: nvidia.com/gpu. mixed: nvidia.com/mig-<profile>."""
    profiles: tuple[Annotated[str, Field(pattern=PROFILE)], ...] = ()
    """With strategy mixed: the profiles on the nodes, such as 1g.10gb."""

    @model_validator(mode="after")
    def _profiles_are_of_mixed(self) -> "Mig":
        if (self.strategy is MigStrategy.MIXED) is not bool(self.profiles):
            raise ValueError("strategy mixed needs `profiles`, and single has no use for them")
        return self


class Accelerator(StrictModel):
    """One kind of accelerator in the cluster."""

    device_plugin: DevicePlugin = DevicePlugin.INSTALL
    """install: the platform installs the device plugin. shipped: the node image, the cloud or another
    operator provides it."""
    image: Image | None = None
    """Image of the device plugin. Default: the pinned image, from the source in `artifacts`."""
    environment: dict[str, str] = Field(default={})
    """Environment variables of the catalog's training containers, in addition to this kind's defaults."""
    mig: Mig | None = None
    """Partitions of NVIDIA's GPUs. Default: whole GPUs."""


class Facts(BaseModel):
    """Facts about a kind of accelerator."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    resource: str
    partition: str | None = None
    node_labels: dict[str, str] = {}
    environment: dict[str, str] = {}
    artifact: str | None = None
    shipped: str | None = None


@cache
def facts() -> Mapping[AcceleratorKind, Facts]:
    """Facts about each kind of accelerator."""
    text = Path(__file__).with_name("accelerators.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=yaml.CSafeLoader)
    return TypeAdapter(dict[AcceleratorKind, Facts]).validate_python(content)


def resources(kind: AcceleratorKind, accelerator: Accelerator) -> tuple[str, ...]:
    """The resources that pods can request."""
    kind_facts = facts()[kind]
    profiles = accelerator.mig.profiles if accelerator.mig else ()
    return (
        kind_facts.resource,
        *((kind_facts.partition or "").format(profile=profile) for profile in profiles),
    )


def problems(
    accelerators: Mapping[AcceleratorKind, Accelerator], pools: Mapping[str, NodePool]
) -> Iterator[str]:
    """Problems of the accelerators, by themselves or with the node pools, each with its path."""
    for kind, accelerator in accelerators.items():
        kind_facts = facts()[kind]
        if accelerator.device_plugin is DevicePlugin.INSTALL and kind_facts.artifact is None:
            yield f"accelerators.{kind}.devicePlugin: must be `shipped`: it comes from {kind_facts.shipped}"
        if accelerator.mig and kind_facts.partition is None:
            yield f"accelerators.{kind}.mig: only NVIDIA's accelerators have it"
    for name, pool in pools.items():
        if pool.accelerator:
            place = f"nodePools.{name}.accelerator.resource"
            yield from _of_pool(name, place, pool.provider, pool.accelerator.resource, accelerators)
        for resource in pool.machine.resources:
            if kind_of(resource):  # where others come from is not checked
                place = f"nodePools.{name}.machine.resources"
                yield from _of_pool(name, place, pool.provider, resource, accelerators)


def kind_of(resource: str) -> AcceleratorKind | None:
    """The kind of accelerator that offers the resource; None for an unknown one."""
    for kind, kind_facts in facts().items():
        prefix = kind_facts.partition and kind_facts.partition.partition("{")[0]
        if resource == kind_facts.resource or (prefix and resource.startswith(prefix)):
            return kind
    return None


def _of_pool(
    name: str,
    place: str,
    provider: Provider,
    resource: str,
    accelerators: Mapping[AcceleratorKind, Accelerator],
) -> Iterator[str]:
    """Problems with one kind of accelerator of a pool."""
    offered = [offer for kind, accelerator in accelerators.items() for offer in resources(kind, accelerator)]
    kind = kind_of(resource)
    by_gke = provider is Provider.GKE and kind in _SHIPPED_BY_GKE
    if kind is not None and kind not in accelerators:
        if provider is not Provider.KWOK and not by_gke:  # simulated nodes have what they say
            reason = f"no device plugin offers {resource}, so its nodes would offer none"
            yield f"{place}: {reason}: {_to_add(resource, kind)}"
    elif resource not in offered and (kind is not None or nearest(resource, offered, least=_MISTYPED)):
        yield (
            f"{place}: no accelerator of this stack offers {resource} "
            f"(they offer {', '.join(offered)}){hint(resource, offered)}"
        )
    elif by_gke and kind is not None and accelerators[kind].device_plugin is DevicePlugin.INSTALL:
        yield f"accelerators.{kind}.devicePlugin: must be `shipped`: GKE ships it with nodePools.{name}"


def _to_add(resource: str, kind: AcceleratorKind) -> str:
    """The line that a stack file lacks."""
    kind_facts = facts()[kind]
    if kind_facts.artifact is None:
        return (
            f"add `accelerators: {{{kind}: {{devicePlugin: shipped}}}}`; it comes from {kind_facts.shipped}"
        )
    prefix = kind_facts.partition and kind_facts.partition.partition("{")[0]
    entry = "{devicePlugin: install}"
    if prefix and resource.startswith(prefix):
        entry = f"{{mig: {{strategy: mixed, profiles: [{resource.removeprefix(prefix)}]}}}}"
    return (
        f"add `accelerators: {{{kind}: {entry}}}`, or with `devicePlugin: shipped` if the node image, "
        "the cloud or another operator brings its device plugin"
    )
