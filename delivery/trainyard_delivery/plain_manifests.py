"""A stack as plain manifests in waves, from the state that Pulumi keeps of it: pure.

Called by `trainyard manifests`, which has Pulumi's provider write files instead
of calling a cluster. The state knows what depends on what; an object's wave is
one more than the latest of those it waits for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from trainyard_api.json_types import Json
from trainyard_api.pools import NODE_GROUPS
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import CONFIG_KEY, StackSettings

from . import pulumi_state

WAVE: Final = "argocd.argoproj.io/sync-wave"
_FOR_PULUMI: Final = ("pulumi.com/", "config.kubernetes.io/depends-on")
"""Prefixes of annotations that only Pulumi reads: to wait, to force, to order."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A manifest, and when it is applied: after all of the waves before it."""

    wave: int
    manifest: Json

    @property
    def file(self) -> str:
        """Its file's name, below its wave's folder."""
        # No namespace has an underscore, so that no two of them and their names make the same file.
        name = f"{self.manifest['kind']}-{self._place.replace('/', '_').replace(':', '+')}"
        return f"wave-{self.wave:02}/{name.lower()}.yaml"

    def __str__(self) -> str:
        return f"{self.manifest['apiVersion']} {self.manifest['kind']} {self._place}"

    @property
    def _place(self) -> str:
        metadata = self.manifest["metadata"]
        return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def check(stack: StackSettings) -> None:
    """Raises `PlatformError` if a stack is more than manifests: rendering it would create the rest."""
    for name, pool in stack.node_pools.items():
        if pool.provider in NODE_GROUPS:
            raise PlatformError(
                f"{CONFIG_KEY}.nodePools.{name}.provider: {pool.provider} makes node groups in the cloud, "
                "which are not manifests; create them without this stack, and use `existing` or `karpenter`"
            )


def waves(state: Json) -> list[Placed]:
    """The objects in an export of a stack, in the order in which they are applied.

    Raises `PlatformError` if a Secret among them is not empty, or if two would be one file.
    """
    level = _Levels({resource["urn"]: resource for resource in pulumi_state.resources(state)})
    objects = list(pulumi_state.objects(state))
    # A component's own level is not a wave: the levels in use become 0, 1, 2 and so on.
    levels = sorted({level.of(resource["urn"]) for resource in objects})
    waves_of_levels = {number: wave for wave, number in enumerate(levels)}
    manifests = [
        _placed(pulumi_state.inputs(resource), waves_of_levels[level.of(resource["urn"])])
        for resource in objects
    ]
    if full := [
        placed.manifest["metadata"]["name"] for placed in manifests if _holds_a_secret(placed.manifest)
    ]:
        raise PlatformError(
            f"Secret {', '.join(sorted(full))}: plain manifests are kept in git, and a secret must not be; "
            "have it created in the cluster"
        )
    files: dict[str, Placed] = {}
    for placed in manifests:
        if (other := files.setdefault(placed.file, placed)) is not placed:
            raise PlatformError(f"{other} and {placed}: both would be {placed.file}; give one another name")
    return sorted(manifests, key=lambda placed: (placed.wave, placed.file))


class _Levels:
    """How many steps a resource is from the first ones."""

    def __init__(self, resources: Mapping[str, Json]) -> None:
        self._resources = resources
        self._children: dict[str, list[str]] = {}
        for urn, resource in resources.items():
            self._children.setdefault(resource.get("parent", ""), []).append(urn)
        self.of = cache(self._of)

    def _of(self, urn: str) -> int:
        before = [self.of(other) for other in self._before(urn)]
        return 1 + max(before, default=-1)

    def _before(self, urn: str) -> set[str]:
        """Dependencies of the resource and of the components that contain it."""
        dependencies: set[str] = set()
        ancestor = urn
        lineage = set()
        while ancestor in self._resources:
            lineage.add(ancestor)
            for dependency in self._resources[ancestor].get("dependencies") or ():
                dependencies |= set(self._parts(dependency))
            ancestor = self._resources[ancestor].get("parent", "")
        return dependencies - lineage

    def _parts(self, urn: str) -> Iterator[str]:
        """The resource, or all parts of a component."""
        if urn not in self._resources:
            return
        if self._resources[urn].get("custom"):
            yield urn
        for child in self._children.get(urn, ()):
            yield from self._parts(child)


def _placed(inputs: Json, wave: int) -> Placed:
    metadata = {key: value for key, value in inputs["metadata"].items() if key != "annotations"}
    annotations = {
        key: value
        for key, value in (inputs["metadata"].get("annotations") or {}).items()
        if not key.startswith(_FOR_PULUMI)
    }
    metadata["annotations"] = {**annotations, WAVE: str(wave)}
    return Placed(wave, {**inputs, "metadata": metadata})


def _holds_a_secret(manifest: Json) -> bool:
    parts = (manifest.get("data") or {}, manifest.get("stringData") or {})
    return manifest["kind"] == "Secret" and any(value for part in parts for value in part.values())
