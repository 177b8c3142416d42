"""Effects of a change of a stack other than on TrainJobs: rights that change, and objects that stay.

Called by `impact`, `report` and the preview of `rollout`, with an object that
the stack asks for differently than before. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
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
_INSTEAD: Final = {
    "LocalQueue": "Give the queue another name, or delete it when no job needs it",
    "ResourceFlavor": "Give the pool or the flavor another name",
    "Topology": "Give the pool or the topology another name",
}
"""By kind: the way out, where an immutable field of it is to change (Kueue's CRDs, v1beta2)."""
_BY: Final = {"nodeLabels": " with a topology", "tolerations": " with a topology"}
_MOST: Final = 3


def of(change: Change) -> tuple[str, ...]:
    """Effects of the change, a sentence each; empty for most objects."""
    if (field := _immutable(change)) is not None:
        return (f"Kueue refuses this: nobody can change {field}. {_INSTEAD[change.ref.kind]}",)
    if change.ref.kind == NAMESPACE and change.verb is Verb.LEFT and _is_tenants(change.before):
        return ("its TrainJobs, volume claims and Secrets stay in it: a tenant with another name gets none",)
    if change.ref.kind != ROLE_BINDING:
        return ()
    if change.ref.name == MPI:
        return tuple(_of_mpi(change))
    return tuple(_of_people(change))


def _immutable(change: Change) -> str | None:
    """The field of a Kueue object that the change would change, although Kueue allows that to nobody."""
    if change.verb is not Verb.CHANGED or change.ref.kind not in _INSTEAD:
        return None
    before, after = (part.get("spec", {}) for part in (change.before, change.after))
    match change.ref.kind:
        case "LocalQueue":
            fields: tuple[str, ...] = ("clusterQueue",)
        case "Topology":
            fields = ("levels",)
        case _:
            fields = ("nodeLabels", "tolerations", "topologyName") if before.get("topologyName") else ()
    differing = (field for field in fields if before.get(field) != after.get(field))
    return next((f"spec.{field} of a {change.ref.kind}{_BY.get(field, '')}" for field in differing), None)


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
            yield f"{_listed(people)} {verb} {permissions.format(namespace=change.ref.namespace)}"


def _people(binding: Json) -> list[str]:
    return [_subject(subject) for subject in binding.get("subjects") or ()]


def _subject(subject: Json) -> str:
    place = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject.get('kind')} {place}{subject.get('name')}"


def _is_tenants(namespace: Json) -> bool:
    return names.TENANT_LABEL in (namespace.get("metadata", {}).get("labels") or {})


def _listed(people: list[str]) -> str:
    more = len(people) - _MOST
    return ", ".join(people[:_MOST]) + (f" and {more} more" if more > 0 else "")
