"""Objects outside git that grant access to the stack's: reported, never removed.

What counts is what an object reaches, not who created it or its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .selectors import selects
from .settings import Known
from .verdicts import Ref

Json = Mapping[str, Any]

RBAC: Final = "rbac.authorization.k8s.io/v1"
ADMISSION: Final = "admissionregistration.k8s.io/v1"
LISTED: Final = (
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
    (ADMISSION, "MutatingWebhookConfiguration"),
    (ADMISSION, "ValidatingWebhookConfiguration"),
    (ADMISSION, "ValidatingAdmissionPolicy"),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"),
    (ADMISSION, "MutatingAdmissionPolicy"),
    (ADMISSION, "MutatingAdmissionPolicyBinding"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "ServiceAccount"),
)
"""What is checked: apiVersion and kind. A cluster need not have all of them."""
_EVERYBODY: Final = ("system:authenticated", "system:unauthenticated", "system:serviceaccounts")
_ACCOUNTS: Final = "system:serviceaccounts:"
_ACCOUNT: Final = "system:serviceaccount:"
_KUBERNETES: Final[Mapping[str, frozenset[str]]] = {
    "system:basic-user": frozenset({"system:authenticated"}),
    "system:discovery": frozenset({"system:authenticated"}),
    "system:public-info-viewer": frozenset({"system:authenticated", "system:unauthenticated"}),
    "system:service-account-issuer-discovery": frozenset({"system:serviceaccounts"}),
}
"""ClusterRoleBindings of Kubernetes itself to everybody, each to the ClusterRole of its name."""
_AGGREGATED: Final = "rbac.authorization.k8s.io/aggregate-to-"
_TO_ALL: Final = ("admin", "edit", "view")
"""ClusterRoles of Kubernetes itself that collect others by a label."""
_OF_KUBERNETES: Final = ("edit", "view", *(f"system:aggregate-to-{role}" for role in _TO_ALL))
_STRONG: Final = frozenset({"escalate", "bind", "impersonate", "*"})
_DELICATE: Final = frozenset({"secrets", "pods/exec", "*"})
_SAME_IN_EACH: Final = frozenset({"default"})
"""ServiceAccounts that Kubernetes itself creates in each namespace."""


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An object that git does not have, and what it reaches."""

    ref: Ref
    why: str


def unmanaged(git: Sequence[Json], there: Iterable[Json], known: Sequence[Known] = ()) -> list[Unmanaged]:
    """Those that reach into the stack, by kind, namespace and name.

    Args:
        git: What the stack asks for.
        there: What the cluster has of the kinds of `LISTED`.
        known: What is not reported.
    """
    stack = _Stack(git)
    found = [
        Unmanaged(Ref.of(one), why)
        for one in there
        if not stack.has(Ref.of(one)) and not any(_is(each, Ref.of(one)) for each in known)
        for why in stack.reach(one)
    ]
    return sorted(found, key=lambda one: one.ref[1:])


def _is(known: Known, one: Ref) -> bool:
    return (known.kind, known.name) == (one.kind, one.name) and known.namespace in ("", one.namespace)


class _Stack:
    """What the stack has that something can reach."""

    def __init__(self, git: Sequence[Json]) -> None:
        self._refs = frozenset(map(Ref.of, git))
        self._of_the_cluster = {(one.kind, one.name) for one in self._refs}
        self._namespaces = {
            one["metadata"]["name"]: {
                "kubernetes.io/metadata.name": one["metadata"]["name"],
                **(one["metadata"].get("labels") or {}),
            }
            for one in git
            if one["kind"] == "Namespace"
        }
        self._groups = {one["spec"]["group"] for one in git if one["kind"] == "CustomResourceDefinition"}
        self._selectors = [
            (one["metadata"]["name"], selector)
            for one in git
            if one["kind"] == "ClusterRole"
            for selector in (one.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        ]
        self._policies = {
            one["metadata"]["name"] for one in git if str(one["kind"]).endswith("AdmissionPolicy")
        }

    def has(self, one: Ref) -> bool:
        """Whether it belongs to the stack; some charts give cluster-scoped objects a namespace."""
        return one in self._refs or (not one.namespace and (one.kind, one.name) in self._of_the_cluster)

    def reach(self, one: Json) -> Iterator[str]:
        """How an object reaches into the stack, in one sentence; nothing if it does not."""
        kind = one["kind"]
        if kind in ("ClusterRoleBinding", "RoleBinding"):
            yield from self._bound(one)
        elif kind == "ClusterRole":
            yield from self._collected(one)
        elif kind.endswith("WebhookConfiguration"):
            yield from self._sent(one)
        elif kind.endswith("AdmissionPolicyBinding"):
            if one["spec"].get("policyName") in self._policies:
                yield f"binds the stack's policy {one['spec']['policyName']} again"
        elif kind.endswith("AdmissionPolicy"):
            constraints = one["spec"].get("matchConstraints") or {}
            yield from self._judged(kind, constraints.get("resourceRules"), constraints)
        elif one["metadata"].get("namespace") in self._namespaces and not _is_made_by_kubernetes(one):
            yield f"is in {one['metadata']['namespace']}, which belongs to the stack"

    def _bound(self, one: Json) -> Iterator[str]:
        role, namespace = one["roleRef"], one["metadata"].get("namespace") or ""
        name = one["metadata"]["name"]
        is_kubernetes = not namespace and role["name"] == name
        expected = _KUBERNETES.get(name, frozenset()) if is_kubernetes else frozenset()
        subjects = [
            subject
            for subject in one.get("subjects") or ()
            if not (subject["kind"] == "Group" and subject["name"] in expected)
        ]
        of_the_stack = Ref(RBAC, role["kind"], namespace if role["kind"] == "Role" else "", role["name"])
        if namespace not in self._namespaces and not self.has(of_the_stack):
            subjects = [subject for subject in subjects if self._is_ours(subject, namespace)]
        if subjects:
            where = f" in {namespace}" if namespace else ""
            to = ", ".join(_subject(subject, namespace) for subject in subjects)
            yield f"gives {role['kind']} {role['name']}{where} to {to}"

    def _is_ours(self, subject: Json, namespace: str) -> bool:
        name = subject["name"]
        if subject["kind"] == "ServiceAccount":
            return (subject.get("namespace") or namespace) in self._namespaces
        if subject["kind"] == "Group":
            of_a_namespace = name.startswith(_ACCOUNTS) and name.removeprefix(_ACCOUNTS) in self._namespaces
            return name in _EVERYBODY or of_a_namespace
        return name.startswith(_ACCOUNT) and name.split(":")[2] in self._namespaces

    def _collected(self, one: Json) -> Iterator[str]:
        labels = one["metadata"].get("labels") or {}
        into = []
        if one["metadata"]["name"] not in _OF_KUBERNETES and any(
            map(self._is_delicate, one.get("rules") or ())
        ):
            into = [role for role in _TO_ALL if labels.get(f"{_AGGREGATED}{role}") == "true"]
        into += [name for name, selector in self._selectors if selects(selector, labels)]
        if into:
            yield f"its rules are aggregated into ClusterRole {', '.join(into)}"

    def _is_delicate(self, rule: Json) -> bool:
        groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
        verbs = set(rule.get("verbs") or ())
        core = bool(groups & {"", "*"}) and bool(resources & _DELICATE)
        return core or bool(groups & {*self._groups, "*"}) or bool(verbs & _STRONG)

    def _sent(self, one: Json) -> Iterator[str]:
        reached = {
            namespace
            for webhook in one.get("webhooks") or ()
            if self._matches(webhook.get("rules"))
            for namespace in self._selected(webhook.get("namespaceSelector"))
        }
        yield from _sentence(one["kind"], reached)

    def _judged(self, kind: str, rules: Iterable[Json] | None, constraints: Json) -> Iterator[str]:
        if self._matches(rules):
            yield from _sentence(kind, self._selected(constraints.get("namespaceSelector")))

    def _matches(self, rules: Iterable[Json] | None) -> bool:
        return any(self._is_about_us(rule) for rule in rules or ())

    def _is_about_us(self, rule: Json) -> bool:
        groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
        plurals = {resource.split("/")[0] for resource in resources}
        pods = bool(groups & {"", "*"}) and bool(plurals & {"pods", "*"})
        jobs = bool(groups & {"batch", "*"}) and bool(plurals & {"jobs", "*"})
        return pods or jobs or bool(groups & self._groups)

    def _selected(self, selector: Json | None) -> set[str]:
        return {name for name, labels in self._namespaces.items() if selects(selector, labels)}


def _sentence(kind: str, namespaces: set[str]) -> Iterator[str]:
    if namespaces:
        what = "change" if kind.startswith("Mutating") else "refuse"
        first, *others = sorted(namespaces)
        more = f" and {len(others)} more namespaces" if others else ""
        yield f"may {what} objects in {first}{more}"


def _is_made_by_kubernetes(one: Json) -> bool:
    return one["kind"] == "ServiceAccount" and one["metadata"]["name"] in _SAME_IN_EACH


def _subject(subject: Json, namespace: str) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"ServiceAccount {subject.get('namespace') or namespace}/{subject['name']}"
    return f"{subject['kind']} {subject['name']}"
