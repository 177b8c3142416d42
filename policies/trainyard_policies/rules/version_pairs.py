"""Versions of installed components work together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.compatibility import Table
from trainyard_api.errors import FieldPath, InvalidFieldError

from .. import images
from ..manifest import Manifest
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule, unreadable
from ..subject import Subject

_REPOSITORIES: Final = {
    "jobset/jobset": "jobset",
    "kueue/kueue": "kueue",
    "scheduler-plugins/controller": names.SCHEDULER_PLUGINS,
    "scheduler-plugins/kube-scheduler": names.SCHEDULER_PLUGINS,
    "volcanosh/vc-controller-manager": "volcano",
    "volcanosh/vc-scheduler": "volcano",
    "volcanosh/vc-webhook-manager": "volcano",
}
"""The last two parts of an image's repository, and the part of the platform that it belongs to."""
_CONTAINERS: Final = FieldPath("spec.template.spec.containers")
_TRAINER_VERSION: Final = FieldPath("data").key(names.TRAINER_PUBLIC_VERSION)

_Use = tuple[str, str, Manifest, FieldPath]
"""A part, its version, and where that is set."""


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """Every two versions that the manifests have are not known to fail together."""
    uses: list[_Use] = []
    for manifest in manifests:
        try:
            uses += _uses(manifest)
        except InvalidFieldError as error:
            yield from unreadable(manifest, error)
    for first, second in combinations(uses, 2):
        for problem in Table.read().problems(dict([first[:2], second[:2]])):
            _, _, manifest, path = second
            yield manifest, Finding(path, f"must be a version that works with the others: {problem}")


def _uses(manifest: Manifest) -> Iterator[_Use]:
    if manifest.kind == "ConfigMap" and manifest.name == names.TRAINER_PUBLIC_CONFIG:
        data = json_reader.mapping(manifest.value.get("data"), FieldPath("data"))
        if version := data.get(names.TRAINER_PUBLIC_VERSION):
            yield "trainer", str(version), manifest, _TRAINER_VERSION
    if manifest.kind != "Deployment":
        return
    pod, _ = json_reader.below(manifest.value, FieldPath(), "spec", "template", "spec")
    for position, container in enumerate(json_reader.named_objects(pod.get("containers"), _CONTAINERS)):
        image = images.parse(str(container.get("image", "")))
        part = _REPOSITORIES.get("/".join(image.repository.split("/")[-2:]))
        if part is not None and image.tag is not None:
            yield part, image.tag, manifest, _CONTAINERS.index(position).child("image")


RULE = StackRule(
    id="version-pairs",
    title="Versions of installed components work together",
    why="Kueue writes into TrainJobs by the API of one Trainer version: with another, jobs are "
    "admitted and stay suspended, and nothing says why.",
    remedy=(
        "Use versions that docs/compatibility.md lists together. Preview refuses versions that the platform "
        "itself installs before any rule runs."
    ),
    severity=Severity.HIGH,
    levels={Subject.STACK: Level.MANDATORY},
    check=check,
)
