"""The catalog's runtimes as one stack has them."""

from collections.abc import Callable, Iterable
from pathlib import Path

from ..stack.runtimes import RuntimeOverlay
from ..stack.settings import StackSettings
from . import equipment, files, users
from .files import Runtime
from .images import Images

Log = Callable[[str], object]


def load(
    folder: Path,
    stack: StackSettings,
    registry: Callable[[str], str],
    log: Log = lambda _: None,
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
    return _fitted(files.load(folder, stack.runtimes, registry, beneath=beneath), stack, log)


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
    fitted = _fitted([files.adapt(runtime, change or RuntimeOverlay(), images)], stack)
    return fitted[0] if fitted else None


def _fitted(
    runtimes: Iterable[Runtime], stack: StackSettings, log: Log = lambda _: None
) -> tuple[Runtime, ...]:
    """The runtimes that this stack can have, with what it has for them."""
    kept: list[Runtime] = []
    for runtime in runtimes:
        if equipment.starts_cache(runtime) and not stack.data_cache.enabled:
            log(f"the runtime {runtime.name} starts a data cache and is left out: dataCache.enabled is false")
        else:
            kept.append(runtime)
    if stack.cluster.assigns_users:
        kept = list(users.left_to_the_cluster(kept))
    return tuple(_equipped(runtime, stack) for runtime in kept)


def _equipped(runtime: Runtime, stack: StackSettings) -> Runtime:
    stored = equipment.stored(equipment.cached(runtime, stack.data_cache), stack.storage)
    return equipment.equipped(stored, stack.accelerators)
