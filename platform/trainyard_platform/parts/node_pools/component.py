"""Who provides the nodes of each pool.

The package of a cloud is imported only if a pool needs it: the platform runs
without those of the others.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType

import pulumi

from trainyard_api import places
from trainyard_api.pools import NODE_GROUPS, NodePool, Provider

from ...assembly import Assembly
from ...errors import PlatformError
from ...stack.node_pools import Clouds
from .karpenter import KarpenterPool
from .kwok import KwokPool


def install(assembly: Assembly) -> None:
    """Create what provides the nodes of the stack's pools."""
    provide(
        assembly.stack.node_pools,
        assembly.stack.cluster,
        assembly.options,
        deleted_with=assembly.deleted_with,
        node_groups=not assembly.renders,
    )


def provide(
    pools: Mapping[str, NodePool],
    clouds: Clouds,
    on_cluster: pulumi.ResourceOptions,
    *,
    deleted_with: pulumi.Resource,
    node_groups: bool = True,
) -> None:
    """Create what provides each pool's nodes; nodes that exist need nothing.

    Args:
        pools: The pools by name.
        clouds: Where the cluster is.
        on_cluster: Options of components with objects in the cluster.
        deleted_with: A resource that is removed only with the whole stack.
        node_groups: Whether node groups in a cloud are created.
    """
    connections: dict[Provider, pulumi.ProviderResource] = {}
    for name, pool in pools.items():
        if pool.provider is Provider.KWOK:
            KwokPool(name, on_cluster, pool=pool)
        if pool.provider is Provider.KARPENTER and clouds.karpenter:
            KarpenterPool(name, on_cluster, pool=pool, cluster=clouds.karpenter, deleted_with=deleted_with)
        if node_groups and pool.provider in NODE_GROUPS:
            cluster = getattr(clouds, pool.provider)
            cloud = package(pool.provider)
            if pool.provider not in connections:
                connections[pool.provider] = cloud.provider(cluster)
            on_cloud = pulumi.ResourceOptions(
                providers=[connections[pool.provider]], protect=pool.protect or None
            )
            cloud.Pool(name, on_cloud, pool=pool, cluster=cluster)


def package(provider: Provider) -> ModuleType:
    """The module next to this one that creates the node groups of a cloud."""
    try:
        return importlib.import_module(f".{provider}", __package__)
    except ModuleNotFoundError as error:
        way_out = (
            f"make cloud CLOUD={provider}"
            if places.site().is_clone
            else f"write trainyard[site,{provider}] instead of trainyard[site] in requirements.txt, "
            "and run make environment"
        )
        raise PlatformError(
            f"nodePools: provider {provider} needs the Python package {error.name}: {way_out}"
        ) from error
