"""Images have a version."""

from __future__ import annotations

from collections.abc import Iterator

from .. import images
from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each image has a digest, or a tag that is not `latest`."""
    for reference, path in workload.images():
        image = images.parse(reference)
        if image.digest is None and image.tag is None:
            yield Finding(path, f"must have a tag or a digest: {reference!r} means the tag latest")
        elif image.digest is None and image.tag == "latest":
            yield Finding(path, "must not have the tag latest, which changes over time")


RULE = Rule(
    id="image-tag",
    title="Images have a version",
    why="The image behind `latest` changes without review, and nodes of one job may run different versions.",
    remedy="Use the tag of a version, or better a digest.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=check,
)
