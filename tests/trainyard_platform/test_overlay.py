"""What a stack changes in a runtime reaches the pods that train, and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import ROOT
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import overlay
from trainyard_platform.stack import runtimes
from trainyard_platform.stack.runtimes import RuntimeOverlay

IMAGE = "docker.io/a/b:1"


def manifest(name: str) -> dict[str, Any]:
    [path] = (ROOT / "runtimes").glob(f"*/{name}.yaml")
    return catalog.read(path).manifest


def pods(runtime: Mapping[str, Any]) -> dict[str, Any]:
    """The pod templates of a runtime, by the name of the job."""
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"] for job in jobs}


def changed(name: str, **changes: Any) -> dict[str, Any]:
    given = manifest(name)
    result = overlay.apply(given, RuntimeOverlay.model_validate(changes))
    assert given == manifest(name), "the catalog's own copy must stay as it is"
    return pods(result)


def test_without_changes_it_is_the_file() -> None:
    assert overlay.apply(manifest("torch-rdma"), RuntimeOverlay()) == manifest("torch-rdma")


def test_every_change_has_its_place() -> None:
    before = pods(manifest("plain"))["node"]
    assert changed(
        "plain",
        image=IMAGE,
        imagePullPolicy="Never",
        env={"A": "stack"},
        resources={"nvidia.com/gpu": "8"},
        nodeSelector={"example.com/pool": "a"},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "value": "a"}],
        topology={"required": "example.com/rack"},
    ) == {
        "node": {
            "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}},
            "spec": {
                "automountServiceAccountToken": False,
                "restartPolicy": "Never",
                "nodeSelector": {"example.com/pool": "a"},
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists"},
                    {"key": "team", "operator": "Equal", "value": "a"},
                ],
                "containers": [
                    {
                        "name": "node",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                        "command": before["spec"]["containers"][0]["command"],
                        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "A", "value": "stack"}],
                        "resources": {"limits": {"nvidia.com/gpu": "8"}},
                    }
                ],
            },
        }
    }


def test_a_variable_of_the_stack_wins_over_the_catalogs() -> None:
    [container] = changed("torch-efa", env={"NCCL_DEBUG": "WARN"})["node"]["spec"]["containers"]
    found = {entry["name"]: entry["value"] for entry in container["env"]}
    assert (found["NCCL_DEBUG"], found["FI_PROVIDER"]) == ("WARN", "efa")


def test_tolerations_are_added_to_the_catalogs() -> None:
    pod = changed("torch-checkpointed", tolerations=[{"key": "a"}])["node"]["spec"]
    assert [one["key"] for one in pod["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "a",
    ]


def test_a_resource_of_zero_is_taken_away() -> None:
    [container] = changed("torch-rdma", resources={"rdma/ib": "0", "rdma/hca": "1"})["node"]["spec"][
        "containers"
    ]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8", "rdma/hca": "1"}}


def test_a_limit_of_the_stack_takes_the_place_of_the_runtimes_request() -> None:
    """It would stay when a TrainJob lowers the limit, and Kubernetes refuses such a pod."""
    given = manifest("plain")
    pods(given)["node"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "4", "memory": "1Gi"},
        "limits": {"cpu": "8"},
    }
    found = pods(overlay.apply(given, RuntimeOverlay.model_validate({"resources": {"cpu": "6"}})))["node"]
    assert found["spec"]["containers"][0]["resources"] == {
        "requests": {"memory": "1Gi"},
        "limits": {"cpu": "6"},
    }


def test_without_any_amount_there_are_no_resources() -> None:
    [container] = changed("torchtune-llama3.2-1b", resources={"nvidia.com/gpu": "0"})["node"]["spec"][
        "containers"
    ]
    assert container["resources"] == {}


def test_a_topology_takes_the_place_of_the_catalogs() -> None:
    template = changed("torch-topology", topology={"required": "example.com/rack"})["node"]
    assert template["metadata"] == {
        "annotations": {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    }


def test_a_topology_is_required_or_preferred() -> None:
    for wrong in ({}, {"required": "a", "preferred": "b"}):
        with pytest.raises(ValueError, match="needs one of the keys 'required' and 'preferred'"):
            runtimes.Placement.model_validate(wrong)


def test_changes_reach_the_launcher_and_the_workers_of_mpi() -> None:
    found = changed("mpi-distributed", image=IMAGE)
    assert {name: pod["spec"]["containers"][0]["image"] for name, pod in found.items()} == {
        "node": IMAGE,
        "launcher": IMAGE,
    }


def test_an_init_container_with_the_trainers_image_changes_with_it() -> None:
    [key] = changed("horovod-distributed", image=IMAGE)["launcher"]["spec"]["initContainers"]
    assert key["image"] == IMAGE


def test_image_and_variables_reach_the_chief_and_the_parameter_server_and_what_is_the_nodes_does_not() -> (
    None
):
    found = changed(
        "tensorflow-ps", image=IMAGE, env={"A": "1"}, resources={"cpu": "8"}, tolerations=[{"key": "a"}]
    )
    containers = {name: pod["spec"]["containers"][0] for name, pod in found.items()}
    assert {name: container["image"] for name, container in containers.items()} == {
        "chief": IMAGE,
        "ps": IMAGE,
        "node": IMAGE,
    }
    assert [container["env"][-1] for container in containers.values()] == 3 * [{"name": "A", "value": "1"}]
    assert [name for name, container in containers.items() if "resources" in container] == ["node"]
    assert [name for name, pod in found.items() if "tolerations" in pod["spec"]] == ["node"]


def test_initializers_stay_as_they_are() -> None:
    found = changed("torch-with-initializers", image=IMAGE, tolerations=[{"key": "a"}])
    before = pods(manifest("torch-with-initializers"))
    steps = ("dataset-initializer", "model-initializer")
    assert {step: found[step] for step in steps} == {step: before[step] for step in steps}


def test_a_sidecar_of_another_image_and_an_initializer_of_the_trainers_stay_as_they_are() -> None:
    given = manifest("torch-with-initializers")
    before = pods(given)
    [trainer] = before["node"]["spec"]["containers"]
    [loader] = before["dataset-initializer"]["spec"]["containers"]
    loader["image"] = trainer["image"]
    aside = {"name": "aside", "image": "docker.io/c/d:1", "resources": {"limits": {"cpu": "1"}}}
    same = {"name": "same", "image": trainer["image"], "resources": {"limits": {"cpu": "1"}}}
    before["node"]["spec"] |= {"containers": [trainer, aside, same], "initContainers": [same, aside]}
    changes = {"image": IMAGE, "env": {"A": "1"}, "resources": {"nvidia.com/gpu": "8"}}
    found = pods(overlay.apply(given, RuntimeOverlay.model_validate(changes)))
    own = [{"name": "A", "value": "1"}]
    changed_same = {**same, "image": IMAGE, "env": own}
    changed_trainer = {
        **trainer,
        "image": IMAGE,
        "env": [*trainer["env"], *own],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    assert found == {
        **before,
        "node": {
            "spec": {
                **before["node"]["spec"],
                "containers": [changed_trainer, aside, changed_same],
                "initContainers": [changed_same, aside],
            }
        },
    }


def test_the_resulting_catalog_has_the_changes(tmp_path: Path) -> None:
    name = "mpi-distributed"
    found = catalog.load(ROOT / "runtimes", {name: RuntimeOverlay(image=IMAGE)})
    [mpi] = (runtime for runtime in found if runtime.name == name)
    assert pods(mpi.manifest) == changed(name, image=IMAGE)
