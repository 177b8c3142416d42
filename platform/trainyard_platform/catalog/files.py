"""The catalog: `runtimes/<framework>/<name>.yaml`, read, checked and adapted to a stack.

Files are data: nothing here builds a runtime. What is wrong with one is
`judge`'s to say; here it is refused with `file:line`, or gets what the stack
changes. Registering them with Pulumi is `parts.catalog`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from trainyard_api import names, places
from trainyard_api.json_types import copied
from trainyard_api.similar import hint

from .. import yamlfile
from ..errors import PlatformError
from ..stack.runtimes import RuntimeOverlay
from ..stack.settings import CONFIG_KEY
from . import images as catalog_images
from . import in_pods, judge
from . import overlay as overlays
from .images import Images

AS_WRITTEN: Final = Images()
"""Images as the files name them."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A ClusterTrainingRuntime as the stack installs it."""

    name: str
    framework: str
    manifest: dict[str, Any]


def load(
    folder: Path,
    changes: Mapping[str, RuntimeOverlay],
    registry: Callable[[str], str] = str,
    *,
    beneath: Path | None = None,
) -> tuple[Runtime, ...]:
    """Every runtime of the catalog that the stack installs, sorted by name, with the stack's changes.

    Args:
        folder: The catalog.
        changes: What the stack changes, by name of the runtime.
        registry: Where the stack takes an image from (`Artifacts.registry`).
        beneath: The catalog that this one comes on top of (`places.catalog`).
    """
    runtimes = read_all(folder, beneath)
    for name in changes:
        if name not in runtimes:
            raise PlatformError(
                f"{CONFIG_KEY}.runtimes.{name}: the catalog has no such runtime "
                f"(it has: {', '.join(sorted(runtimes))}){hint(name, runtimes)}"
            )
    images = Images(catalog_images.load(folder, beneath), registry)
    stack_changes = {name: changes.get(name, RuntimeOverlay()) for name in sorted(runtimes)}
    return tuple(
        adapt(runtimes[name], change, images)
        for name, change in stack_changes.items()
        if installed(runtimes[name].manifest, change)
    )


def every(folder: Path, beneath: Path | None = None) -> tuple[Runtime, ...]:
    """Every runtime of the catalog, optional ones too, sorted by name, as its file has it."""
    images = Images(catalog_images.load(folder, beneath))
    runtimes = sorted(read_all(folder, beneath).items())
    return tuple(adapt(runtime, RuntimeOverlay(), images) for _, runtime in runtimes)


def installed(manifest: Mapping[str, Any], change: RuntimeOverlay | None) -> bool:
    """Whether a stack with this change installs the runtime; an optional one only if it says so."""
    if change is not None and change.enabled is not None:
        return change.enabled
    annotations = manifest["metadata"].get("annotations")
    return not (isinstance(annotations, Mapping) and annotations.get(names.OPTIONAL_ANNOTATION) == "true")


def read_all(folder: Path, beneath: Path | None = None) -> dict[str, Runtime]:
    """Every runtime of the catalog by name, as its file has it; arguments as `places.catalog` has them."""
    files = places.catalog(folder, beneath)
    if not files:
        raise PlatformError(f"{places.shown(folder)}: the catalog holds no <framework>/<name>.yaml")
    runtimes: dict[str, Runtime] = {}
    first: dict[str, Path] = {}
    for path in files:
        namesake = first.setdefault(path.stem, path)
        runtimes[path.stem] = read(path, "" if namesake == path else places.shown(namesake))
    return runtimes


def read(path: Path, namesake: str = "") -> Runtime:
    """Read one file of the catalog; raises `PlatformError` for the first thing that is wrong with it.

    Args:
        path: Where it is, `<framework>/<name>.yaml` in the catalog.
        namesake: Another file of the catalog that has its name; empty: none has.
    """
    text = yamlfile.text(path)
    try:
        runtime = _remembered(Path(*path.parts[-2:]), text, namesake)
    except PlatformError:
        runtime = _read(path, text, namesake)  # whose error says where the catalog is
    return replace(runtime, manifest=copied(runtime.manifest))


@lru_cache(maxsize=256)
def _remembered(place: Path, text: str, namesake: str) -> Runtime:
    """What `read` answers for a text at a place of any catalog.

    Each stack that a process looks at reads the same catalog, and a comparison reads that of another
    revision, where few files differ.
    """
    return _read(place, text, namesake)


def _read(path: Path, text: str, namesake: str) -> Runtime:
    file = yamlfile.parse(text, path)
    for finding in judge.findings(path, file.value, namesake):
        raise file.error(f"{finding.path}: {finding.message}", finding.path.steps)
    return Runtime(name=path.stem, framework=path.parent.name, manifest=file.value)


def adapt(runtime: Runtime, overlay: RuntimeOverlay, images: Images = AS_WRITTEN) -> Runtime:
    """The runtime with its images resolved, a stack's changes, and what Trainyard puts into its pods."""
    manifest = copied(runtime.manifest)
    catalog_images.apply(manifest, images)
    manifest = overlays.apply(manifest, overlay)
    in_pods.add(manifest)  # last: its folder belongs into a path that the stack sets
    return Runtime(name=runtime.name, framework=runtime.framework, manifest=manifest)
