"""Referenced queues, flavors and topologies exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json

from ..manifest import Manifest
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule, unreadable
from ..subject import Subject

_SPEC: Final = FieldPath("spec")


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """Each name refers to an object among all manifests, if any of its kind exists."""
    ours = [m for m in manifests if m.api_version.partition("/")[0] == names.KUEUE_GROUP]
    declared: dict[str, set[str]] = {}
    for manifest in ours:
        declared.setdefault(manifest.kind, set()).add(manifest.name)
    for manifest in ours:
        try:
            for kind, name, path in _references(manifest):
                if name is not None and kind in declared and name not in declared[kind]:
                    there = ", ".join(sorted(declared[kind]))
                    message = f"must name a {kind}: there is no {name!r} (there are: {there})"
                    yield manifest, Finding(path, message)
        except InvalidFieldError as error:
            yield from unreadable(manifest, error)


def _references(manifest: Manifest) -> Iterator[tuple[str, str | None, FieldPath]]:
    spec = json_reader.mapping(manifest.value.get("spec"), _SPEC)
    if manifest.kind == "LocalQueue":
        path = _SPEC.child("clusterQueue")
        yield "ClusterQueue", json_reader.text(spec.get("clusterQueue"), path), path
    elif manifest.kind == "ResourceFlavor":
        path = _SPEC.child("topologyName")
        yield "Topology", json_reader.text(spec.get("topologyName"), path), path
    elif manifest.kind == "ClusterQueue":
        yield from _flavors(spec)


def _flavors(spec: Json) -> Iterator[tuple[str, str | None, FieldPath]]:
    above = _SPEC.child("resourceGroups")
    for position, group in enumerate(json_reader.objects(spec.get("resourceGroups"), above)):
        at = above.index(position).child("flavors")
        for index, flavor in enumerate(json_reader.named_objects(group.get("flavors"), at)):
            yield "ResourceFlavor", flavor["name"], at.index(index).child("name")


RULE = StackRule(
    id="queue-references",
    title="Referenced queues, flavors and topologies exist",
    why="Kueue keeps a queue inactive, and every job in it waiting, until the referenced object exists.",
    remedy="Correct the name, or declare the object.",
    severity=Severity.HIGH,
    levels={Subject.STACK: Level.MANDATORY},
    check=check,
)
