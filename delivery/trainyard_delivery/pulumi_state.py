"""Reads a stack's state in Pulumi, as `pulumi stack export` prints it: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trainyard_api import names
from trainyard_api.json_types import Json, JsonValue
from trainyard_platform.stack.settings import CLUSTER, IDENTITY

_PREFIX: Final = "kubernetes:"
_PULUMIS_OWN: Final = "__"
_PROVIDER: Final = "pulumi:providers:kubernetes"
_STACK: Final = "pulumi:pulumi:Stack"


@dataclass(frozen=True, slots=True)
class Provider:
    """How a stack was connected to its cluster when it was rolled out last; None where nobody said it."""

    urn: str
    kubeconfig: str | None
    context: str | None


class Identity(NamedTuple):
    """Which cluster it is, whatever a kubeconfig calls it."""

    uid: str
    """Of the namespace kube-system: no two clusters have the same."""
    server: str
    """The address by which it was reached, for messages."""


def resources(state: Json) -> Sequence[Json]:
    """All resources, in the order of the state; a stack that was never rolled out may have no deployment."""
    deployment: Json = state.get("deployment") or {}
    every: Sequence[Json] = deployment.get("resources") or []
    return every


def objects(state: Json) -> Iterator[Json]:
    """The resources that are objects of a cluster, in the order of the state."""
    return (resource for resource in resources(state) if _is_object(resource))


def inputs(resource: Json) -> dict[str, JsonValue]:
    """The inputs of a resource, for an object its manifest, without those that Pulumi adds for itself."""
    given = resource.get("inputs") or {}
    return {key: value for key, value in given.items() if not key.startswith(_PULUMIS_OWN)}


def stack_of(manifest: Json) -> str:
    """The stack whose platform an object is part of; empty if it does not say so, as most do not."""
    metadata = manifest.get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(names.STACK_ANNOTATION, ""))


def components(state: Json) -> frozenset[str]:
    """URNs of the resources that only contain others."""
    return frozenset(resource["urn"] for resource in resources(state) if not resource.get("custom"))


def deleted_with(state: Json) -> Mapping[str, str]:
    """By URN, the resource whose deletion deletes it, such as a namespace."""
    return {
        resource["urn"]: resource["deletedWith"]
        for resource in resources(state)
        if resource.get("deletedWith")
    }


def provider(state: Json) -> Provider | None:
    """The provider of the stack's cluster; None before the first roll-out."""
    for resource in resources(state):
        urn = str(resource["urn"])
        if resource["type"] == _PROVIDER and urn.endswith(f"::{CLUSTER}"):
            given = resource.get("inputs") or {}
            return Provider(urn, given.get("kubeconfig") or None, given.get("context") or None)
    return None


def identity(state: Json) -> Identity | None:
    """The cluster of the last roll-out; None if that could not see it, or was of an earlier version."""
    for resource in resources(state):
        if resource["type"] == _STACK:
            output = (resource.get("outputs") or {}).get(IDENTITY)
            return Identity(output["uid"], output["server"]) if output else None
    return None


def _is_object(resource: Json) -> bool:
    return (
        bool(resource.get("custom"))
        and str(resource["type"]).startswith(_PREFIX)
        and "kind" in (resource.get("inputs") or {})
    )
