"""Objects outside git that grant access to the stack's: reported, never removed.

What counts is what an object reaches, not who created it or its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.selectors import selects
from trainyard_platform.stack.drift import Known

from .verdicts import Ref

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
"""The checked kinds: apiVersion and kind. A cluster need not have all of them."""
OLDER: Final[Mapping[str, str]] = dict.fromkeys(
    ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"), "admissionregistration.k8s.io/v1beta1"
)
"""By kind, the apiVersion in a cluster that has no newer one: Kubernetes 1.34 and 1.35."""
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
_DELICATE: Final = frozenset(
    {
        "*",
        "nodes/proxy",
        "pods/attach",
        "pods/ephemeralcontainers",
        "pods/exec",
        "secrets",
        "serviceaccounts/token",
    }
)
"""Resources of the core group that give access to a pod's content or to an account."""
_MAKES_PODS: Final = (
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
)
"""API group and resource. Their writers can run as any account of the namespace; `edit` already can."""
_WRITES: Final = frozenset({"create", "patch", "update", "*"})
_EVERYTHING: Final = "cluster-admin"
_LEAST_KNOWN: Final = ("system:anonymous", "system:bootstrappers", "system:node:", "system:nodes")
"""Beginnings of what Kubernetes calls those who are nobody in particular, and its nodes, which run anybody's
pods: none of them has all rights in any cluster by itself."""
_OF_THE_CLUSTER: Final = "kube-system"
"""Its accounts are those of Kubernetes and of its distribution."""
_PARTS_OF_JOBS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"configmaps", "pods", "secrets", "serviceaccounts"}),
    "apps": frozenset({"controllerrevisions"}),
    "batch": frozenset({"jobs"}),
}
"""By API group, the kinds that jobs consist of and use, in addition to those of the stack's CRDs."""
_SAME_IN_EACH: Final = frozenset({"default"})
"""ServiceAccounts that Kubernetes itself creates in each namespace."""


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An object that git does not have, and what it reaches."""

    ref: Ref
    why: str


def unmanaged(git: Sequence[Json], cluster: Iterable[Json], allowed: Sequence[Known] = ()) -> list[Unmanaged]:
    """Foreign objects that affect the stack, by kind, namespace and name.

    Args:
        git: What the stack asks for.
        cluster: What the cluster has of the kinds of `LISTED`.
        allowed: What is not reported.
    """
    stack = _Stack(git)
    findings = [
        Unmanaged(Ref.of(manifest), reach)
        for manifest in cluster
        if not stack.has(Ref.of(manifest))
        and not any(_is_allowed(entry, Ref.of(manifest)) for entry in allowed)
        for reach in stack.reach(manifest)
    ]
    return sorted(findings, key=lambda finding: finding.ref[1:])


def _is_allowed(entry: Known, ref: Ref) -> bool:
    return (entry.kind, entry.name) == (ref.kind, ref.name) and entry.namespace in ("", ref.namespace)


class _Object(NamedTuple):
    """An object of the stack, as admission sees it."""

    group: str
    resource: str
    namespace: str
    """A Namespace is in itself: its own labels are selected by."""
    labels: Mapping[str, str]


def _object(manifest: Json) -> _Object:
    metadata, kind = manifest["metadata"], manifest["kind"]
    namespace = metadata["name"] if kind == "Namespace" else metadata.get("namespace") or ""
    group = manifest["apiVersion"].rpartition("/")[0]
    return _Object(group, _plural(kind), namespace, metadata.get("labels") or {})


def _plural(kind: str) -> str:
    """The resource of a kind, by the rule that all kinds of a stack follow."""
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch")) else f"{name}s"


class _Stack:
    """Parts of the stack that other objects can affect."""

    def __init__(self, git: Sequence[Json]) -> None:
        self._refs = frozenset(map(Ref.of, git))
        self._objects = tuple(map(_object, git))
        self._of_the_cluster = {(ref.kind, ref.name) for ref in self._refs}
        self._namespaces = {
            manifest["metadata"]["name"]: {
                names.NAMESPACE_LABEL: manifest["metadata"]["name"],
                **(manifest["metadata"].get("labels") or {}),
            }
            for manifest in git
            if manifest["kind"] == "Namespace"
        }
        self._groups = {
            manifest["spec"]["group"] for manifest in git if manifest["kind"] == "CustomResourceDefinition"
        }
        self._selectors = [
            (manifest["metadata"]["name"], selector)
            for manifest in git
            if manifest["kind"] == "ClusterRole"
            for selector in (manifest.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        ]
        self._policies = {
            manifest["metadata"]["name"]
            for manifest in git
            if str(manifest["kind"]).endswith("AdmissionPolicy")
        }

    def has(self, ref: Ref) -> bool:
        """Whether it belongs to the stack; some charts give cluster-scoped objects a namespace."""
        return ref in self._refs or (not ref.namespace and (ref.kind, ref.name) in self._of_the_cluster)

    def reach(self, manifest: Json) -> Iterator[str]:
        """How an object reaches into the stack, in one sentence; nothing if it does not."""
        kind, namespace = manifest["kind"], manifest["metadata"].get("namespace")
        if kind in ("ClusterRoleBinding", "RoleBinding"):
            yield from self._grants(manifest)
        elif kind == "ClusterRole":
            yield from self._aggregations(manifest)
        elif kind.endswith("WebhookConfiguration"):
            yield from self._webhook_reach(manifest)
        elif kind.endswith("AdmissionPolicyBinding"):
            if manifest["spec"].get("policyName") in self._policies:
                yield f"binds the stack's policy {manifest['spec']['policyName']} again"
        elif kind.endswith("AdmissionPolicy"):
            constraints = manifest["spec"].get("matchConstraints") or {}
            yield from self._policy_reach(kind, constraints)
        elif namespace in self._namespaces and not _is_made_by_kubernetes(manifest):
            yield f"is in {namespace}, which belongs to the stack"

    def _grants(self, binding: Json) -> Iterator[str]:
        role, namespace = binding["roleRef"], binding["metadata"].get("namespace") or ""
        name = binding["metadata"]["name"]
        is_kubernetes = not namespace and role["name"] == name
        expected = _KUBERNETES.get(name, frozenset()) if is_kubernetes else frozenset()
        subjects = [
            subject
            for subject in binding.get("subjects") or ()
            if not (subject["kind"] == "Group" and subject["name"] in expected)
        ]
        of_the_stack = Ref(RBAC, role["kind"], namespace if role["kind"] == "Role" else "", role["name"])
        if namespace not in self._namespaces and not self.has(of_the_stack):
            all_rights = not namespace and role["name"] == _EVERYTHING
            subjects = [
                subject
                for subject in subjects
                if self._is_ours(subject, namespace) or (all_rights and _is_a_strangers(subject))
            ]
        if subjects:
            place = f" in {namespace}" if namespace else ""
            recipients = ", ".join(_subject(subject, namespace) for subject in subjects)
            yield f"gives {role['kind']} {role['name']}{place} to {recipients}"

    def _is_ours(self, subject: Json, namespace: str) -> bool:
        name = subject["name"]
        if subject["kind"] == "ServiceAccount":
            return (subject.get("namespace") or namespace) in self._namespaces
        if subject["kind"] == "Group":
            of_a_namespace = name.startswith(_ACCOUNTS) and name.removeprefix(_ACCOUNTS) in self._namespaces
            return name in _EVERYBODY or of_a_namespace
        return name.startswith(_ACCOUNT) and name.split(":")[2] in self._namespaces

    def _aggregations(self, cluster_role: Json) -> Iterator[str]:
        labels = cluster_role["metadata"].get("labels") or {}
        rules = cluster_role.get("rules") or ()
        aggregates = []
        if cluster_role["metadata"]["name"] not in _OF_KUBERNETES:
            aggregates = [role for role in _TO_ALL if labels.get(f"{_AGGREGATED}{role}") == "true"]
            delicate = any(map(self._is_delicate, rules)) or (
                "view" in aggregates and any(map(_makes_pods, rules))
            )
            aggregates = aggregates if delicate else []
        aggregates += [name for name, selector in self._selectors if selects(selector, labels)]
        if aggregates:
            yield f"its rules are aggregated into ClusterRole {', '.join(aggregates)}"

    def _is_delicate(self, rule: Json) -> bool:
        groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
        verbs = set(rule.get("verbs") or ())
        core = bool(groups & {"", "*"}) and bool(resources & _DELICATE)
        return core or bool(groups & {*self._groups, "*"}) or bool(verbs & _STRONG)

    def _webhook_reach(self, configuration: Json) -> Iterator[str]:
        webhooks = configuration.get("webhooks") or ()
        yield from _sentence(configuration["kind"], set().union(*map(self._namespaces_reached, webhooks)))

    def _policy_reach(self, kind: str, constraints: Json) -> Iterator[str]:
        webhook_form = {**constraints, "rules": constraints.get("resourceRules")}
        yield from _sentence(kind, self._namespaces_reached(webhook_form))

    def _namespaces_reached(self, webhook: Json) -> set[str]:
        """The namespaces in which it sees what jobs are made of, or objects of the stack; "" for none."""
        rules = webhook.get("rules") or ()
        namespaces = self._selected_namespaces(webhook.get("namespaceSelector"))
        if any(map(self._is_about_us, rules)):
            return namespaces
        return {
            target.namespace
            for target in self._objects
            if target.namespace in (*namespaces, "")
            and selects(webhook.get("objectSelector"), target.labels)
            and any(_matches(rule, target) for rule in rules)
        }

    def _is_about_us(self, rule: Json) -> bool:
        groups = set(rule.get("apiGroups") or ())
        plurals = {resource.split("/")[0] for resource in rule.get("resources") or ()}
        holds_parts_of_jobs = any(
            groups & {group, "*"} and plurals & {*resources, "*"}
            for group, resources in _PARTS_OF_JOBS.items()
        )
        return holds_parts_of_jobs or bool(groups & self._groups)

    def _selected_namespaces(self, selector: Json | None) -> set[str]:
        return {name for name, labels in self._namespaces.items() if selects(selector, labels)}


def _matches(rule: Json, target: _Object) -> bool:
    groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
    return bool(groups & {target.group, "*"}) and bool(resources & {target.resource, "*", "*/*"})


def _sentence(kind: str, namespaces: set[str]) -> Iterator[str]:
    verb = "change" if kind.startswith("Mutating") else "refuse"
    if first_and_others := sorted(namespaces - {""}):
        first, *more_namespaces = first_and_others
        more = f" and {len(more_namespaces)} more namespaces" if more_namespaces else ""
        yield f"may {verb} objects in {first}{more}"
    elif namespaces:
        yield f"may {verb} objects of the stack that are in no namespace"


def _makes_pods(rule: Json) -> bool:
    groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
    if not _WRITES & set(rule.get("verbs") or ()):
        return False
    return any(groups & {group, "*"} and resource in resources for group, resource in _MAKES_PODS)


def _is_a_strangers(subject: Json) -> bool:
    """Whether no cluster gives it all rights by itself; groups of people are not told."""
    kind, name = subject["kind"], str(subject["name"])
    if kind != "ServiceAccount" and name.startswith(_LEAST_KNOWN):
        return True
    if kind == "ServiceAccount":
        return str(subject.get("namespace")) != _OF_THE_CLUSTER
    if kind == "Group":
        return name.startswith(_ACCOUNTS) and name != f"{_ACCOUNTS}{_OF_THE_CLUSTER}"
    if name.startswith(_ACCOUNT):
        return not name.startswith(f"{_ACCOUNT}{_OF_THE_CLUSTER}:")
    return not name.startswith("system:")


def _is_made_by_kubernetes(manifest: Json) -> bool:
    return manifest["kind"] == "ServiceAccount" and manifest["metadata"]["name"] in _SAME_IN_EACH


def _subject(subject: Json, namespace: str) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"ServiceAccount {subject.get('namespace') or namespace}/{subject['name']}"
    return f"{subject['kind']} {subject['name']}"
