"""Every stack that is checked in: all that it asks the engine for, as recorded, and what no stack may do."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.checked_in import hold
from tests.support.program import ROOT, Registered, run
from tests.support.program import stack as settings_of

Graph = dict[str, Registered]
GraphOf = Callable[[str], Graph]

GOLDEN = ROOT / "tests/trainyard_platform/golden"
STACKS = [path.name.split(".")[1] for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))]
POOL = "trainyard.dev/pool"
RUNTIME = "kubernetes:trainer.kubeflow.org/v1alpha1:ClusterTrainingRuntime"
USERS = {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"}


def test_the_stacks_are_those_that_the_documents_name() -> None:
    assert STACKS == ["aks", "eks", "gke", "onprem", "openshift", "sandbox"]
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(STACKS)


@pytest.mark.parametrize("stack", STACKS)
def test_the_graph_of_a_stack_is_the_recorded_one(stack: str, graph_of: GraphOf) -> None:
    """`make generate` records them anew: read the difference, for a changed name is a replacement."""
    # The stack itself is registered by the first program of a process alone, and
    # runtimes are the catalog's: who adds one changes no other file.
    registered = [one for one in graph_of(stack).values() if one.type not in ("pulumi:pulumi:Stack", RUNTIME)]
    seen = [recorded(one) for one in sorted(registered, key=lambda one: one.key)]
    assert len(seen) > 20, "a recording of an empty program would pass for ever"
    hold(GOLDEN / f"{stack}.json", json.dumps(seen, indent=2, sort_keys=True) + "\n")


def recorded(one: Registered) -> dict[str, Any]:
    # Paths differ from machine to machine.
    inputs = {key: value for key, value in one.inputs.items() if key not in {"postRenderer", "chart"}}
    return {
        "type": one.type,
        "name": one.name,
        "parent": one.parent,
        "dependsOn": [other for other in one.depends_on if not other.startswith(f"{RUNTIME} ")],
        "retainOnDelete": one.retain,
        "inputs": inputs,
        **({"ignoreChanges": list(one.ignored)} if one.ignored else {}),
        **({"deletedWith": one.deleted_with} if one.deleted_with else {}),
        **({"protect": True} if one.protect else {}),
    }


@pytest.mark.parametrize("stack", ["aks", "eks", "gke"])
def test_a_stack_that_is_rendered_is_its_objects_and_no_machines(
    stack: str, graph_of: GraphOf, artifacts_folder: Path, pins: None, tmp_path: Path
) -> None:
    rendered = {one.key for one in run(settings_of(stack, artifacts_folder), renderTo=str(tmp_path))}
    objects = {key for key in graph_of(stack) if key.startswith("kubernetes:")}
    assert {key for key in rendered if key.startswith("kubernetes:")} == objects
    others = {key.split(":")[0] for key in rendered} - {"kubernetes", "trainyard", "pulumi"}
    assert others == set()


@pytest.mark.parametrize("stack", STACKS)
def test_no_empty_labels_or_annotations_are_said(stack: str, graph_of: GraphOf) -> None:
    """The API server leaves them out, which would look like drift for ever."""
    metadata = {one.key: one.inputs.get("metadata") or {} for one in graph_of(stack).values()}
    assert len(metadata) > 20
    assert [
        key for key, said in metadata.items() if {} in (said.get("labels"), said.get("annotations"))
    ] == []


def test_on_openshift_nothing_names_a_user_or_a_group(graph_of: GraphOf) -> None:
    """The cluster assigns them, and refuses pods that say something else."""
    found = {
        f"{one.key}: {name}" for one in graph_of("openshift").values() for name in said(one.inputs, USERS)
    }
    assert found == set()


def test_where_users_are_not_assigned_they_are_named(graph: Graph) -> None:
    """So that the test above can fail."""
    assert {name for one in graph.values() for name in said(one.inputs, USERS)} >= {"runAsUser", "fsGroup"}


def said(value: Any, keys: set[str]) -> Iterator[str]:
    """Which of the keys have a value somewhere within."""
    if isinstance(value, dict):
        yield from (key for key in keys & value.keys() if value[key] is not None)
        for inner in value.values():
            yield from said(inner, keys)
    if isinstance(value, list):
        for inner in value:
            yield from said(inner, keys)


def test_on_openshift_dns_is_reached_where_its_pods_answer(graph_of: GraphOf) -> None:
    policy = graph_of("openshift")[
        "kubernetes:networking.k8s.io/v1:NetworkPolicy networkpolicy-vision/tenant"
    ]
    ports = [port for rule in policy.inputs["spec"]["egress"] for port in rule.get("ports", [])]
    assert {(port["protocol"], port["port"]) for port in ports} == {
        (protocol, number) for protocol in ("UDP", "TCP") for number in (53, 5353)
    }


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_needs_the_connection_of_its_own_cloud_alone(stack: str, graph_of: GraphOf) -> None:
    providers = {one.type.split(":")[-1] for one in graph_of(stack).values() if "providers" in one.type}
    clouds = {"eks": {"aws"}, "gke": {"gcp"}, "aks": {"azure"}}
    assert providers == {"kubernetes"} | clouds.get(stack, set())


NODES = {
    "aws:eks/nodeGroup:NodeGroup": lambda inputs: (inputs["labels"], inputs["taints"]),
    "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool": lambda inputs: (
        inputs["nodeLabels"],
        [
            dict(zip(("key", "value", "effect"), re.split("[=:]", one), strict=True))
            for one in inputs["nodeTaints"]
        ],
    ),
    "gcp:container/nodePool:NodePool": lambda inputs: (
        inputs["nodeConfig"]["labels"],
        inputs["nodeConfig"]["taints"],
    ),
    "kubernetes:karpenter.sh/v1:NodePool": lambda inputs: (
        inputs["spec"]["template"]["metadata"]["labels"],
        inputs["spec"]["template"]["spec"]["taints"],
    ),
    "kubernetes:core/v1:Node": lambda inputs: (inputs["metadata"]["labels"], inputs["spec"]["taints"]),
}
"""Where each kind of nodes has its labels and taints."""


@pytest.mark.parametrize("stack", ["aks", "eks", "gke", "sandbox"])
def test_what_kueue_admits_to_a_pool_finds_its_nodes_and_tolerates_them(
    stack: str, graph_of: GraphOf
) -> None:
    graph = graph_of(stack)
    flavors = {
        one.inputs["metadata"]["name"]: one.inputs["spec"]
        for one in graph.values()
        if one.type == "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor"
    }
    found = [NODES[one.type](one.inputs) for one in graph.values() if one.type in NODES]
    assert {labels[POOL] for labels, _ in found} == {name for name in flavors if name != "cpu"}
    for labels, taints in found:
        flavor = flavors[labels[POOL]]
        assert flavor["nodeLabels"].items() <= labels.items()
        assert {spelt(taint) for taint in taints} == {spelt(taint) for taint in flavor["nodeTaints"]}
        assert {spelt(taint) for taint in taints} == {spelt(one) for one in flavor["tolerations"]}


def spelt(taint: dict[str, str]) -> tuple[str, str, str]:
    """A taint or toleration, whose effect EKS and GKE write as NO_SCHEDULE."""
    return taint["key"], taint["value"], taint["effect"].replace("_", "").lower()
