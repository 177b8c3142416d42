"""What in an object is not as git says, who wrote it, and what others may write."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest

from trainyard_api.json_types import JsonValue
from trainyard_delivery.drift import comparison, expected, writers
from trainyard_delivery.drift.comparison import NOT_SHOWN, Row
from trainyard_delivery.drift.differences import ABSENT, Difference, differences
from trainyard_delivery.drift.ownership import Writer, writer
from trainyard_delivery.drift.paths import Item, text
from trainyard_delivery.drift.verdicts import Ref, State, Verdict, consequence, exit_code, kept
from trainyard_platform.errors import PlatformError

NODE, SIDE = Item((("name", "node"),)), Item((("name", "side"),))
GUIDE = Path(__file__).parents[2] / "docs" / "drift.md"
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n").decode()


@pytest.mark.parametrize(
    ("git", "there", "found"),
    [
        pytest.param({"a": 1, "b": [1, {"c": None}]}, {"b": [1, {"c": None}], "a": 1}, [], id="nothing"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, [Difference(("a", "b"), 1, 2)], id="a value"),
        pytest.param({}, {"a": {"b": 1}}, [Difference(("a",), ABSENT, {"b": 1})], id="what is new, whole"),
        pytest.param({"a": None}, {}, [Difference(("a",), None, ABSENT)], id="what is gone, null or not"),
        pytest.param(
            {"c": [{"name": "node", "image": "a"}, {"name": "gone"}]},
            {"c": [{"name": "side"}, {"name": "node", "image": "b"}]},
            [
                Difference(("c", NODE, "image"), "a", "b"),
                Difference(("c", Item((("name", "gone"),))), {"name": "gone"}, ABSENT),
                Difference(("c", SIDE), ABSENT, {"name": "side"}),
            ],
            id="items by name",
        ),
        pytest.param(
            {"p": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]},
            {"p": [{"port": 1, "protocol": "TCP", "x": 1}, {"port": 1, "protocol": "UDP"}]},
            [Difference(("p", Item((("port", 1), ("protocol", "TCP"))), "x"), ABSENT, 1)],
            id="ports by number and protocol",
        ),
        pytest.param(
            {"s": [{"kind": "Group", "name": "a"}]},
            {
                "s": [
                    {"kind": "Group", "name": "a"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "a"},
                ]
            },
            [
                Difference(
                    ("s", Item((("kind", "ServiceAccount"), ("namespace", "n"), ("name", "a")))),
                    ABSENT,
                    {"kind": "ServiceAccount", "namespace": "n", "name": "a"},
                )
            ],
            id="subjects of one name",
        ),
        pytest.param(
            {"c": [{"name": "node"}, {"name": "side"}]},
            {"c": [{"name": "side"}, {"name": "node"}]},
            [Difference(("c",), [{"name": "node"}, {"name": "side"}], [{"name": "side"}, {"name": "node"}])],
            id="their order",
        ),
        pytest.param(
            {"rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]},
            {"rules": [{"verbs": ["*"]}, {"verbs": ["get"]}, {"verbs": ["list"]}]},
            [Difference(("rules", 0), ABSENT, {"verbs": ["*"]})],
            id="a further item without a name",
        ),
        pytest.param(
            {"rules": [{"verbs": ["get"]}, {"of": "a", "verbs": ["list"]}]},
            {"rules": [{"verbs": ["get"]}, {"of": "a", "verbs": ["list", "watch"]}]},
            [Difference(("rules", 1, "verbs", 1), ABSENT, "watch")],
            id="a changed item without a name",
        ),
        pytest.param(
            {"rules": [{"of": "a", "verbs": ["list"]}]},
            {"rules": [{"of": "*", "verbs": ["*"]}]},
            [
                Difference(("rules", 0), {"of": "a", "verbs": ["list"]}, ABSENT),
                Difference(("rules", 0), ABSENT, {"of": "*", "verbs": ["*"]}),
            ],
            id="another item that has nothing of the first",
        ),
        pytest.param(
            {"l": ["a", "a", "b"]},
            {"l": ["a", "c"]},
            [
                Difference(("l", 1), "a", ABSENT),
                Difference(("l", 2), "b", ABSENT),
                Difference(("l", 1), ABSENT, "c"),
            ],
            id="plain values, as often as they are there",
        ),
        pytest.param({"l": []}, {"l": {}}, [Difference(("l",), [], {})], id="another kind of value"),
    ],
)
def test_each_difference_has_its_own_path(git: Any, there: Any, found: list[Difference]) -> None:
    assert list(differences(git, there)) == found


def test_a_path_is_written_as_people_read_it() -> None:
    path = ("spec", "containers", NODE, "env", 0)
    assert text(path) == "spec.containers[name=node].env[0]"
    assert text(("metadata", "annotations", "a.io/b")) == "metadata.annotations[a.io/b]"


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
OWNED = {
    "metadata": {
        "managedFields": [
            {
                "manager": "trainyard-platform",
                "operation": "Apply",
                "time": LATE,
                "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"node"}': {".": {}, "f:image": {}}}}},
            },
            {
                "manager": "kubectl-patch",
                "operation": "Update",
                "time": EARLY,
                "fieldsV1": {
                    "f:metadata": {"f:finalizers": {".": {}, 'v:"keep"': {}}},
                    "f:rules": {},
                    "f:spec": {"f:containers": {'k:{"name":"side"}': {}}},
                },
            },
            {"manager": "", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ],
        "finalizers": ["other", "keep"],
    },
    "rules": [{"verbs": ["*"]}],
    "spec": {"containers": [{"name": "node", "image": "i"}, {"name": "side"}], "replicas": 3},
}
KUBECTL = Writer("kubectl-patch", "Update", EARLY)


@pytest.mark.parametrize(
    ("path", "by"),
    [
        pytest.param(
            ("spec", "containers", NODE, "image"), Writer("trainyard-platform", "Apply", LATE), id="a field"
        ),
        pytest.param(("spec", "containers", SIDE), KUBECTL, id="an item by its name"),
        pytest.param(("metadata", "finalizers", 1), KUBECTL, id="a value of a set"),
        pytest.param(("metadata", "finalizers", 0), None, id="not another value of it"),
        pytest.param(("rules", 0, "verbs", 0), KUBECTL, id="what is inside a list that is one value"),
        pytest.param(("spec", "replicas"), Writer("", "Update", ""), id="somebody without a name"),
        pytest.param(("spec", "containers", NODE, "command"), None, id="nobody"),
    ],
)
def test_who_wrote_something_is_whoever_says_so(path: Any, by: Writer | None) -> None:
    assert writer(OWNED, path) == by


def test_of_two_writers_the_later_one_is_named() -> None:
    entries = [
        {"manager": manager, "operation": "Update", "time": at, "fieldsV1": {"f:data": {"f:a": {}}}}
        for manager, at in (("late", LATE), ("early", EARLY))
    ]
    live = {"metadata": {"managedFields": entries}, "data": {"a": "1"}}
    assert writer(live, ("data", "a")) == Writer("late", "Update", LATE)


def test_an_object_that_says_nothing_of_its_writers_names_none() -> None:
    for fields in ({}, {"managedFields": None}, {"managedFields": [{}]}):
        assert writer({"metadata": fields, "data": {"a": "1"}}, ("data", "a")) is None


def manifest(kind: str, name: str = "one", **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content}


def with_metadata(kind: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "one", **metadata}}


REVISION = {"deployment.kubernetes.io/revision": "3"}


@pytest.mark.parametrize(
    ("git", "live"),
    [
        (with_metadata("Deployment"), with_metadata("Deployment", annotations=REVISION)),
        (
            with_metadata("Deployment", annotations={"a": "b"}),
            with_metadata("Deployment", annotations={"a": "b", **REVISION}),
        ),
        (manifest("Deployment", spec={}), manifest("Deployment", spec={"replicas": 4})),
        (
            manifest("ClusterRole", aggregationRule={}, rules=[]),
            manifest("ClusterRole", aggregationRule={}, rules=[{"verbs": ["get"]}]),
        ),
        (
            manifest("ValidatingWebhookConfiguration", webhooks=[{"name": "a"}, {"name": "b"}]),
            manifest(
                "ValidatingWebhookConfiguration",
                webhooks=[{"name": "a", "clientConfig": {"caBundle": PEM}}, {"name": "b"}],
            ),
        ),
        (
            manifest("CustomResourceDefinition", spec={"conversion": {"webhook": {"clientConfig": {}}}}),
            manifest(
                "CustomResourceDefinition",
                spec={"conversion": {"webhook": {"clientConfig": {"caBundle": PEM}}}},
            ),
        ),
        (
            with_metadata("ClusterQueue"),
            with_metadata("ClusterQueue", finalizers=["kueue.x-k8s.io/resource-in-use"]),
        ),
        (
            manifest("Secret", "kueue-webhook-server-cert"),
            manifest("Secret", "kueue-webhook-server-cert", data={"tls.key": "eA=="}),
        ),
        (
            with_metadata("ClusterQueue", finalizers=["a.io/git"]),
            with_metadata("ClusterQueue", finalizers=["kueue.x-k8s.io/resource-in-use", "a.io/git"]),
        ),
        (
            manifest("Node", spec={"taints": [{"key": "nvidia.com/gpu"}]}),
            manifest(
                "Node",
                spec={"taints": [{"key": "nvidia.com/gpu"}, {"key": "node.kubernetes.io/unreachable"}]},
            ),
        ),
        (manifest("Job", spec={}), manifest("Job", spec={"selector": {"matchLabels": {"a": "b"}}})),
        (with_metadata("Node"), with_metadata("Node", labels={"beta.kubernetes.io/os": "linux"})),
        (
            with_metadata("NodePool"),
            with_metadata("NodePool", annotations={"karpenter.sh/nodepool-hash": "1"}),
        ),
        (
            with_metadata("Namespace", labels={"a": "b"}),
            with_metadata(
                "Namespace",
                labels={"a": "b", "pod-security.kubernetes.io/warn": "restricted"},
                annotations={"openshift.io/sa.scc.uid-range": "1000/10000"},
            ),
        ),
        (
            manifest("ServiceAccount"),
            manifest(
                "ServiceAccount",
                secrets=[{"name": "one-dockercfg-x2x4z"}],
                imagePullSecrets=[{"name": "one-dockercfg-x2x4z"}],
            ),
        ),
        (
            manifest("ServiceAccount", imagePullSecrets=[{"name": "registry"}]),
            manifest(
                "ServiceAccount",
                imagePullSecrets=[{"name": "registry"}, {"name": "default-dockercfg-x2x4z"}],
            ),
        ),
        (
            with_metadata("ExternalSecret"),
            with_metadata(
                "ExternalSecret",
                finalizers=["externalsecrets.external-secrets.io/externalsecret-cleanup"],
            ),
        ),
    ],
    ids=lambda value: value["kind"],
)
def test_what_others_rightly_write_is_left_as_it_is(git: dict[str, Any], live: dict[str, Any]) -> None:
    assert writers.with_others(git, live, writers.table()) == live


@pytest.mark.parametrize(
    ("git", "live"),
    [
        pytest.param(
            manifest("Deployment", spec={"replicas": 2}),
            manifest("Deployment", spec={"replicas": 4}),
            id="where git says something itself",
        ),
        pytest.param(
            manifest("ClusterRole", rules=[]),
            manifest("ClusterRole", rules=[{"verbs": ["get"]}]),
            id="the rules of a role that collects none",
        ),
        pytest.param(
            manifest("CustomResourceDefinition", spec={"conversion": {"webhook": {"clientConfig": {}}}}),
            manifest(
                "CustomResourceDefinition",
                spec={"conversion": {"webhook": {"clientConfig": {"caBundle": "bm9uZQ=="}}}},
            ),
            id="what is no certificate",
        ),
        pytest.param(
            with_metadata("ClusterQueue"),
            with_metadata("ClusterQueue", finalizers=["mine"]),
            id="another finalizer",
        ),
        pytest.param(
            manifest("Secret", "mine"), manifest("Secret", "mine", data={"a": "eA=="}), id="another Secret"
        ),
        pytest.param(
            manifest("ServiceAccount"),
            manifest("ServiceAccount", imagePullSecrets=[{"name": "mine"}]),
            id="another account's Secret",
        ),
        pytest.param(
            with_metadata("Namespace"),
            with_metadata("Namespace", labels={"pod-security.kubernetes.io/enforce": "privileged"}),
            id="what is enforced",
        ),
        pytest.param(
            with_metadata("ConfigMap"),
            with_metadata("ConfigMap", annotations=REVISION),
            id="an object of another kind",
        ),
    ],
)
def test_everything_else_is_what_git_says(git: dict[str, Any], live: dict[str, Any]) -> None:
    assert writers.with_others(git, live, writers.table()) == git


def test_of_a_list_in_which_others_may_write_only_their_items_are_left() -> None:
    live = with_metadata("ClusterQueue", finalizers=["mine", "kueue.x-k8s.io/resource-in-use"])
    assert writers.with_others(with_metadata("ClusterQueue"), live, writers.table()) == with_metadata(
        "ClusterQueue", finalizers=["kueue.x-k8s.io/resource-in-use"]
    )


def test_the_guide_has_a_row_for_each_right_to_write() -> None:
    table = GUIDE.read_text().partition("<!-- begin table -->\n")[2].partition("<!-- end table -->")[0]
    assert table.splitlines()[2:] == [row(right) for right in writers.table()]
    assert all(right.reason for right in writers.table())


def row(right: writers.Right) -> str:
    named = "".join(f" `{name}`" for name in right.names)
    field = f" with `{right.field}`" if right.field else ""
    what = ", ".join(f"`{text(path)}`" for path in right.paths)
    only = f", only these items: {', '.join(f'`{value}`' for value in right.values)}" if right.values else ""
    shape = f", only {right.shape}" if right.shape else ""
    return f"| {', '.join(right.kinds)}{named}{field} | {what}{only}{shape} | {right.reason} |"


def test_the_request_replaces_the_very_object_that_was_read() -> None:
    git = manifest("ConfigMap", data={"a": "1"}, status={"of": "upstream"})
    live = with_metadata("ConfigMap", uid="u", resourceVersion="7", labels={"by": "hand"})
    assert comparison.body(git, live, writers.table()) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "resourceVersion": "7"},
        "data": {"a": "1"},
    }
    assert git["metadata"] == {"name": "one"}


def test_a_row_says_what_is_where_and_by_whom() -> None:
    fields = {"f:data": {"f:b": {}}}
    entry = {"manager": "kubectl-edit", "operation": "Update", "time": LATE, "fieldsV1": fields}
    server = {"uid": "u", "generation": 3, "creationTimestamp": EARLY, "managedFields": [entry]}
    live = {
        **with_metadata("ConfigMap", resourceVersion="7", **server),
        "data": {"a": "1", "b": "2"},
        "status": {"seen": 3},
    }
    answer = {**with_metadata("ConfigMap", resourceVersion="8", uid="u"), "data": {"a": "1", "c": "3"}}
    assert comparison.rows(live, answer) == (
        Row("data.b", ABSENT, "2", Writer("kubectl-edit", "Update", LATE)),
        Row("data.c", "3", ABSENT, None),
    )
    assert comparison.rows(live, live) == ()


def test_an_owner_that_somebody_has_given_an_object_is_a_difference() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"}
    live = with_metadata("ConfigMap", ownerReferences=[owner])
    assert comparison.rows(live, with_metadata("ConfigMap")) == (
        Row("metadata.ownerReferences", ABSENT, [owner], None),
    )
    assert comparison.controller(live) == ""
    live["metadata"]["ownerReferences"][0]["controller"] = True
    assert comparison.controller(live) == "ConfigMap gone"


def test_no_value_of_a_secret_is_shown() -> None:
    live = {**with_metadata("Secret", labels={"a": "b"}), "data": {"key": "aHVudGVyMg=="}}
    rows = comparison.rows(live, with_metadata("Secret"))
    assert rows == (
        Row("data", ABSENT, NOT_SHOWN, None),
        Row("metadata.labels", ABSENT, {"a": "b"}, None),
    )


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
COPY = '{"data": {"key": "aHVudGVyMg=="}}'


def test_a_copy_of_a_secret_in_an_annotation_is_not_shown_and_what_else_it_says_is() -> None:
    live = with_metadata("Secret", annotations={APPLIED: COPY, "a": "b"})
    assert comparison.rows(live, with_metadata("Secret")) == (
        Row("metadata.annotations", ABSENT, {APPLIED: NOT_SHOWN, "a": "b"}, None),
    )
    assert comparison.rows(live, with_metadata("Secret", annotations={"a": "b"})) == (
        Row(f"metadata.annotations[{APPLIED}]", ABSENT, NOT_SHOWN, None),
    )
    changed = with_metadata("Secret", annotations={APPLIED: "{}", "a": "b"})
    assert comparison.rows(live, changed) == (
        Row(f"metadata.annotations[{APPLIED}]", NOT_SHOWN, NOT_SHOWN, None),
    )
    config = with_metadata("ConfigMap", annotations={APPLIED: COPY})
    assert comparison.rows(config, with_metadata("ConfigMap")) == (
        Row("metadata.annotations", ABSENT, {APPLIED: COPY}, None),
    )


def resource(**inputs: Any) -> dict[str, Any]:
    return {"urn": "urn:one", "type": "kubernetes:core/v1:ConfigMap", "custom": True, "inputs": inputs}


def exported(*resources: dict[str, Any]) -> dict[str, Any]:
    return {"deployment": {"resources": list(resources)}}


def test_what_git_says_is_what_pulumi_sends_with_the_annotations_that_it_reads() -> None:
    annotations = {"pulumi.com/patchForce": "true"}
    sent = with_metadata("ConfigMap", annotations=annotations)
    others = (
        {"urn": "urn:component", "type": "trainyard:Catalog"},
        {"urn": "urn:provider", "type": "pulumi:providers:kubernetes", "custom": True, "inputs": {"kind": 1}},
        {**resource(), "inputs": {"manifests": []}},
    )
    assert expected.objects(exported(*others, resource(__initialApiVersion="v1", **sent))) == (sent,)


def test_what_a_state_keeps_encrypted_cannot_be_compared() -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
    with pytest.raises(PlatformError, match="urn:one: one of its values is secret"):
        expected.objects(exported(resource(**manifest("Secret", data={"a": [secret]}))))


REF = Ref("v1", "ConfigMap", "team", "one")


def test_an_object_is_named_by_its_kind_its_namespace_and_its_name() -> None:
    assert REF.key == "ConfigMap/team/one"
    assert Ref("v1", "Namespace", "", "one").key == "Namespace/one"


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        ("Deployment", "spec.template.spec.hostNetwork", "putting it right recreates its pods"),
        ("Deployment", "spec.replicas", ""),
        ("ConfigMap", "spec.template.a", ""),
    ],
)
def test_that_pods_are_made_anew_is_said_before(kind: str, path: str, said: str) -> None:
    assert consequence(Ref("v1", kind, "team", "one"), [Row(path, ABSENT, 1, None)]) == said


def test_what_git_does_not_have_is_drift_and_what_cannot_be_seen_is_not_known() -> None:
    same = [Verdict(REF, State.SAME)]
    assert exit_code(same, unmanaged=["one"]) == 1
    assert exit_code(same, unseen=["one"]) == 2


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([], 0),
        ([State.SAME, State.SAME], 0),
        ([State.SAME, State.REPAIRED, State.KEPT], 0),
        *(
            ([State.SAME, state], 1)
            for state in (State.DIFFERENT, State.MISSING, State.GOING, State.REPLACED, State.OWNED)
        ),
        ([State.DIFFERENT, State.UNJUDGED], 2),
    ],
)
def test_the_exit_code_says_yes_no_or_that_it_is_not_known(states: list[State], code: int) -> None:
    assert exit_code(Verdict(REF, state) for state in states) == code


@pytest.mark.parametrize(
    ("state", "why", "expected"),
    [
        (State.SAME, "", Verdict(REF, State.SAME)),
        (State.UNJUDGED, "403", Verdict(REF, State.UNJUDGED, why="403")),
        (State.DIFFERENT, "", Verdict(REF, State.KEPT)),
        (State.MISSING, "", Verdict(REF, State.KEPT, why="missing")),
        (State.GOING, "since then", Verdict(REF, State.KEPT, why="being deleted, since then")),
        (State.REPLACED, "immutable", Verdict(REF, State.KEPT, why="to be replaced, immutable")),
        (State.OWNED, "x controls it", Verdict(REF, State.KEPT, why="another's, x controls it")),
        (State.MUTATED, "by it", Verdict(REF, State.KEPT, why="changed by admission, by it")),
    ],
)
def test_what_is_to_stay_is_kept_however_it_differs_unless_that_is_not_known(
    state: State, why: str, expected: Verdict
) -> None:
    assert kept(Verdict(REF, state, why=why)) == expected


TEMPLATE = {"containers": [{"name": "node", "image": "a", "resources": {"limits": {"cpu": "1000m"}}}]}
SENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x", "annotations": {"a": "1"}},
    "spec": {"ports": [{"port": 1}, {"port": 2}], "pause": None, "template": {"spec": TEMPLATE}},
}
DEFAULTED = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x", "annotations": {"a": "1"}, "uid": "u", "finalizers": ["a.io/x"]},
    "spec": {
        "ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "TCP"}],
        "pause": False,
        "ipFamilies": ["IPv4"],
        "template": {
            "spec": {
                "containers": [
                    {"name": "node", "image": "a", "resources": {"limits": {"cpu": "1"}}, "tty": False}
                ],
                "dnsPolicy": "ClusterFirst",
            }
        },
    },
    "status": {"conditions": [{"type": "Ready"}]},
}


def with_in(manifest: JsonValue, place: str, value: JsonValue) -> JsonValue:
    changed = copy.deepcopy(manifest)
    at: Any = changed
    *way, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    for step in way:
        at = at[step]
    if isinstance(at, list):
        at.insert(int(last), value)
    else:
        at[last] = value
    return changed


def test_what_the_api_server_fills_in_by_itself_is_no_mutation() -> None:
    assert comparison.mutated(DEFAULTED, DEFAULTED, SENT) == ()


@pytest.mark.parametrize(
    ("place", "value", "row"),
    [
        ("metadata.annotations.a", "2", Row("metadata.annotations.a", "1", "2", None)),
        (
            "spec.template.spec.containers.0.image",
            "evil",
            Row("spec.template.spec.containers[name=node].image", "a", "evil", None),
        ),
        (
            "spec.template.spec.containers.1",
            {"name": "miner"},
            Row("spec.template.spec.containers[1]", ABSENT, {"name": "miner"}, None),
        ),
        (
            "spec.template.spec.initContainers",
            [{"name": "miner"}],
            Row("spec.template.spec.initContainers", ABSENT, [{"name": "miner"}], None),
        ),
        (
            "spec.template.spec.containers.0.command",
            ["sh"],
            Row("spec.template.spec.containers[name=node].command", ABSENT, ["sh"], None),
        ),
        ("spec.ports.0", {"port": 9}, Row("spec.ports[0]", ABSENT, {"port": 9}, None)),
        ("spec.subjects", [{"kind": "User"}], Row("spec.subjects", ABSENT, [{"kind": "User"}], None)),
    ],
)
def test_what_admission_puts_into_the_live_object_and_into_the_answer_is_a_mutation(
    place: str, value: JsonValue, row: Row
) -> None:
    mutated = with_in(DEFAULTED, place, value)
    assert comparison.mutated(mutated, mutated, SENT) == (row,)
    assert comparison.mutated(mutated, DEFAULTED, SENT) == (), "it is drift of the other sort"


def test_a_list_that_a_crd_may_fill_in_is_no_mutation_and_an_item_in_a_list_of_git_is() -> None:
    sent = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"}}
    sent |= {"spec": {"disruption": {}, "terms": [{"a": 1}]}}
    filled = with_in(sent, "spec.disruption.budgets", [{"nodes": "10%"}])
    assert comparison.mutated(filled, filled, sent) == ()
    there = with_in(filled, "spec.terms.1", {"b": 2})
    assert comparison.mutated(there, there, sent) == (Row("spec.terms[1]", ABSENT, {"b": 2}, None),)


def test_of_a_mutated_secret_no_value_is_shown() -> None:
    sent = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "MQ=="}}
    there = {**sent, "data": {"a": "Mg=="}}
    assert comparison.mutated(there, there, sent) == (Row("data.a", NOT_SHOWN, NOT_SHOWN, None),)
