"""What runtimes start in a container before the script does: run here as the container runs it."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubeflow.trainer import BuiltinTrainer, LoraConfig, TorchTuneConfig
from kubeflow.trainer.backends.kubernetes import backend, utils
from kubeflow.trainer.types import types
from kubeflow_trainer_api import models  # type: ignore[import-untyped]

from trainyard_api import documents
from trainyard_assist.render import render
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import in_pods

FOLDER = Path(__file__).parents[2] / "runtimes"


def pods(name: str, job: str = "node") -> dict[str, Any]:
    """The pods of one job of a runtime, as its file has them."""
    [path] = FOLDER.glob(f"*/{name}.yaml")
    jobs = catalog.read(path).manifest["spec"]["template"]["spec"]["replicatedJobs"]
    [found] = (one for one in jobs if one["name"] == job)
    pod: dict[str, Any] = found["template"]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize(
    ("own", "nodes", "restarts"),
    [({}, "1:4", "3"), ({"MIN_NODES": "2", "MAX_RESTARTS": "9"}, "2:4", "9")],
    ids=["as it is", "by variables"],
)
def test_elastic_torchrun_is_told_the_least_and_the_most(
    tmp_path: Path, own: dict[str, str], nodes: str, restarts: str
) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    torchrun.chmod(0o755)
    [container] = pods("torch-elastic")["containers"]
    rendezvous = {"PET_NNODES": "4", "PET_MASTER_ADDR": "j-node-0-0.j", "PET_MASTER_PORT": "29500"}
    shown = subprocess.run(
        [*container["command"], "train.py", "--name=a b"],
        env={
            **rendezvous,
            "JOBSET_UID": "uid",
            "RESTART": "1",
            "PET_NODE_RANK": "1",
            **own,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines() == [
        f"--nnodes={nodes}",
        f"--max_restarts={restarts}",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=j-node-0-0.j:29500",
        "--rdzv_conf=is_host=false",
        "--rdzv_id=uid-1",
        "train.py",
        "--name=a b",
    ]


@pytest.mark.parametrize("least", ["5", "0", "-1", "two", "1.5", " "])
def test_elastic_torchrun_is_not_started_with_a_least_that_would_be_refused_again_and_again(
    least: str,
) -> None:
    [container] = pods("torch-elastic")["containers"]
    env = {"PET_NNODES": "4", "PET_NODE_RANK": "1", "MIN_NODES": least, "PATH": os.environ["PATH"]}
    ended = subprocess.run(
        [*container["command"], "train.py"], env=env, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        42,
        "",
        f"MIN_NODES is {least}: set it to a number from 1 to numNodes, which is 4\n",
    )


def sent_by_the_sdk(name: str, trainer: BuiltinTrainer) -> dict[str, Any]:
    """The TrainJob that the SDK posts for a runtime of the catalog."""
    [path] = FOLDER.glob(f"*/{name}.yaml")
    runtime = models.TrainerV1alpha1ClusterTrainingRuntime.from_dict(catalog.read(path).manifest)
    jobs, policy = runtime.spec.template.spec.replicated_jobs, runtime.spec.ml_policy
    trainer_of_it = utils.get_runtime_trainer(path.parent.name, jobs, policy)
    found = types.Runtime(name=name, kind=types.RuntimeKind.CLUSTER_TRAINING_RUNTIME, trainer=trainer_of_it)
    posted: list[dict[str, Any]] = []
    sdk = backend.KubernetesBackend.__new__(backend.KubernetesBackend)
    sdk.namespace = "ns"
    sdk.custom_api = SimpleNamespace(create_namespaced_custom_object=lambda *body: posted.append(body[-1]))
    sdk.train(runtime=found, trainer=trainer)
    return posted[0]


OVERRIDES = {
    "llama": ["tokenizer.path=/workspace/model/original/tokenizer.model"],
    "qwen": [
        "tokenizer.path=/workspace/model/vocab.json",
        "tokenizer.merges_file=/workspace/model/merges.txt",
    ],
}


@pytest.mark.parametrize(
    ("name", "lora", "recipe", "config", "tokenizer"),
    [
        ("torchtune-llama3.2-1b", False, "full_finetune_distributed", "llama3_2/1B_full", "llama"),
        ("torchtune-llama3.2-3b", True, "lora_finetune_distributed", "llama3_2/3B_lora", "llama"),
        ("torchtune-qwen2.5-1.5b", False, "full_finetune_distributed", "qwen2_5/1.5B_full", "qwen"),
    ],
)
def test_the_sdks_builtin_trainer_becomes_torchtunes_recipe(
    name: str, lora: bool, recipe: str, config: str, tokenizer: str
) -> None:
    tuned = TorchTuneConfig(
        epochs=1, resources_per_node={"gpu": 2}, peft_config=LoraConfig() if lora else None
    )
    job = sent_by_the_sdk(name, BuiltinTrainer(config=tuned))
    [path] = FOLDER.glob(f"*/{name}.yaml")
    given = documents.parse(documents.dump([job]), "job.yaml")
    (jobset,) = render(given, documents.parse(path.read_text(), path.name))
    steps = jobset["spec"]["replicatedJobs"]
    assert [step["name"] for step in steps] == ["dataset-initializer", "model-initializer", "node"]
    [container] = steps[2]["template"]["spec"]["template"]["spec"]["containers"]
    own = job["metadata"]["name"]
    assert container["command"] == [
        "tune",
        "run",
        f"--rdzv_endpoint={own}-node-0-0.{own}:29500",
        recipe,
        "--config",
        config,
        "output_dir=/workspace/output",
        *OVERRIDES[tokenizer],
        "checkpointer.checkpoint_dir=/workspace/model",
    ]
    assert "epochs=1" in container["args"]


@pytest.mark.parametrize("runtime", catalog.every(FOLDER), ids=lambda runtime: runtime.name)
def test_the_sdk_reads_the_devices_of_every_container(runtime: catalog.Runtime) -> None:
    """`get_job` fails where a container's limits name neither a CPU nor an accelerator that the SDK knows."""
    for job in runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            resources = models.IoK8sApiCoreV1ResourceRequirements.from_dict(container.get("resources", {}))
            devices = utils.get_container_devices(resources)
            limited = "limits" in container.get("resources", {})
            assert (devices is not None) == limited


@pytest.mark.parametrize("runtime", catalog.every(FOLDER), ids=lambda runtime: runtime.name)
def test_a_job_fails_at_once_after_exit_codes_of_its_own_mistakes_and_no_code_of_a_node(
    runtime: catalog.Runtime,
) -> None:
    spec = runtime.manifest["spec"]["template"]["spec"]
    jobs = [job["template"]["spec"] for job in spec["replicatedJobs"]]
    rules = [
        rule
        for job in jobs
        for rule in job.get("podFailurePolicy", {}).get("rules", ())
        if rule.get("onExitCodes", {}).get("containerName") == "node"
    ]
    ends = [rule for rule in spec.get("failurePolicy", {}).get("rules", ()) if rule["name"] == "GaveUp"]
    mistakes = {"containerName": "node", "operator": "In", "values": [2, 42, 126, 127]}
    of_python = [
        job
        for job in jobs
        if in_pods.requested(runtime.manifest) and job["template"]["spec"]["containers"][0]["name"] == "node"
    ]
    assert rules == [{"action": "FailJob", "onExitCodes": mistakes}] * len(of_python)
    assert bool(ends) == ("failurePolicy" in spec)


def launchers() -> dict[str, list[dict[str, str]]]:
    """The variables of each runtime's launcher."""
    paths = [
        path for path in FOLDER.glob("*/*.yaml") if "mpi" in catalog.read(path).manifest["spec"]["mlPolicy"]
    ]
    assert paths
    return {path.stem: pods(path.stem, "launcher")["containers"][0]["env"] for path in paths}


def test_every_launcher_of_open_mpi_5_reaches_each_node_itself() -> None:
    """Nodes that it reached through others, as it does beyond 64, were lost (seen with 5.0.7)."""
    for name, env in launchers().items():
        assert {"name": "PRTE_MCA_plm_ssh_no_tree_spawn", "value": "1"} in env, name


def test_no_launcher_binds_ranks_to_cores_that_those_of_other_pods_are_bound_to() -> None:
    """Open MPI 4 reads the first variable, 5 the second: else it binds two ranks or fewer to a core each."""
    names = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
    for runtime, env in launchers().items():
        bindings = [variable for variable in env if variable["name"] in names]
        assert bindings == [{"name": name, "value": "none"} for name in names], runtime


@pytest.mark.parametrize("guide", ["restarts.md", "results.md"])
def test_a_guide_names_each_runtime_whose_jobs_have_a_volume_that_goes_with_them(guide: str) -> None:
    manifests = [catalog.read(path).manifest for path in sorted(FOLDER.glob("*/*.yaml"))]
    names = [
        manifest["metadata"]["name"]
        for manifest in manifests
        if "volumeClaimPolicies" in manifest["spec"]["template"]["spec"]
    ]
    text = (FOLDER.parent / "docs" / guide).read_text()
    assert [
        name for name in names if f"`{name}`" not in text and f"`{name.partition('-')[0]}-*`" not in text
    ] == []
