"""What a tenant's people may do, asked of the API server itself, verb by verb; and where its packets go."""

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import Cluster, Object
from tests.support.live import Api, at_once, done
from tests.support.patience import STARTED, eventually
from trainyard_sandbox.paths import PROJECT

from .packets import connects, server

pytestmark = pytest.mark.sandbox(area="tenants")

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
LOOK = ("get", "list", "watch")
RESOURCES = (
    *(("trainer.kubeflow.org", one) for one in ("trainjobs", "trainingruntimes", "clustertrainingruntimes")),
    *(("", one) for one in ("pods", "pods/log", "pods/exec", "pods/portforward")),
    *(("", one) for one in ("events", "secrets", "configmaps")),
    *(
        ("", one)
        for one in ("persistentvolumeclaims", "resourcequotas", "serviceaccounts", "namespaces", "nodes")
    ),
    *(("kueue.x-k8s.io", one) for one in ("workloads", "localqueues", "clusterqueues")),
    ("jobset.x-k8s.io", "jobsets"),
    ("batch", "jobs"),
    ("scheduling.volcano.sh", "podgroups"),
    ("networking.k8s.io", "networkpolicies"),
    ("rbac.authorization.k8s.io", "rolebindings"),
)
SEEN = (
    *("trainjobs", "trainingruntimes", "clustertrainingruntimes", "pods", "events", "persistentvolumeclaims"),
    *("workloads", "localqueues", "jobsets", "jobs", "podgroups"),
)
VIEWER = {("get", "pods/log"), *product(LOOK, SEEN)}
WRITE = ("create", "update", "patch", "delete")
DATA_SCIENTIST = VIEWER | {
    *product(WRITE, ("trainjobs",)),
    *product((*LOOK, *WRITE), ("configmaps", "persistentvolumeclaims", "secrets")),
    *product(("get", "create"), ("pods/exec", "pods/portforward")),
    ("delete", "pods"),
}
ELSEWHERE = {(verb, "clustertrainingruntimes") for verb in LOOK}
"""In another tenant's namespace: the catalog alone, which is in none."""


def review(user: str, namespace: str, verb: str, group: str, resource: str) -> Object:
    name, _, sub = resource.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": sub}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
    }


def allowed(platform: Cluster, user: str, namespace: str) -> set[tuple[str, str]]:
    """Verb and resource of everything that the API server would let somebody do in a namespace."""
    asked = [(verb, group, resource) for verb in VERBS for group, resource in RESOURCES]
    manifests = [review(user, namespace, verb, group, resource) for verb, group, resource in asked]
    api = Api(platform.sandbox.instance.kubeconfig)
    answers = at_once(lambda manifest: done(api.create(manifest)), manifests)
    return {
        (verb, resource)
        for (verb, _, resource), one in zip(asked, answers, strict=True)
        if one["status"].get("allowed")
    }


@pytest.mark.core
def test_a_data_scientist_submits_trainjobs_and_does_beside_that_what_the_guides_ask(
    platform: Cluster,
) -> None:
    assert allowed(platform, "ada", "team-a") == DATA_SCIENTIST
    assert allowed(platform, "ada", "team-b") == ELSEWHERE


def test_a_viewer_looks_and_writes_nothing(platform: Cluster) -> None:
    assert allowed(platform, "vera", "team-a") == VIEWER
    assert allowed(platform, "vera", "default") == ELSEWHERE


def test_somebody_who_belongs_to_no_tenant_sees_none(platform: Cluster) -> None:
    assert allowed(platform, "mallory", "team-a") == set()


@pytest.mark.core
def test_packets_go_within_a_tenants_namespace_and_neither_into_it_nor_out_of_it(
    platform: Cluster, team_a: Cluster, team_b: Cluster
) -> None:
    everywhere = (team_a, team_b, platform.within("default"))
    for one in everywhere:
        one.apply(server("server", 8000), server("neighbour", 8000))
    try:
        servers = {}
        for one in everywhere:
            one.wait("pod/server", "pod/neighbour", condition="condition=Ready")
            servers[one.namespace] = (one.get("pod", "neighbour") or {})["status"]["podIP"]

        def reached() -> bool:
            found = {
                (str(asker.namespace), asked): connects(asker, address)
                for asker in everywhere
                for asked, address in servers.items()
            }
            assert found == {
                (asker, asked): asker == asked
                for asker in ("team-a", "team-b", "default")
                for asked in ("team-a", "team-b", "default")
            }
            # The API server's Service, with which jobs have no business, and the cluster's DNS, with which
            # they have.
            found_there = [connects(one, "kubernetes.default.svc", 443) for one in everywhere]
            assert found_there == [False, False, True]
            assert connects(team_a, "10.88.0.1", 53)
            return True

        # Rules are in force a moment after their pods are, and a packet may be late.
        eventually("who is to be reached is, and nobody else", reached, within=STARTED)
    finally:
        for one in everywhere:
            one.kubectl("delete", "pod", "server", "neighbour", "--wait")


def test_a_pod_that_would_keep_pods_of_other_namespaces_off_nodes_is_refused(team_a: Cluster) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}

    def refusal(**others: Object) -> str:
        pod = server("sly", 8000)
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, **others}]}
        pod["spec"]["affinity"] = {"podAntiAffinity": apart}
        command = ("kubectl", "create", "--dry-run=server", "-n", "team-a", "-f", "-")
        return team_a.run(*command, check=False, stdin=yaml.safe_dump(pod)).stderr

    assert refusal() == ""
    assert "exceeded quota: tenant-affinity" in refusal(namespaceSelector={})


@pytest.fixture
def before(platform: Cluster) -> Iterator[Object]:
    """A namespace of somebody's, from before the platform, with something in it."""
    manifest: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}}
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "namespace": "vision"}}
    platform.apply(manifest, data)
    yield platform.get("namespace", "vision")
    platform.kubectl("delete", "namespace", "vision", "--ignore-not-found", "--wait")


def with_vision(platform: Cluster, folder: Path) -> Path:
    """A stack file with one more tenant."""
    document = platform.stack()
    settings = document["config"]["trainyard:platform"]
    settings["tenants"]["vision"] = {
        "clusterQueue": settings["tenants"]["team-a"]["clusterQueue"],
        "labels": {"cost-center": "42"},
        "pullSecrets": ["registry"],
        "serviceAccounts": {
            "reader": {"annotations": {"iam.gke.io/gcp-service-account": "reader@example.com"}}
        },
        "rights": ["configmaps", "pods/exec"],
        "dataScientists": [{"kind": "User", "name": "grace"}],
    }
    file = folder / "Pulumi.sandbox.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_tenant_that_is_added_taken_out_and_put_back_leaves_nothing_that_the_guide_does_not_take_away(
    platform: Cluster, before: Object, tmp_path: Path
) -> None:
    roll_out = ("up", "--stack", "sandbox", "--yes", "--skip-preview")
    more = ("--config-file", str(with_vision(platform, tmp_path)))
    vision = platform.within("vision")
    platform.pulumi(*roll_out, *more)
    assert identities(vision, tmp_path) == {"default": ["registry"], "reader": ["registry"]}
    assert further(vision) == {"configmaps": "yes", "pods": "yes", "secrets": "no"}
    own = inside(vision)
    assert own >= {"LocalQueue default", "NetworkPolicy tenant", "ResourceQuota tenant", "LimitRange tenant"}
    assert own >= {"ServiceAccount default", "ServiceAccount reader"}
    try:
        platform.pulumi(*roll_out)
        assert {one for one in own if not one.startswith("Role")} == inside(vision), "rights go at once"
        assert set(further(vision).values()) == {"no"}
        platform.pulumi(*roll_out, *more)
        assert inside(vision) == own
        platform.pulumi("preview", "--stack", "sandbox", "--refresh", "--expect-no-changes", *more)
    finally:
        platform.pulumi(*roll_out)
    guide = (PROJECT / "docs" / "queues-and-tenants.md").read_text().partition("## Remove a team")[2]
    for command in re.findall(r"^\$ (kubectl (?!delete namespace).*vision.*)$", guide, re.M)[:5]:
        platform.run("sh", "-c", command)
    eventually("the cluster's own account is back", lambda: inside(vision) == set())
    platform.kubectl("label", "namespace", "vision", "cost-center-")
    after = platform.get("namespace", "vision")
    assert (after["metadata"]["uid"], after["metadata"]["labels"]) == (
        before["metadata"]["uid"],
        before["metadata"]["labels"],
    )
    assert vision.get("configmap", "own") is not None


def inside(place: Cluster) -> set[str]:
    """What a tenant's namespace has and others have not."""
    kinds = ("localqueues", "networkpolicies", "resourcequotas", "limitranges", "roles", "rolebindings")
    accounts = place.list("serviceaccounts", "trainyard.dev/tenant")
    objects = [*accounts, *(manifest for kind in kinds for manifest in place.list(kind))]
    return {f"{manifest['kind']} {manifest['metadata']['name']}" for manifest in objects}


def further(place: Cluster) -> dict[str, str]:
    """What a data scientist may make there beside TrainJobs."""
    asked = {"configmaps": (), "pods": ("--subresource=exec",), "secrets": ()}
    return {
        one: place.kubectl("auth", "can-i", "create", one, *more, "--as=grace", check=False).strip()
        for one, more in asked.items()
    }


def identities(place: Cluster, folder: Path) -> dict[str, list[str]]:
    """With which Secrets nodes pull the images of pods that name no account, and of those that name one."""
    found = {}
    for name, patch in (("default", {}), ("reader", {"serviceAccountName": "reader"})):
        container = {"name": "c", "image": "docker.io/trainyard/torch-cpu:sandbox"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": place.namespace},
            "spec": {**patch, "containers": [container]},
        }
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(pod))
        answer = place.kubectl("create", "--dry-run=server", "-o", "json", "-f", str(file))
        spec = json.loads(answer)["spec"]
        assert spec["serviceAccountName"] == name
        found[name] = [one["name"] for one in spec.get("imagePullSecrets") or ()]
    return found


def test_a_tenant_is_given_no_namespace_that_another_tool_keeps(
    platform: Cluster, before: Object, tmp_path: Path
) -> None:
    file = with_vision(platform, tmp_path)
    platform.kubectl("label", "namespace", "vision", "app.kubernetes.io/managed-by=Helm")
    for verb in ("preview", "up"):
        command = ("env", f"PULUMI_OPTION_CONFIG_FILE={file}", "make", verb, "STACK=sandbox")
        answer = platform.run(*command, check=False)
        assert answer.returncode != 0
        assert "refused: Namespace vision already exists, and Helm owns it." in answer.stderr
    assert inside(platform.within("vision")) == set()


def test_a_queue_that_has_stayed_is_not_moved_to_another_clusterqueue(
    platform: Cluster, before: Object, tmp_path: Path
) -> None:
    left = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": "vision"},
        "spec": {"clusterQueue": "team-b"},
    }
    platform.apply(left)
    file = with_vision(platform, tmp_path)
    for verb in ("preview", "up"):
        command = ("env", f"PULUMI_OPTION_CONFIG_FILE={file}", "make", verb, "STACK=sandbox")
        answer = platform.run(*command, check=False)
        assert answer.returncode != 0
        assert "refused: LocalQueue/vision/default is in the cluster from before" in answer.stderr
        assert "field is immutable" in answer.stderr
        assert "kubectl delete localqueue default -n vision" in answer.stderr
    assert inside(platform.within("vision")) == {"LocalQueue default"}
