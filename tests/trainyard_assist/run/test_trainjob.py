"""Settings and a runtime make a plain TrainJob."""

from typing import Any

import pytest

from tests.support.run_runtimes import runtime
from trainyard_api.errors import UserError
from trainyard_assist.local.variables import expanded
from trainyard_assist.run import settings
from trainyard_assist.run.runtime import Runtime
from trainyard_assist.run.trainjob import base_name, comparable, gpu_of, names_gpu, trainjob

COMMAND = ["python", "train.py"]


def made(given: dict[str, Any], on: Runtime | None = None, **more: Any) -> dict[str, Any]:
    chosen = settings.of_options({"command": COMMAND, **given})
    return trainjob(chosen, on or runtime(), namespace="team", name="train-x", **more)


def test_a_command_alone_makes_the_smallest_trainjob() -> None:
    assert made({}) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train-x", "namespace": "team"},
        "spec": {"runtimeRef": {"name": "rt"}, "trainer": {"command": ["torchrun", "train.py"]}},
    }


def test_variables_and_those_of_secrets_reach_the_ranks_on_other_nodes() -> None:
    job = made({"env": ["STEPS=200"]}, runtime("mpi"), secret_keys={"hub": ["HF_TOKEN"]})
    assert job["spec"]["trainer"] == {
        "command": ["mpirun", "-x", "HF_TOKEN", "-x", "STEPS", *COMMAND],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN"}}},
            {"name": "STEPS", "value": "200"},
        ],
    }


def test_each_setting_has_its_field() -> None:
    given = {
        "nodes": 2,
        "gpus": 8,
        "cpus": "16",
        "memory": "64Gi",
        "queue": "gpus",
        "priority": "high",
        "image": "registry.example.com/team/train:1",
        "env": ["EPOCHS=3"],
    }
    job = made(given, folder="resnet-1a2b3c4d", secret_keys={"hub": ["EPOCHS", "TOKEN"]})
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}
    assert job["metadata"]["labels"] == {
        "trainyard.dev/folder": "resnet-1a2b3c4d",
        "kueue.x-k8s.io/queue-name": "gpus",
        "kueue.x-k8s.io/priority-class": "high",
    }
    assert job["spec"]["trainer"] == {
        "command": ["torchrun", "train.py"],
        "numNodes": 2,
        "image": "registry.example.com/team/train:1",
        "env": [
            {"name": "EPOCHS", "value": "3"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "TOKEN"}}},
        ],
        "resourcesPerNode": {"requests": amounts, "limits": amounts},
    }


def test_what_is_given_reaches_the_container_as_it_is_but_for_variables_in_parentheses() -> None:
    script = "mkdir /tmp/x.$$ /tmp/$$$(A) /tmp/$$(A) $((1 + 1)) $B"
    model = made({"command": ["bash", "-c", script], "env": ["DB=pa$$word"]})
    trainer = model["spec"]["trainer"]
    assert trainer == {
        "command": ["bash", "-c", "mkdir /tmp/x.$$$$ /tmp/$$$$$(A) /tmp/$$$$(A) $((1 + 1)) $B"],
        "env": [{"name": "DB", "value": "pa$$$$word"}],
    }
    assert expanded(trainer["command"][2], {"A": "a"}) == script.replace("$(A) /tmp", "a /tmp")
    assert expanded(trainer["env"][0]["value"], {}) == "pa$$word"
    copy = made({"command": [], "env": ["C=$$"]}, copied=model)["spec"]["trainer"]
    assert copy == {**trainer, "env": [*trainer["env"], {"name": "C", "value": "$$$$"}]}


def test_the_words_for_the_runtimes_own_command_reach_it_as_they_are() -> None:
    own = runtime(command=["python", "-m", "trainers"])
    assert made({"command": ["name=$$"]}, own)["spec"]["trainer"] == {"args": ["name=$$$$"]}


def test_a_runtime_of_the_namespace_is_named_with_its_kind() -> None:
    job = made({}, runtime(kind="TrainingRuntime"))
    assert job["spec"]["runtimeRef"] == {"name": "rt", "kind": "TrainingRuntime"}


def test_amounts_of_the_runtime_that_no_setting_names_stay() -> None:
    resources = {"limits": {"amd.com/gpu": "4", "memory": "8Gi"}, "requests": {"cpu": "2"}}
    own = runtime(resources=resources)
    assert made({"memory": "64Gi"}, own)["spec"]["trainer"]["resourcesPerNode"] == {
        "requests": {"cpu": "2", "memory": "64Gi"},
        "limits": {"amd.com/gpu": "4", "memory": "64Gi"},
    }
    limits = made({"gpus": 2}, own)["spec"]["trainer"]["resourcesPerNode"]["limits"]
    assert limits == {"amd.com/gpu": "2", "memory": "8Gi"}


def test_no_gpus_are_said_only_where_there_would_be_some() -> None:
    assert "resourcesPerNode" not in made({"gpus": 0})["spec"]["trainer"]
    some = made({"gpus": 0}, runtime(resources={"limits": {"nvidia.com/gpu": "8"}}))
    assert some["spec"]["trainer"]["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": "0"}


@pytest.mark.parametrize(
    ("covered", "gpu"),
    [
        ((), "nvidia.com/gpu"),
        (("cpu", "google.com/tpu"), "nvidia.com/gpu"),
        (("cpu", "amd.com/gpu"), "amd.com/gpu"),
        (("gpu.intel.com/i915",), "gpu.intel.com/i915"),
        (("amd.com/gpu", "nvidia.com/gpu"), "nvidia.com/gpu"),
    ],
)
def test_a_gpu_is_the_only_kind_of_the_queue_or_else_nvidias(covered: tuple[str, ...], gpu: str) -> None:
    groups = [{"coveredResources": [resource]} for resource in covered]
    assert gpu_of({"metadata": {"name": "gpus"}, "spec": {"resourceGroups": groups}}) == gpu
    amounts = {gpu: "2"}
    assert made({"gpus": 2}, gpu=gpu)["spec"]["trainer"]["resourcesPerNode"] == {
        "requests": amounts,
        "limits": amounts,
    }


def test_several_kinds_of_gpus_of_a_queue_are_named() -> None:
    groups = [{"coveredResources": ["gpu.intel.com/i915", "cpu", "amd.com/gpu"]}]
    with pytest.raises(UserError) as refused:
        gpu_of({"metadata": {"name": "gpus"}, "spec": {"resourceGroups": groups}})
    assert str(refused.value) == (
        "ClusterQueue gpus has several kinds of GPUs, and --gpus does not say which: name a runtime with a "
        "limit of amd.com/gpu or gpu.intel.com/i915"
    )


def test_the_job_that_is_copied_or_the_runtime_names_the_gpu() -> None:
    amd = {"limits": {"amd.com/gpu": "4"}}
    copied = {"spec": {"trainer": {"resourcesPerNode": amd}}}
    assert [
        names_gpu(runtime(), None),
        names_gpu(runtime(resources=amd), None),
        names_gpu(runtime(), copied),
    ] == [
        False,
        True,
        True,
    ]


LIVE: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {
        "name": "old",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "labels": {"team": "vision", "kueue.x-k8s.io/queue-name": "gpus"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kueue.x-k8s.io/admission-gated-by": "trainyard.dev/sent-suspended",
            "trainyard.dev/max-restarts": "0",
        },
    },
    "spec": {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "rt"},
        "suspend": True,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "activeDeadlineSeconds": 60,
        "runtimePatches": [
            {"manager": "kueue.x-k8s.io/manager"},
            {"manager": "example.com/mine", "time": "2026-01-01T00:00:00Z"},
        ],
        "trainer": {
            "numNodes": 2,
            "command": ["bash", "-c", "true"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
    },
    "status": {"trainyard": {"state": "Failed"}},
}


def test_a_copy_has_what_its_user_said_and_what_the_options_change() -> None:
    chosen = settings.of_options({"nodes": 4, "env": ["B=3"]})
    assert trainjob(chosen, runtime(), namespace="team", name="new", copied=LIVE) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": "new",
            "namespace": "team",
            "labels": {"team": "vision", "kueue.x-k8s.io/queue-name": "gpus"},
            "annotations": {"trainyard.dev/max-restarts": "0"},
        },
        "spec": {
            "runtimeRef": {"name": "rt"},
            "activeDeadlineSeconds": 60,
            "runtimePatches": [{"manager": "example.com/mine"}],
            "trainer": {
                "numNodes": 4,
                "command": ["bash", "-c", "true"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}],
            },
        },
    }


def test_a_copy_of_a_job_that_multikueue_has_sent_is_not_taken_for_one() -> None:
    name = "kueue.x-k8s.io/prebuilt-workload-name"
    sent = {
        "labels": {**LIVE["metadata"]["labels"], name: "w", "kueue.x-k8s.io/multikueue-origin": "multikueue"},
        "annotations": {**LIVE["metadata"]["annotations"], name: "w"},
    }
    copied = {**LIVE, "metadata": {**LIVE["metadata"], **sent}}
    chosen = settings.of_options({})
    copies = [trainjob(chosen, runtime(), namespace="team", name="new", copied=job) for job in (copied, LIVE)]
    assert copies[0] == copies[1]


def test_a_copy_with_another_command_starts_that() -> None:
    chosen = settings.of_options({"command": ["python", "other.py"]})
    copy = trainjob(chosen, runtime(), namespace="team", name="new", copied=LIVE)
    assert copy["spec"]["trainer"]["command"] == ["torchrun", "other.py"]


def test_a_copy_with_another_script_starts_nothing_of_its_model() -> None:
    trainer = {"command": ["torchrun", "train.py"], "args": ["-v"]}
    live = {"metadata": {"name": "old"}, "spec": {"runtimeRef": {"name": "rt"}, "trainer": trainer}}
    own = runtime(command=["torchrun"])
    other, options = (
        trainjob(settings.of_options({"command": words}), own, namespace="team", name="new", copied=live)
        for words in (["python", "other.py"], ["--epochs", "3"])
    )
    assert other["spec"]["trainer"] == {"args": ["other.py"]}
    assert options["spec"]["trainer"] == {"command": ["torchrun", "train.py"], "args": ["--epochs", "3"]}


def test_a_copy_of_a_job_without_command_starts_as_that() -> None:
    live = {"metadata": {"name": "old"}, "spec": {"runtimeRef": {"name": "rt"}}}
    own = runtime(command=["python", "-m", "trainers"])
    copy = trainjob(settings.of_options({}), own, namespace="team", name="new", copied=live)
    assert copy["spec"] == {"runtimeRef": {"name": "rt"}}


@pytest.mark.parametrize("command", [[], ["python", "-m", "trainers"]], ids=["none", "one"])
def test_a_copy_of_a_job_with_an_empty_command_starts_the_images_own(command: list[str]) -> None:
    spec = {"runtimeRef": {"name": "rt"}, "trainer": {"command": [], "args": ["-v"]}}
    live = {"metadata": {"name": "old"}, "spec": spec}
    own = runtime(command=command)
    same, options, other = (
        trainjob(settings.of_options({"command": words}), own, namespace="team", name="new", copied=live)
        for words in ([], ["--epochs", "3"], ["python", "other.py"])
    )
    assert [copy["spec"]["trainer"] for copy in (same, options, other)] == [
        {"command": [], "args": ["-v"]},
        {"command": [], "args": ["--epochs", "3"]},
        {"command": ["torchrun", "other.py"]},
    ]


def test_what_a_cluster_adds_is_no_difference() -> None:
    chosen = settings.of_options({})
    copy = trainjob(chosen, runtime(), namespace="team", name="new", copied=LIVE)
    assert comparable(copy) == comparable(LIVE)


@pytest.mark.parametrize(
    ("command", "copied", "name"),
    [
        (["python", "src/Train_ResNet.py"], "", "train-resnet"),
        (["python", "-m", "team.train"], "", "train"),
        (["./3d.sh"], "", "job-3d"),
        (["python", "-c", "1"], "", "job"),
        ([], "llama-x7k2f", "llama"),
        ([], "llama", "llama"),
        (["python", "x" * 90 + ".py"], "", "x" * 30),
    ],
)
def test_a_generated_name_begins_as_the_script_is_called(command: list[str], copied: str, name: str) -> None:
    assert base_name(command, copied) == name
