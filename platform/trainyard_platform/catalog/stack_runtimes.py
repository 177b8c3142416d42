"""The catalog's runtimes as one stack has them."""

from collections.abc import Callable
from pathlib import Path

from ..stack.runtimes import RuntimeOverlay
from ..stack.settings import StackSettings
from . import equipment, files, users
from .files import Runtime
from .images import Images


def load(
    folder: Path,
    stack: StackSettings,
    registry: Callable[[str], str],
    log: Callable[[str], object] = lambda _: None,
    *,
    beneath: Path | None = None,
) -> tuple[Runtime, ...]:
    """The runtimes of the catalog in `folder` that this stack installs, with all its changes.

    A runtime that starts a data cache is left out where the stack has none.

    Args:
        folder: The catalog.
        stack: The stack's settings.
        registry: Where the stack takes an image from (`Artifacts.registry`).
        log: Gets a line about each runtime that is left out.
        beneath: The catalog that this one comes on top of (`places.catalog`).

    Raises:
        PlatformError: If a runtime does not fit the stack.
    """
    runtimes = list(files.load(folder, stack.runtimes, registry, beneath=beneath))
    if not stack.data_cache.enabled:
        runtimes, left_out = equipment.without_cache(runtimes)
        for name in left_out:
            log(f"the runtime {name} starts a data cache and is left out: dataCache.enabled is false")
    if stack.cluster.assigns_users:
        runtimes = list(users.left_to_the_cluster(runtimes))
    return tuple(_equipped(runtime, stack) for runtime in runtimes)


def adapt(runtime: Runtime, stack: StackSettings, images: Images) -> Runtime | None:
    """One runtime of the catalog as this stack installs it; None if it leaves it out.

    Args:
        runtime: As its file has it.
        stack: The stack's settings.
        images: The catalog's, and where the stack gets them.

    Raises:
        PlatformError: If it does not fit the stack.
    """
    change = stack.runtimes.get(runtime.name)
    if not files.installed(runtime.manifest, change):
        return None
    runtimes = [files.adapt(runtime, change or RuntimeOverlay(), images)]
    if not stack.data_cache.enabled:
        runtimes, _ = equipment.without_cache(runtimes)
    if stack.cluster.assigns_users:
        runtimes = list(users.left_to_the_cluster(runtimes))
    return _equipped(runtimes[0], stack) if runtimes else None


def _equipped(runtime: Runtime, stack: StackSettings) -> Runtime:
    stored = equipment.stored(equipment.cached(runtime, stack.data_cache), stack.storage)
    return equipment.equipped(stored, stack.accelerators)
