"""Images say which version they are."""

from __future__ import annotations

from collections.abc import Iterator

from .. import images
from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each image has a digest, or a tag that is not `latest`."""
    for container in workload.containers():
        if container.image is None:
            continue
        image = images.parse(container.image)
        path = container.path.child("image")
        if image.digest is None and image.tag is None:
            yield Finding(path, f"must have a tag or a digest: {container.image!r} is whatever is latest")
        elif image.digest is None and image.tag == "latest":
            yield Finding(path, "must not have the tag latest, which is another image tomorrow")


RULE = Rule(
    id="image-tag",
    title="Images say which version they are",
    why="What `latest` is changes without anybody's review, and two nodes of one job may run two versions.",
    remedy="Name a version's tag, better its digest.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=check,
)
