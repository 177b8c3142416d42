"""Changes that recreate a stack's objects."""

from typing import Any

import pytest

from trainyard_delivery import replacements
from trainyard_delivery.rollout.events import Op, Step
from trainyard_platform.stack import settings

IDENTIFIER = (
    "cluster.identifier: {} -> {} makes Pulumi recreate every object of the stack and then delete the old "
    "one: in the cluster they are the same objects, and queues, tenants and quotas go"
)
MOVED = (
    "cluster.{}: {} -> {} moves the stack, if that is another cluster: what it has in the old one stays "
    "there, and nothing manages it"
)


OTHER_SUBNETS = "cluster.eks.subnets: other subnets recreate the nodes of {}: the pods on them are lost"
OTHER_GROUPS = (
    "cluster.eks.securityGroups: other security groups recreate the nodes of efa: the pods on them are lost"
)
OTHER_NETWORKS = "cluster.gke.networks: other networks recreate the nodes of gpu: the pods on them are lost"


def stack(**cluster: Any) -> settings.StackSettings:
    operator = {"image": "example.com/operator:1"}
    return settings.of({"operator": operator, "cluster": cluster}, "lab")


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        ({}, {"version": "1.35"}, []),
        ({}, {"identifier": "lab"}, []),
        ({}, {"identifier": "lab2"}, [IDENTIFIER.format("lab", "lab2")]),
        ({"identifier": "lab"}, {"identifier": "lab2"}, [IDENTIFIER.format("lab", "lab2")]),
        ({}, {"context": "b"}, [MOVED.format("context", "none", "b")]),
        ({"kubeconfig": "/a"}, {"kubeconfig": "/b"}, [MOVED.format("kubeconfig", "/a", "/b")]),
    ],
)
def test_what_a_change_of_the_stack_file_does_to_the_whole_stack(
    before: dict[str, Any], after: dict[str, Any], sentences: list[str]
) -> None:
    assert list(replacements.of_stack("lab", stack(**before), stack(**after))) == sentences


EKS = {
    "name": "c",
    "region": "eu-west-1",
    "nodeRole": "arn:aws:iam::123456789012:role/nodes",
    "subnets": {"a": "subnet-a", "b": "subnet-b"},
    "securityGroups": ["sg-1", "sg-2"],
}
LOST = ": the pods on them are lost"


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({"securityGroups": ["sg-2", "sg-1"]}, []),
        ({"securityGroups": ["sg-1"]}, [OTHER_GROUPS]),
        ({"name": "d"}, ["cluster.eks.name: c -> d recreates the nodes of everywhere, in-a, efa" + LOST]),
        ({"subnets": {"a": "subnet-a", "b": "subnet-c"}}, [OTHER_SUBNETS.format("everywhere")]),
        (
            {"subnets": {"a": "subnet-a", "b": "subnet-b", "c": "subnet-c"}},
            [OTHER_SUBNETS.format("everywhere")],
        ),
        ({"subnets": {"a": "subnet-x", "b": "subnet-b"}}, [OTHER_SUBNETS.format("everywhere, in-a, efa")]),
    ],
    ids=[
        "the same groups",
        "another group",
        "another cluster",
        "another subnet",
        "a further zone",
        "of a zone",
    ],
)
def test_what_a_change_of_a_clouds_cluster_does_to_the_nodes_of_its_pools(
    changed: dict[str, Any], sentences: list[str]
) -> None:
    machine = {"cpu": "4", "memory": "8Gi", "type": "m5.xlarge"}
    pool = {"provider": "eks", "nodes": 2, "machine": machine}
    efa = {**pool, "zones": ["a"], "machine": {**machine, "resources": {"vpc.amazonaws.com/efa": "1"}}}
    pools = {"everywhere": pool, "in-a": {**pool, "zones": ["a"]}, "efa": efa}
    before, after = (on_cloud(pools, eks=cluster) for cluster in (EKS, {**EKS, **changed}))
    assert list(replacements.of_stack("lab", before, after)) == sentences


def test_only_the_nodes_in_a_network_of_gke_are_recreated_with_it() -> None:
    machine = {"cpu": "4", "memory": "8Gi", "type": "a3-highgpu-8g"}
    pool = {"provider": "gke", "nodes": 2, "machine": machine, "zones": ["europe-west4-a"]}
    pools = {"cpu": pool, "gpu": {**pool, "networks": ["a"]}}
    before, after = (
        on_cloud(
            pools,
            gke={
                "project": "p",
                "location": "europe-west4",
                "name": "c",
                "networks": {"a": {"network": network, "subnetwork": "s"}},
            },
        )
        for network in ("first", "second")
    )
    assert list(replacements.of_stack("lab", before, after)) == [OTHER_NETWORKS]


def on_cloud(pools: dict[str, Any], **cluster: Any) -> settings.StackSettings:
    given = {
        "operator": {"image": "example.com/operator:1"},
        "accelerators": {"efa": {"devicePlugin": "install"}},
        "nodePools": pools,
        "cluster": cluster,
    }
    return settings.of(given, "lab")


def manifest(kind: str, name: str, version: str = "v1beta2") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team-a"}
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata}


def step(urn: str, op: Op, manifest: dict[str, Any]) -> Step:
    return Step(urn, op, manifest, {} if op in (Op.DELETE, Op.LEAVE) else manifest)


QUEUE, MAP = manifest("LocalQueue", "default"), manifest("ConfigMap", "default")


@pytest.mark.parametrize(
    ("steps", "recreated"),
    [
        ([step("old", Op.REPLACE, QUEUE)], ["LocalQueue/team-a/default"]),
        ([step("old", Op.DELETE, QUEUE)], []),
        ([step("old", Op.DELETE, QUEUE), step("new", Op.CREATE, QUEUE)], ["LocalQueue/team-a/default"]),
        (
            [
                step("old", Op.DELETE, manifest("LocalQueue", "default", "v1beta1")),
                step("new", Op.SAME, QUEUE),
            ],
            ["LocalQueue/team-a/default"],
        ),
        ([step("old", Op.LEAVE, QUEUE), step("new", Op.CREATE, QUEUE)], []),
        ([step("old", Op.DELETE, QUEUE), step("other", Op.CREATE, manifest("LocalQueue", "other"))], []),
        ([step("old", Op.DELETE, MAP), step("new", Op.CREATE, MAP)], []),
    ],
    ids=[
        "replaced",
        "only deleted",
        "declared in another place",
        "and of another version",
        "left in the cluster",
        "another object is created",
        "an object without jobs and quotas",
    ],
)
def test_an_object_that_holds_jobs_is_recreated_if_it_is_deleted_and_stays_in_the_stack(
    steps: list[Step], recreated: list[str]
) -> None:
    assert replacements.not_allowed(steps, ()) == recreated
    for allowed in ("LocalQueue/team-a/default", "all"):
        assert replacements.not_allowed(steps, [allowed]) == []


def test_of_many_objects_the_flag_names_all() -> None:
    told = replacements.refusal([f"ClusterQueue/{number}" for number in range(7)])
    assert "ClusterQueue/4 and 2 more and then" in told
    assert told.endswith('add --replace "all"')


def test_of_a_move_with_the_same_stack_file_it_says_how_to_go_back_and_how_to_go_on() -> None:
    move = replacements.Move(
        "urn", ("cluster.context",), "https://a (context x)", "https://b (context x)", True
    )
    assert str(move) == (
        "refused: the last roll-out went to https://a (context x); now the same stack file leads to "
        "https://b (context x), which is another cluster: its namespace kube-system has another uid. If the "
        "stack has not moved, select the old cluster again in the kubeconfig: kubectl config use-context "
        "NAME. If it has moved, or the cluster was recreated, run `up` with --replace "
        '"cluster.context": what it has in the old cluster stays there, and nothing manages it'
    )


def test_of_another_context_for_the_same_cluster_it_says_so_and_how_to_go_on() -> None:
    move = replacements.Move(
        "urn", ("cluster.context",), "https://a (context x)", "https://a (context y)", same_cluster=True
    )
    assert str(move) == (
        "refused: cluster.context of the stack file differs from the last roll-out, which went to https://a "
        "(context x); now it is https://a (context y). That is the same cluster: its namespace kube-system "
        "has the same uid. But Pulumi would still use the old cluster.context. Run `up` with --replace "
        '"cluster.context", which first writes the new one into Pulumi\'s state'
    )
