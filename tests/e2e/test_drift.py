"""What somebody changes by hand is seen, each change with its path and who made it, and put right."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.cluster import Cluster, Object, trainjob
from tests.support.patience import STARTED, eventually

from .certificates import due, renewed_since
from .drift_changes import CHANGES, HAND, Change
from .life import accepted

pytestmark = pytest.mark.sandbox(area="platform")

AN_HOUR = 3600.0
"""Seconds."""
FLAVOR = ("resourceflavor", "cpu")
CONFIG = ("configmap", "trainyard-operator", "-n", "trainyard-system")


def binding(kind: str, name: str, namespace: str, of: str, account: str) -> Object:
    """A binding of cluster-admin to a ServiceAccount."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": of, "name": account}],
    }


def drift(platform: Cluster, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the answer as JSON."""
    command = ("trainyard", "drift", "--stack", "sandbox", "--output", "json", *options)
    answer = platform.run(*command, check=False)
    assert answer.stdout, answer.stderr
    return answer.returncode, json.loads(answer.stdout)


def as_they_are(platform: Cluster, *names: str) -> list[Object]:
    """The objects with the names of their writers; without them no later writer would get one."""
    answer: Object = json.loads(platform.kubectl("get", *names, "--show-managed-fields", "-o", "json"))
    return list(answer.get("items", [answer]))


def put_back(platform: Cluster, *before: Object) -> None:
    """Make the objects again what they were, whoever has changed them since."""
    items = []
    for manifest in before:
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "resourceVersion"}
        items.append({**manifest, "metadata": metadata})
    everything = {"apiVersion": "v1", "kind": "List", "items": items}
    platform.run("kubectl", "replace", "-f", "-", stdin=json.dumps(everything))


@pytest.fixture
def changed(platform: Cluster) -> Iterator[Cluster]:
    """All the changes by hand are made; afterwards the objects are as they were."""
    touched = list(dict.fromkeys((change.kind, change.namespace, change.name) for change in CHANGES))
    before: dict[tuple[str, str, str], Object] = {}
    for namespace in {namespace for _, namespace, _ in touched}:
        names = [f"{kind}/{name}" for kind, where, name in touched if where == namespace]
        for manifest in as_they_are(platform, *names, *(("-n", namespace) if namespace else ())):
            before[manifest["kind"].lower(), namespace, manifest["metadata"]["name"]] = manifest
    in_order = [before[key] for key in touched]
    try:
        for one in CHANGES:
            where = ("-n", one.namespace) if one.namespace else ()
            kind = "json" if isinstance(one.patch, tuple) else "merge"
            patch = ("--type", kind, "--field-manager", HAND, "-p", json.dumps(one.patch))
            platform.kubectl("patch", one.kind, one.name, *where, *patch)
        yield platform
    finally:
        put_back(platform, *in_order)


TOUCHED = {(change.kind, change.namespace, change.name) for change in CHANGES}


@pytest.mark.holds("platform")
def test_each_change_by_hand_is_seen_and_left_as_it_is(changed: Cluster) -> None:
    for _ in range(2):
        code, found = drift(changed)
        assert [str(change) for change in CHANGES if not _is_seen(change, found["findings"])] == []
        assert {_key(finding) for finding in found["findings"]} == TOUCHED
        assert (code, set(found["objects"])) == (1, {"same", "different"})


@pytest.mark.holds("platform")
@pytest.mark.core
def test_each_change_by_hand_is_seen_with_its_path_and_who_made_it_and_put_right(changed: Cluster) -> None:
    code, found = drift(changed, "--repair")
    assert [str(change) for change in CHANGES if not _is_seen(change, found["findings"])] == []
    assert (code, set(found["objects"])) == (0, {"same", "put right"})
    assert {_key(finding) for finding in found["findings"]} == TOUCHED
    assert drift(changed) == (
        0,
        {**found, "objects": {"same": sum(found["objects"].values())}, "findings": []},
    )


def _key(finding: dict[str, Any]) -> tuple[str, str, str]:
    return finding["kind"].lower(), finding["namespace"], finding["name"]


def _is_seen(change: Change, findings: list[dict[str, Any]]) -> bool:
    return any(
        field["path"].startswith(change.path)
        and (change.removes or (field["writer"] or {}).get("manager") == HAND)
        for one in findings
        if _key(one) == (change.kind, change.namespace, change.name)
        for field in one["fields"]
    )


BESIDE = [
    binding("ClusterRoleBinding", "more", "", "kueue-system", "kueue-controller-manager"),
    binding("RoleBinding", "more", "team-a", "team-a", "default"),
    {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "more", "namespace": "team-a"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        "rules": [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["*"], "verbs": ["*"]}],
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "more"},
        "webhooks": [
            {
                "name": "more.trainyard.example",
                "clientConfig": {"service": {"namespace": "default", "name": "nobody"}},
                "failurePolicy": "Ignore",
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-b"}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
        ],
    },
]


def test_what_git_does_not_have_and_gives_rights_into_the_platform_is_told(platform: Cluster) -> None:
    try:
        platform.apply(*BESIDE)
        code, found = drift(platform)
    finally:
        platform.run("kubectl", "delete", "-f", "-", stdin=json.dumps({"kind": "List", "items": BESIDE}))
    assert (code, found["findings"], found["unseen"]) == (1, [], [])
    assert {(one["kind"], one["namespace"], one["name"]): one["why"] for one in found["unmanaged"]} == {
        ("ClusterRole", "", "more"): "its rules are aggregated into ClusterRole edit",
        ("ClusterRoleBinding", "", "more"): (
            "gives ClusterRole cluster-admin to ServiceAccount kueue-system/kueue-controller-manager"
        ),
        ("MutatingWebhookConfiguration", "", "more"): "may change objects in team-b",
        ("NetworkPolicy", "team-a", "more"): "is in team-a, which belongs to the stack",
        ("RoleBinding", "team-a", "more"): (
            "gives ClusterRole cluster-admin in team-a to ServiceAccount team-a/default"
        ),
    }


def test_what_controllers_and_jobs_do_is_no_drift(platform: Cluster, team_a: Cluster) -> None:
    old = due(platform)
    for namespace in ("trainyard-system", "jobset-system"):
        platform.kubectl("rollout", "restart", "deployments", "-n", namespace)
        platform.kubectl("rollout", "status", "deployments", "-n", namespace, f"--timeout={STARTED}")
    renewed_since(platform, old)
    job = trainjob("undrifted", "true")
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    eventually("it is let in", lambda: accepted(team_a, job))
    team_a.apply(job)
    team_a.wait_for_condition("undrifted", "Complete")
    code, found = drift(platform)
    assert (found["findings"], found["unmanaged"], code) == ([], [], 0)


@pytest.mark.soak
def test_an_hour_of_jobs_new_pods_and_renewed_certificates_is_no_drift_and_a_scaled_deployment_is(
    platform: Cluster, team_a: Cluster
) -> None:
    number = 0
    end = time.monotonic() + AN_HOUR
    while time.monotonic() < end:
        number += 1
        job = trainjob(f"busy-{number}", "sleep 20")
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
        eventually("it is let in", lambda job=job: accepted(team_a, job))
        team_a.apply(job)
        platform.run("python", "examples/digits/submit.py")
        old = due(platform) if number % 3 == 0 else None
        for namespace in ("kueue-system", "trainyard-system"):
            platform.kubectl("rollout", "restart", "deployments", "-n", namespace)
        assert (number, *told(platform)) == (number, 0, {})
        if old is not None:
            renewed_since(platform, old)
            assert (number, *told(platform)) == (number, 0, {})
        # How many pods a Deployment has is git's to say, of each that the stack owns.
        scaled = ("scale", "deployment", "jobset-controller", "-n", "jobset-system")
        platform.kubectl(*scaled, "--replicas=2")
        assert (number, *told(platform)) == (number, 1, {"jobset-controller": ["spec.replicas"]})
        platform.kubectl(*scaled, "--replicas=1")
        assert (number, *told(platform)) == (number, 0, {})
        team_a.wait_for_condition(f"busy-{number}", "Complete")
    assert number >= 3


def told(platform: Cluster) -> tuple[int, dict[str, list[str]]]:
    """The exit code of a look for drift, and the fields that it names, by object."""
    code, found = drift(platform)
    named = {one["name"]: [field["path"] for field in one["fields"]] for one in found["findings"]}
    return code, {**named, **{one["name"]: [one["why"]] for one in found["unmanaged"]}}


@pytest.fixture
def config_map(platform: Cluster) -> Iterator[Object]:
    """An object of the stack, which is afterwards as it was."""
    [before] = as_they_are(platform, *CONFIG)
    yield before
    put_back(platform, before)


def manager_of_the_stack(manifest: Object) -> str:
    [entry] = [one for one in manifest["metadata"]["managedFields"] if "pulumi" in one["manager"]]
    return str(entry["manager"])


def test_who_writes_under_our_name_or_wipes_out_the_names_is_seen_all_the_same(
    platform: Cluster, config_map: Object
) -> None:
    ours = manager_of_the_stack(config_map)
    added = json.dumps({"data": {"more": "1"}})
    platform.kubectl("patch", *CONFIG, "--type", "merge", "--field-manager", ours, "-p", added)
    [finding] = drift(platform)[1]["findings"]
    [field] = finding["fields"]
    assert (finding["name"], field["path"], field["there"]) == ("trainyard-operator", "data.more", "1")
    assert field["writer"].keys() == {"manager", "operation", "at"}
    assert (field["writer"]["manager"], field["writer"]["operation"]) == (ours, "Update")
    emptied = json.dumps([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}])
    platform.kubectl("patch", *CONFIG, "--type", "json", "-p", emptied)
    [finding] = drift(platform)[1]["findings"]
    assert finding["fields"] == [{"path": "data.more", "there": "1", "writer": None}]


def test_make_drift_says_what_pulumi_does_not_see(platform: Cluster, config_map: Object) -> None:
    platform.kubectl("patch", *CONFIG, "--type", "merge", "-p", json.dumps({"data": {"more": "1"}}))
    answer = platform.run("make", "drift", "STACK=sandbox", "FORMAT=json", check=False)
    assert answer.returncode != 0
    assert json.loads(answer.stdout)["objects"]["different"] == 1
    assert "unchanged" in answer.stderr, "Pulumi's own preview goes before it"


def test_make_up_undoes_what_others_have_added_but_for_what_is_kept(
    platform: Cluster, config_map: Object
) -> None:
    platform.kubectl("patch", *CONFIG, "--type", "merge", "-p", json.dumps({"data": {"more": "1"}}))
    kept = "KEEP=ConfigMap/trainyard-system/trainyard-operator Namespace/team-a"
    assert "ConfigMap trainyard-system/trainyard-operator: kept" in up(platform, kept)
    assert platform.within("trainyard-system").get(*CONFIG[:2])["data"]["more"] == "1"
    said = up(platform)
    assert "  + data.more: 1 (by kubectl-patch, " in said
    assert "ConfigMap trainyard-system/trainyard-operator: put right" in said
    assert "more" not in platform.within("trainyard-system").get(*CONFIG[:2])["data"]
    platform.pulumi("preview", "--stack", "sandbox", "--refresh", "--expect-no-changes")


def test_what_pulumi_has_made_its_own_by_a_refresh_is_drift_all_the_same_and_undone(
    platform: Cluster, config_map: Object
) -> None:
    changed = {"data": {"more": "1", "config.yaml": "apiVersion: mine"}}
    platform.kubectl("patch", *CONFIG, "--type", "merge", "-p", json.dumps(changed))
    platform.pulumi("refresh", "--stack", "sandbox", "--yes", "--skip-preview")
    [finding] = drift(platform)[1]["findings"]
    assert {field["path"] for field in finding["fields"]} == {"data.more", "data[config.yaml]"}
    up(platform)
    after = platform.within("trainyard-system").get(*CONFIG[:2])
    assert after is not None
    assert after["data"] == config_map["data"]


def up(platform: Cluster, *options: str) -> str:
    return platform.run("make", "up", "STACK=sandbox", *options).stdout


def test_what_was_put_right_goes_when_git_no_longer_says_it(platform: Cluster) -> None:
    """It has not become the property of whoever put it right."""
    other = json.dumps({"spec": {"nodeLabels": {"kubernetes.io/os": "windows"}}})
    platform.kubectl("patch", *FLAVOR, "--type", "merge", "--field-manager", HAND, "-p", other)
    [finding] = drift(platform, "--repair")[1]["findings"]
    assert (finding["name"], finding["state"]) == ("cpu", "put right")
    document = platform.stack()
    before = document["config"]["trainyard:platform"]["queues"]["flavors"]["cpu"].pop("nodeLabels")
    assert labels_of_nodes(platform) == before
    without = platform.sandbox.instance.dir / "without.yaml"
    without.write_text(yaml.safe_dump(document))
    try:
        platform.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview", "--config-file", str(without))
        assert labels_of_nodes(platform) is None
    finally:
        platform.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")
    assert labels_of_nodes(platform) == before


def labels_of_nodes(platform: Cluster) -> Any:
    return (platform.get(*FLAVOR) or {})["spec"].get("nodeLabels")
