"""The catalog's runtimes as one stack has them."""

from collections.abc import Callable
from pathlib import Path

from . import accelerator_manifests, catalog, data_cache_manifests, storage_manifests, users
from .catalog import Runtime
from .settings import StackSettings


def load(
    folder: Path,
    stack: StackSettings,
    registry: Callable[[str], str],
    tell: Callable[[str], object] = lambda _: None,
) -> tuple[Runtime, ...]:
    """The runtimes of the catalog in `folder` that this stack installs, with all that it says of them.

    A runtime that starts a data cache is left out where the stack has none.

    Args:
        folder: The catalog.
        stack: The stack's settings.
        registry: Where the stack takes an image from (`Artifacts.registry`).
        tell: Gets a line about each runtime that is left out.

    Raises:
        PlatformError: If a runtime does not go with the stack.
    """
    runtimes = list(catalog.load(folder, stack.runtimes, registry))
    if not stack.data_cache.enabled:
        runtimes, left_out = data_cache_manifests.without_cache(runtimes)
        for name in left_out:
            tell(f"the runtime {name} starts a data cache and is left out: dataCache.enabled is false")
    if stack.cluster.assigns_users:
        runtimes = list(users.left_to_the_cluster(runtimes))
    stored = [storage_manifests.stored(runtime, stack.storage) for runtime in runtimes]
    return tuple(accelerator_manifests.equipped(runtime, stack.accelerators) for runtime in stored)
