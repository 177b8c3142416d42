"""Images come from registries that the stack allows."""

from __future__ import annotations

from collections.abc import Iterator

from .. import images
from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each image lies in one of the registries, or is one of those with a digest; none is hidden."""
    for container in workload.containers():
        for path in container.hidden_cache_images():
            yield Finding(path, "must be written out: what it refers to is known only in the pod")
    pinned = {images.parse(source).repository for source in parameters.registries if "@" in source}
    for text, path in workload.images():
        image = images.parse(text)
        if not any(images.allows(source, image) for source in parameters.registries):
            used = text if image.repository in pinned else image.repository
            message = f"must come from an allowed registry ({_allowed(parameters)}), is {used}"
            yield Finding(path, message, against="registries")


def _allowed(parameters: Parameters) -> str:
    """The registries; of images with a digest the number: a few of them would fill the message."""
    registries = [source for source in parameters.registries if "@" not in source]
    if pinned := len(parameters.registries) - len(registries):
        by_digest = "1 image by its digest" if pinned == 1 else f"{pinned} images by their digests"
        registries.append(f"and {by_digest}" if registries else by_digest)
    return ", ".join(registries) or "none"


RULE = Rule(
    id="image-registry",
    title="Images come from allowed registries",
    why="An image runs with the data and the credentials of the job that names it. A job loads and executes "
    "files of an image that it mounts.",
    remedy="Use an image of an allowed registry, or ask your platform team to allow this one "
    "(policies.parameters.registries in the stack file).",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("registries",),
    check=check,
)
