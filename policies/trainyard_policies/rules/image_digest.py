"""Images are named by their digest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .. import images
from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each image has a digest."""
    for image, path in workload.images():
        digest = images.parse(image).digest
        if digest is None:
            yield Finding(path, f"should be named by its digest, is {image}")
        elif not _DIGEST.fullmatch(digest):
            yield Finding(path, f"has an invalid digest: {digest!r}")


RULE = Rule(
    id="image-digest",
    title="Images are named by their digest",
    why=(
        "A tag can move to another image, a digest cannot. By default this is advice, because only the "
        "registry knows the digest."
    ),
    remedy="Append the digest that your registry shows for the tag: image:tag@sha256:...",
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.ADVISORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=check,
)
