"""Effects of a change of a stack other than on TrainJobs: rights that change, and objects that stay.

Called by `impact`, `report` and the preview of `rollout`, with an object that
the stack asks for differently than before. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.shown import listed
from trainyard_platform.parts.operator.manifests import MPI
from trainyard_platform.parts.tenants import manifests as tenants
from trainyard_platform.stack.operator import EVERYWHERE

from .impact import NAMESPACE, ROLE_BINDING, Change, Verb

_RIGHTS: Final = {
    tenants.DATA_SCIENTIST: "send, change, delete and see TrainJobs in {namespace}, and read their logs",
    tenants.VIEWER: "see TrainJobs in {namespace}, and read their logs",
    tenants.FURTHER_RIGHTS: "do in {namespace} what the tenant's rights allow in addition to TrainJobs",
}
"""By the role that a binding gives."""
_IMMUTABLE: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "LocalQueue": (("clusterQueue",), "Give the queue another name, or delete it when no job needs it"),
    "ResourceFlavor": (
        ("nodeLabels", "tolerations", "topologyName"),
        "Give the pool or the flavor another name",
    ),
    "Topology": (("levels",), "Give the pool or the topology another name"),
}
"""By kind: its immutable fields (Kueue's CRDs, v1beta2), and the way out where one is to change."""
_BY: Final = {"nodeLabels": " with a topology", "tolerations": " with a topology"}
_MOST: Final = 3


def of(change: Change) -> tuple[str, ...]:
    """Effects of the change, a sentence each; empty for most objects."""
    if refusal := _refusal(change):
        return (refusal,)
    if change.ref.kind == NAMESPACE and change.verb is Verb.LEFT and _is_tenants(change.before):
        return ("its TrainJobs, volume claims and Secrets stay in it: a tenant with another name gets none",)
    if change.ref.kind != ROLE_BINDING:
        return ()
    if change.ref.name == MPI:
        return tuple(_of_mpi(change))
    return tuple(_of_people(change))


def _refusal(change: Change) -> str:
    """Kueue's refusal of a change that it allows to nobody; empty if it allows it."""
    kind = change.ref.kind
    if change.verb is not Verb.CHANGED or kind not in _IMMUTABLE:
        return ""
    before, after = (part.get("spec", {}) for part in (change.before, change.after))
    if kind == "ResourceFlavor" and not before.get("topologyName"):
        return ""
    fields, instead = _IMMUTABLE[kind]
    field = next((field for field in fields if before.get(field) != after.get(field)), None)
    if field is None:
        return ""
    return f"Kueue refuses this: nobody can change spec.{field} of a {kind}{_BY.get(field, '')}. {instead}"


def _of_mpi(change: Change) -> Iterator[str]:
    if change.verb is Verb.REMOVED:
        namespace = change.ref.namespace
        place = "namespaces that neither tenants nor operator.mpiNamespaces name"
        yield (
            f"MPI jobs can no longer start in {place if namespace == EVERYWHERE else namespace} (Blocked, "
            "Forbidden): the operator may not create their keys there; operator.mpiNamespaces allows it"
        )


def _of_people(change: Change) -> Iterator[str]:
    permissions = _RIGHTS.get((change.after or change.before).get("roleRef", {}).get("name", ""))
    if permissions is None:
        return
    before, after = _people(change.before), _people(change.after)
    for verb, people in (
        ("can no longer", [subject for subject in before if subject not in after]),
        ("can now", [subject for subject in after if subject not in before]),
    ):
        if people:
            yield f"{listed(people, _MOST)} {verb} {permissions.format(namespace=change.ref.namespace)}"


def _people(binding: Json) -> list[str]:
    return [_subject(subject) for subject in binding.get("subjects") or ()]


def _subject(subject: Json) -> str:
    place = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject.get('kind')} {place}{subject.get('name')}"


def _is_tenants(namespace: Json) -> bool:
    return names.TENANT_LABEL in (namespace.get("metadata", {}).get("labels") or {})
