"""The catalog: `runtimes/<framework>/<name>.yaml`, read, checked and adapted to a stack.

Files are data: nothing here builds a runtime, it only refuses wrong ones with
`file:line` and applies what the stack changes. Registering them with Pulumi is
`parts.catalog`.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard_api import names
from trainyard_api.closed import nearest
from trainyard_policies.shapes import check as shapes

from .. import yamlfile
from ..errors import PlatformError
from ..settings import CONFIG_KEY
from ..yamlfile import YamlFile
from . import images as catalog_images
from . import in_pods
from . import overlay as overlays
from .images import Images
from .overlay import RuntimeOverlay

AS_WRITTEN: Final = Images()
"""Images as the files name them."""

_JOBS = ("spec", "template", "spec", "replicatedJobs")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A ClusterTrainingRuntime as the stack installs it."""

    name: str
    framework: str
    manifest: dict[str, Any]


def load(
    folder: Path, changes: Mapping[str, RuntimeOverlay], registry: Callable[[str], str] = str
) -> tuple[Runtime, ...]:
    """Every runtime of the catalog that the stack installs, sorted by name, with the stack's changes.

    Args:
        folder: The catalog.
        changes: What the stack changes, by name of the runtime.
        registry: Where the stack takes an image from (`Artifacts.registry`).
    """
    runtimes = read_all(folder)
    for name in changes:
        if name not in runtimes:
            raise PlatformError(
                f"{CONFIG_KEY}.runtimes.{name}: the catalog has no such runtime "
                f"(it has: {', '.join(sorted(runtimes))}){nearest(name, list(runtimes))}"
            )
    images = Images(catalog_images.load(folder), registry)
    wanted = {name: changes.get(name, RuntimeOverlay()) for name in sorted(runtimes)}
    return tuple(
        adapt(runtimes[name], change, images)
        for name, change in wanted.items()
        if installed(runtimes[name].manifest, change)
    )


def every(folder: Path) -> tuple[Runtime, ...]:
    """Every runtime of the catalog, optional ones too, sorted by name, as its file has it."""
    images = Images(catalog_images.load(folder))
    return tuple(adapt(one, RuntimeOverlay(), images) for _, one in sorted(read_all(folder).items()))


def installed(manifest: Mapping[str, Any], change: RuntimeOverlay | None) -> bool:
    """Whether a stack with this change installs the runtime; an optional one only if it says so."""
    if change is not None and change.enabled is not None:
        return change.enabled
    annotations = manifest["metadata"].get("annotations")
    return not (isinstance(annotations, Mapping) and annotations.get(names.OPTIONAL_ANNOTATION) == "true")


def read_all(folder: Path) -> dict[str, Runtime]:
    """Every runtime of the catalog by name, as its file has it."""
    files = sorted(folder.glob("*/*.yaml"))
    if not files:
        raise PlatformError(f"{yamlfile.display(folder)}: the catalog holds no <framework>/<name>.yaml")
    runtimes: dict[str, Runtime] = {}
    paths: dict[str, Path] = {}
    for path in files:
        runtime = read(path)
        if runtime.name in runtimes:
            raise PlatformError(
                f"{yamlfile.display(path)}: the runtime {runtime.name!r} is already in "
                f"{yamlfile.display(paths[runtime.name])}: names are unique in a cluster"
            )
        runtimes[runtime.name] = runtime
        paths[runtime.name] = path
    return runtimes


def read(path: Path) -> Runtime:
    """Read and check one file of the catalog."""
    file = yamlfile.load(path)
    manifest = file.value
    framework, name = path.parent.name, path.stem
    for field, expected in (
        ("apiVersion", names.TRAINER_API_VERSION),
        ("kind", names.CLUSTER_TRAINING_RUNTIME),
    ):
        if manifest.get(field) != expected:
            raise file.error(f"{field} must be {expected}, is {manifest.get(field)!r}", [field])
    for field in manifest:
        if field not in ("apiVersion", "kind", "metadata", "spec"):
            raise file.error(f"{field!r} is no field of a {names.CLUSTER_TRAINING_RUNTIME}", [field])
    metadata = _mapping(file, ["metadata"])
    if metadata.get("name") != name:
        raise file.error(
            f"metadata.name must be the file's name, {name!r}, is {metadata.get('name')!r}",
            ["metadata", "name"],
        )
    if "namespace" in metadata:
        raise file.error(
            f"a {names.CLUSTER_TRAINING_RUNTIME} has no namespace: remove the field",
            ["metadata", "namespace"],
        )
    labels = _mapping(file, ["metadata", "labels"])
    if labels.get(names.FRAMEWORK_LABEL) != framework:
        raise file.error(
            f"the label {names.FRAMEWORK_LABEL} must be the folder's name, {framework!r}, "
            f"is {labels.get(names.FRAMEWORK_LABEL)!r}",
            ["metadata", "labels", names.FRAMEWORK_LABEL],
        )
    asked = in_pods.asked(manifest)
    if asked not in (None, in_pods.PYTHON):
        raise file.error(
            f"the annotation {names.LAST_WORDS_ANNOTATION} must be {in_pods.PYTHON!r}, is {asked!r}",
            ["metadata", "annotations", names.LAST_WORDS_ANNOTATION],
        )
    _mapping(file, ["spec", "mlPolicy"])
    _check_jobs(file)
    for finding in shapes.check(manifest):
        raise file.error(f"{finding.path}: {finding.message}", finding.path.steps)
    return Runtime(name=name, framework=framework, manifest=manifest)


def adapt(runtime: Runtime, overlay: RuntimeOverlay, images: Images = AS_WRITTEN) -> Runtime:
    """The runtime with its images resolved, what Trainyard puts into its pods, and a stack's changes."""
    manifest = copy.deepcopy(runtime.manifest)
    catalog_images.apply(manifest, images)
    in_pods.add(manifest)
    return Runtime(name=runtime.name, framework=runtime.framework, manifest=overlays.apply(manifest, overlay))


def _check_jobs(file: YamlFile) -> None:
    jobs = _at(file, _JOBS)
    if not isinstance(jobs, list) or not jobs:
        raise file.error(f"{'.'.join(_JOBS)} must be a list with at least one job", _JOBS)
    for index, job in enumerate(jobs):
        containers = _at(file, (*_JOBS, index, "template", "spec", "template", "spec", "containers"))
        if not isinstance(containers, list) or not all(isinstance(one, dict) for one in containers):
            raise file.error(
                f"{'.'.join(_JOBS)}[{index}] has no pod template with containers", (*_JOBS, index)
            )
        if not isinstance(job.get("name"), str):
            raise file.error(f"{'.'.join(_JOBS)}[{index}] has no name", (*_JOBS, index))
    trainers = [job["name"] for job in jobs if overlays.step(job) == names.ANCESTOR_TRAINER]
    if len(trainers) != 1:
        raise file.error(
            "exactly one replicated job's template must carry the label "
            f"{names.ANCESTOR_LABEL}: {names.ANCESTOR_TRAINER}; here: {', '.join(trainers) or 'none'}",
            _JOBS,
        )


def _at(file: YamlFile, field: tuple[str | int, ...]) -> object:
    value: Any = file.value
    for step in field:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _mapping(file: YamlFile, field: list[str]) -> dict[str, Any]:
    value = _at(file, tuple(field))
    if not isinstance(value, dict):
        raise file.error(f"{'.'.join(field)} must be a mapping", field)
    return value
