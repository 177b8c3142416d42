"""What git does not have and gives rights into what it has, by what it reaches and not by its name."""

from typing import Any

import pytest

from trainyard_api.json_types import Manifest
from trainyard_api.selectors import selects
from trainyard_delivery.drift.unmanaged import ADMISSION, RBAC, Unmanaged, unmanaged
from trainyard_delivery.drift.verdicts import Ref
from trainyard_platform.stack.drift import Known

RBAC_GROUP = "rbac.authorization.k8s.io"
NOBODY = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
TO_ADMIN = {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}


def thing(api_version: str, kind: str, name: str, namespace: str = "", **content: Any) -> Manifest:
    labels = {"labels": content.pop("labels")} if "labels" in content else {}
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where, **labels}, **content}


def account(namespace: str, name: str = "default") -> Manifest:
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def user(name: str = "eve") -> Manifest:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def group(name: str) -> Manifest:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}


def binding(
    *subjects: Manifest, role: str = "cluster-admin", namespace: str = "", name: str = "x"
) -> Manifest:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return thing(RBAC, kind, name, namespace, roleRef=reference, subjects=list(subjects))


def role(*rules: Manifest, name: str = "x", labels: dict[str, str] | None = None) -> Manifest:
    return thing(RBAC, "ClusterRole", name, rules=list(rules), labels=labels or {})


def webhooks(kind: str, rule: Manifest, selector: Manifest | None = None) -> Manifest:
    webhook = {"name": "x.example", "rules": [rule], "namespaceSelector": selector}
    return thing(ADMISSION, f"{kind}WebhookConfiguration", "x", webhooks=[webhook])


def policy(
    kind: str = "ValidatingAdmissionPolicy", rule: Manifest = PODS, selector: Manifest | None = None
) -> Manifest:
    return thing(
        ADMISSION,
        kind,
        "x",
        spec={"matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector}},
    )


COLLECTS = {"clusterRoleSelectors": [{"matchLabels": {"batch": "yes"}}]}
GIT = [
    thing("v1", "Namespace", "team-a", labels={"tenant": "yes"}),
    thing("v1", "Namespace", "kueue-system"),
    thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x", spec={"group": "kueue.x-k8s.io"}),
    role(name="collects") | {"aggregationRule": COLLECTS},
    role(name="trainyard-operator"),
    thing(RBAC, "Role", "keeper", "kueue-system", rules=[]),
    binding(user("viewer"), role="view", namespace="team-a", name="viewers"),
    binding(account("kueue-system"), role="trainyard-operator", name="ours"),
    policy() | {"metadata": {"name": "ours"}},
]


def why(one: Manifest) -> list[str]:
    return [found.why for found in unmanaged(GIT, [one])]


def test_what_git_has_is_managed() -> None:
    assert unmanaged(GIT, GIT) == []


def test_a_chart_may_say_a_namespace_of_an_object_of_the_cluster() -> None:
    there = webhooks("Mutating", PODS)
    placed = {**there, "metadata": {**there["metadata"], "namespace": "kueue-system"}}
    assert unmanaged([*GIT, placed], [there]) == []


@pytest.mark.parametrize(
    ("one", "said"),
    [
        pytest.param(
            binding(account("team-a"), account("elsewhere")),
            "gives ClusterRole cluster-admin to ServiceAccount team-a/default, "
            "ServiceAccount elsewhere/default",
            id="all rights for accounts",
        ),
        pytest.param(
            binding(account("team-a"), account("elsewhere"), role="view"),
            "gives ClusterRole view to ServiceAccount team-a/default",
            id="rights for an account of ours",
        ),
        pytest.param(
            binding(
                user(),
                user("system:serviceaccount:elsewhere:x"),
                user("system:kube-controller-manager"),
                account("kube-system"),
                group("system:masters"),
                group("admins"),
            ),
            "gives ClusterRole cluster-admin to User eve, User system:serviceaccount:elsewhere:x",
            id="all rights for a person, and not for what each cluster has, nor for groups of people",
        ),
        pytest.param(
            binding(
                user("system:anonymous"),
                user("system:node:gpu-1"),
                group("system:nodes"),
                group("system:bootstrappers:kubeadm:default-node-token"),
                user("system:node-controller"),
            ),
            "gives ClusterRole cluster-admin to User system:anonymous, User system:node:gpu-1, "
            "Group system:nodes, Group system:bootstrappers:kubeadm:default-node-token",
            id="all rights for nobody in particular, and for nodes",
        ),
        pytest.param(
            binding(user("system:serviceaccount:team-a:default")),
            "gives ClusterRole cluster-admin to User system:serviceaccount:team-a:default",
            id="an account of ours by the name of its user",
        ),
        pytest.param(
            binding(*map(group, ["system:authenticated", "system:serviceaccounts:team-a", "admins"])),
            "gives ClusterRole cluster-admin to Group system:authenticated, "
            "Group system:serviceaccounts:team-a",
            id="groups that accounts of ours are in",
        ),
        pytest.param(
            binding(user(), role="trainyard-operator"),
            "gives ClusterRole trainyard-operator to User eve",
            id="a role of ours",
        ),
        pytest.param(
            binding(user(), namespace="team-a"),
            "gives ClusterRole cluster-admin in team-a to User eve",
            id="a namespace of ours",
        ),
        pytest.param(
            binding({"kind": "ServiceAccount", "name": "y"}, namespace="team-a", role="view"),
            "gives ClusterRole view in team-a to ServiceAccount team-a/y",
            id="an account without a namespace is of the binding's",
        ),
        pytest.param(
            binding(account("team-a"), namespace="elsewhere", role="edit"),
            "gives ClusterRole edit in elsewhere to ServiceAccount team-a/default",
            id="an account of ours in another namespace",
        ),
        pytest.param(
            binding(group("system:authenticated"), role="cluster-admin", name="system:discovery"),
            "gives ClusterRole cluster-admin to Group system:authenticated",
            id="a binding with the name of one of Kubernetes",
        ),
        pytest.param(
            binding(
                *map(group, ["system:authenticated", "system:serviceaccounts"]),
                role="system:discovery",
                name="system:discovery",
            ),
            "gives ClusterRole system:discovery to Group system:serviceaccounts",
            id="a further subject in a binding of Kubernetes",
        ),
        pytest.param(
            role(EVERYTHING, labels=TO_ADMIN),
            "its rules are aggregated into ClusterRole admin",
            id="everything into admin",
        ),
        pytest.param(
            role({"apiGroups": ["kueue.x-k8s.io"], "resources": ["x"], "verbs": ["get"]}, labels=TO_ADMIN),
            "its rules are aggregated into ClusterRole admin",
            id="our API groups into admin",
        ),
        pytest.param(
            role({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}, labels=TO_ADMIN),
            "its rules are aggregated into ClusterRole admin",
            id="secrets into admin",
        ),
        *(
            pytest.param(
                role({"apiGroups": [""], "resources": [resource], "verbs": ["create"]}, labels=TO_ADMIN),
                "its rules are aggregated into ClusterRole admin",
                id=f"{resource} into admin",
            )
            for resource in (
                "nodes/proxy",
                "pods/attach",
                "pods/ephemeralcontainers",
                "pods/exec",
                "serviceaccounts/token",
            )
        ),
        *(
            pytest.param(
                role({"apiGroups": [of], "resources": [resource], "verbs": ["patch"]}, labels=TO_VIEW),
                "its rules are aggregated into ClusterRole view",
                id=f"{resource} into view",
            )
            for of, resource in (("", "pods"), ("apps", "deployments"), ("batch", "jobs"))
        ),
        pytest.param(
            role({"apiGroups": ["a.io"], "resources": ["b"], "verbs": ["bind"]}, labels=TO_ADMIN),
            "its rules are aggregated into ClusterRole admin",
            id="rights to give rights into admin",
        ),
        pytest.param(
            role(labels={"batch": "yes"}),
            "its rules are aggregated into ClusterRole collects",
            id="into a role of ours that collects",
        ),
        pytest.param(
            webhooks("Mutating", PODS),
            "may change objects in kueue-system and 1 more namespaces",
            id="a webhook for pods",
        ),
        pytest.param(
            webhooks(
                "Validating",
                {**PODS, "apiGroups": ["batch"], "resources": ["jobs/status"]},
                {"matchLabels": {"tenant": "yes"}},
            ),
            "may refuse objects in team-a",
            id="a webhook for jobs of a namespace",
        ),
        pytest.param(
            webhooks("Validating", {**PODS, "apiGroups": ["kueue.x-k8s.io"], "resources": ["*"]}),
            "may refuse objects in kueue-system and 1 more namespaces",
            id="a webhook for our API groups",
        ),
        pytest.param(
            webhooks("Mutating", {**PODS, "apiGroups": [RBAC_GROUP], "resources": ["rolebindings"]}),
            "may change objects in team-a",
            id="a webhook for a kind of the stack, where the stack has one",
        ),
        pytest.param(
            webhooks("Mutating", {**PODS, "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"]}, NOBODY),
            "may change objects of the stack that are in no namespace",
            id="a webhook for what is in no namespace",
        ),
        pytest.param(
            webhooks("Mutating", {**PODS, "resources": ["namespaces"]}, {"matchLabels": {"tenant": "yes"}}),
            "may change objects in team-a",
            id="a webhook for namespaces, by their own labels",
        ),
        *(
            pytest.param(
                webhooks("Validating", {**PODS, "resources": [resource]}),
                "may refuse objects in kueue-system and 1 more namespaces",
                id=f"a webhook for {resource}",
            )
            for resource in ("configmaps", "secrets", "serviceaccounts")
        ),
        pytest.param(
            policy(selector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}),
            "may refuse objects in team-a",
            id="a policy for a namespace by its name",
        ),
        pytest.param(
            policy("MutatingAdmissionPolicy"),
            "may change objects in kueue-system and 1 more namespaces",
            id="a policy that changes",
        ),
        pytest.param(
            thing(ADMISSION, "ValidatingAdmissionPolicyBinding", "x", spec={"policyName": "ours"}),
            "binds the stack's policy ours again",
            id="another binding of our policy",
        ),
        pytest.param(
            thing("networking.k8s.io/v1", "NetworkPolicy", "x", "team-a", spec={}),
            "is in team-a, which belongs to the stack",
            id="a network policy, which adds to others",
        ),
        pytest.param(
            thing("v1", "ServiceAccount", "x", "kueue-system"),
            "is in kueue-system, which belongs to the stack",
            id="an account",
        ),
        pytest.param(
            thing(RBAC, "Role", "x", "team-a", rules=[]),
            "is in team-a, which belongs to the stack",
            id="a role",
        ),
    ],
)
def test_what_reaches_into_the_stack_is_told_with_how(one: Manifest, said: str) -> None:
    assert why(one) == [said]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(binding(user(), role="edit"), id="a person's rights over the cluster"),
        pytest.param(binding(account("elsewhere"), namespace="elsewhere"), id="another namespace"),
        pytest.param(
            binding(group("system:serviceaccounts:elsewhere"), role="edit"), id="another namespace's accounts"
        ),
        pytest.param(binding(group("team-a")), id="a group of people with the name of a namespace of ours"),
        pytest.param(binding(namespace="team-a"), id="a binding of nobody"),
        pytest.param(
            binding(
                *map(group, ["system:authenticated", "system:unauthenticated"]),
                role="system:public-info-viewer",
                name="system:public-info-viewer",
            ),
            id="what Kubernetes itself gives to everybody",
        ),
        pytest.param(role(EVERYTHING), id="a role that goes nowhere"),
        pytest.param(
            role({"apiGroups": ["a.io"], "resources": ["b"], "verbs": ["get"]}, labels=TO_ADMIN),
            id="another's API group into admin",
        ),
        pytest.param(
            role(EVERYTHING, name="system:aggregate-to-admin", labels=TO_ADMIN),
            id="a role of Kubernetes itself",
        ),
        pytest.param(
            role(EVERYTHING, name="edit", labels=TO_ADMIN), id="a role of Kubernetes that goes into another"
        ),
        pytest.param(
            webhooks("Mutating", PODS, {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}),
            id="a webhook for another namespace",
        ),
        pytest.param(
            webhooks("Mutating", {**PODS, "resources": ["services"]}), id="a webhook for other objects"
        ),
        pytest.param(
            webhooks("Mutating", {**PODS, "apiGroups": [RBAC_GROUP], "resources": ["rolebindings"]}, NOBODY),
            id="a webhook for a kind of the stack in other namespaces",
        ),
        pytest.param(
            role({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, labels=TO_VIEW),
            id="pods to read into view",
        ),
        pytest.param(
            role({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}, labels=TO_ADMIN),
            id="jobs into admin, which may create them by itself",
        ),
        pytest.param(
            thing(ADMISSION, "ValidatingAdmissionPolicyBinding", "x", spec={"policyName": "theirs"}),
            id="a binding of another's policy",
        ),
        pytest.param(thing("v1", "ServiceAccount", "default", "team-a"), id="the account of each namespace"),
        pytest.param(thing("v1", "ServiceAccount", "x", "elsewhere"), id="an account elsewhere"),
    ],
)
def test_what_does_not_reach_into_the_stack_is_nobodys_affair(one: Manifest) -> None:
    assert why(one) == []


def test_they_are_told_by_kind_namespace_and_name() -> None:
    there = [
        binding(user(), namespace="team-a", name="b"),
        binding(user(), namespace="kueue-system", name="c"),
        binding(account("team-a"), name="z"),
    ]
    assert [one.ref for one in unmanaged(GIT, there)] == [
        Ref(RBAC, "ClusterRoleBinding", "", "z"),
        Ref(RBAC, "RoleBinding", "kueue-system", "c"),
        Ref(RBAC, "RoleBinding", "team-a", "b"),
    ]


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ({"kind": "RoleBinding", "name": "x"}, []),
        ({"kind": "RoleBinding", "name": "x", "namespace": "team-a"}, []),
        ({"kind": "RoleBinding", "name": "x", "namespace": "team-b"}, ["x"]),
        ({"kind": "RoleBinding", "name": "y"}, ["x"]),
        ({"kind": "ClusterRoleBinding", "name": "x"}, ["x"]),
    ],
)
def test_what_the_stack_file_knows_is_not_told(known: Manifest, left: list[str]) -> None:
    one = binding(user(), namespace="team-a")
    known_to_git = [Known(reason="it is ours", **known)]
    found: list[Unmanaged] = unmanaged(GIT, [one], known_to_git)
    assert [each.ref.name for each in found] == left


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        (None, {}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {"a": "b"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Resembles"}]}, {}, True),
    ],
)
def test_a_selector_selects_as_kubernetes_does(
    selector: Manifest, labels: dict[str, str], selected: bool
) -> None:
    assert selects(selector, labels) is selected
