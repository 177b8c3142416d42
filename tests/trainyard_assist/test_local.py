"""A TrainJob on one machine: what stands for its pods, and what the machine has not."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.junk import places, spoiled
from trainyard_api import documents, names
from trainyard_api.documents import Document
from trainyard_assist.local.model import LocalError, Machine, Plan, Process
from trainyard_assist.local.plan import number_of_pods, plan
from trainyard_assist.logs import Place
from trainyard_assist.render import RenderError, render

CATALOG = Path(__file__).resolve().parents[2] / "runtimes"
HOSTS = "/run/hosts"
TORCH_IMAGE = "docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
NO_IMAGE = "The TrainJob runs with what is installed here, not with the image {}"


def runtime(name: str) -> Document:
    (file,) = CATALOG.glob(f"*/{name}.yaml")
    (document,) = documents.parse(file.read_text(encoding="utf-8"), file.name)
    return document


def children(of: str | Document, **trainer: Any) -> Sequence[Mapping[str, Any]]:
    catalog = runtime(of) if isinstance(of, str) else of
    trainer = {"numNodes": 2, "command": ["python", "train.py"], **trainer}
    spec = {"runtimeRef": {"name": catalog.value["metadata"]["name"]}, "trainer": trainer}
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tj"},
        "spec": spec,
    }
    return render([Document("TrainJob", 1, job)], [catalog])


def local(of: str | Document, shell: Mapping[str, str] | None = None, gpus: int = 0, **trainer: Any) -> Plan:
    """With the ports 1001, 1002, ..."""
    manifests = children(of, **trainer)
    return plan(
        manifests,
        Machine(
            environment=shell or {},
            ports=range(1001, 1001 + number_of_pods(manifests)),
            gpus=[f"GPU-{number}" for number in range(gpus)],
            hosts=HOSTS,
        ),
    )


def custom(*containers: str, **fields: Any) -> Document:
    """A runtime of one ReplicatedJob, whose first container has these fields."""
    first = {"name": "node", "image": "i", **fields}
    pod = {"containers": [first, *({"name": name, "image": "i"} for name in containers)]}
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    jobs = [{"name": "node", "template": {"metadata": step, "spec": {"template": {"spec": pod}}}}]
    value = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "rt"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs}}},
    }
    return Document("runtime", 1, value)


def environments(of: Plan) -> list[dict[str, str]]:
    """The variables of each process, except those that say the same in all of them."""
    same = {"PYTHONUNBUFFERED": "1"}
    return [
        {name: value for name, value in process.environment.items() if same.get(name) != value}
        for process in of.processes
    ]


def test_each_node_is_a_process_with_the_command_and_the_variables_of_its_pod() -> None:
    torch = local("torch-distributed", command=["torchrun", "train.py"], numProcPerNode=3)
    rendezvous = {
        "PYTHONUNBUFFERED": "1",
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "3",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "1001",
        "PET_LOCAL_ADDR": "127.0.0.1",
    }
    assert torch == Plan(
        processes=tuple(
            Process(
                place=Place("node", index),
                label=str(index),
                command=("torchrun", "train.py"),
                environment={
                    **rendezvous,
                    "PET_NODE_RANK": str(index),
                    "JOB_COMPLETION_INDEX": str(index),
                },
            )
            for index in range(2)
        ),
        hosts="",
        missing=(NO_IMAGE.format(TORCH_IMAGE),),
        targets=frozenset({"node"}),
    )


@pytest.mark.parametrize(
    ("name", "second"),
    [
        (
            "jax-distributed",
            {
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": "1",
                "JAX_COORDINATOR_ADDRESS": "127.0.0.1:1001",
            },
        ),
        (
            "xgboost-distributed",
            {
                "DMLC_TRACKER_URI": "127.0.0.1",
                "DMLC_TRACKER_PORT": "1001",
                "DMLC_TASK_ID": "1",
                "DMLC_NUM_WORKER": "2",
            },
        ),
        (
            "lightgbm-distributed",
            {
                "LIGHTGBM_RANK": "1",
                "LIGHTGBM_MACHINES": "127.0.0.1:1001,127.0.0.1:1002",
                "LIGHTGBM_NUM_MACHINES": "2",
                "LIGHTGBM_LOCAL_LISTEN_PORT": "1002",
            },
        ),
        (
            "paddle-distributed",
            {
                "PADDLE_TRAINER_ID": "1",
                "PADDLE_TRAINERS_NUM": "2",
                "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1001,127.0.0.1:1002",
                "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:1002",
                "PADDLE_MASTER": "127.0.0.1:1001",
                "PADDLE_DISTRI_BACKEND": "gloo",
            },
        ),
        (
            "tensorflow-distributed",
            {
                "TF_TASK_INDEX": "1",
                "TF_CONFIG": '{"cluster":{"worker":["127.0.0.1:1001","127.0.0.1:1002"]},'
                '"task":{"type":"worker","index":1}}',
            },
        ),
        ("plain", {}),
    ],
)
def test_each_framework_finds_its_peers_on_this_machine(name: str, second: Mapping[str, str]) -> None:
    assert environments(local(name))[1] == {**second, "JOB_COMPLETION_INDEX": "1"}


def test_a_launcher_starts_all_ranks_of_mpi_here_and_no_shell_reaches_another_machine() -> None:
    mpi = local("mpi-distributed", numNodes=3, numProcPerNode=4, command=["mpirun", "solve"])
    assert mpi == Plan(
        processes=(
            Process(
                place=Place("launcher", 0),
                label="launcher-0",
                command=("mpirun", "solve"),
                environment={
                    "PYTHONUNBUFFERED": "1",
                    "OMPI_MCA_hwloc_base_binding_policy": "none",
                    "PRTE_MCA_hwloc_default_binding_policy": "none",
                    "OMPI_MCA_orte_default_hostfile": HOSTS,
                    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                    "OMPI_MCA_orte_set_default_slots": "4",
                    "PRTE_MCA_prte_default_hostfile": HOSTS,
                    "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
                    "PRTE_MCA_prte_set_default_slots": "4",
                    "JOB_COMPLETION_INDEX": "0",
                },
            ),
        ),
        hosts="localhost slots=12\n",
        missing=(NO_IMAGE.format("docker.io/mpioperator/openmpi:v0.6.0"),),
        targets=frozenset({"launcher"}),
    )


def test_a_list_of_hosts_that_the_command_names_is_the_one_of_this_machine() -> None:
    mpi = local("mpi-distributed", command=["mpirun", "--hostfile=/etc/mpi/hostfile", "solve"])
    assert mpi.processes[0].command == ("mpirun", "--hostfile=/run/hosts", "solve")


def test_a_trainjob_is_complete_when_the_jobs_that_its_runtime_names_are() -> None:
    servers = local("tensorflow-ps")
    assert [process.label for process in servers.processes] == ["chief-0", "ps-0", "node-0", "node-1"]
    assert servers.is_complete({Place("chief", 0)})
    assert not servers.is_complete({Place("ps", 0), Place("node", 0), Place("node", 1)})
    workers = local("torch-distributed")
    assert not workers.is_complete({Place("node", 0)})
    assert workers.is_complete({Place("node", 0), Place("node", 1)})


def test_what_loads_data_does_not_run_and_is_said() -> None:
    torch = local("torch-with-initializers", numNodes=1)
    assert [process.label for process in torch.processes] == ["0"]
    assert torch.missing == (
        NO_IMAGE.format(TORCH_IMAGE),
        "dataset-initializer does not run here: what it loads into /workspace has to be here before",
        "model-initializer does not run here: what it loads into /workspace has to be here before",
        "The volume initializer is not here: under /workspace is what this machine has there",
    )


def test_what_else_a_pod_has_is_said_once() -> None:
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a mount
    ]
    other = custom("proxy", workingDir="/app", volumeMounts=mounts, envFrom=[{"secretRef": {"name": "s"}}])
    assert local(other).missing == (
        NO_IMAGE.format("i"),
        "The container proxy of node does not run here",
        "The command runs in the workspace, not in /app",
        "The volume data is not here: under /data is what this machine has there",
        "The variables of the Secret s are not here, except those that this shell sets",
    )


@pytest.mark.parametrize(
    ("path", "shell", "here"),
    [
        (names.MODULE_FOLDER, {"PYTHONPATH": "src"}, {"PYTHONPATH": "src"}),
        (names.MODULE_FOLDER, {}, {}),
        (f"{names.MODULE_FOLDER}:/own", {"PYTHONPATH": "src"}, {"PYTHONPATH": "/own:src"}),
        ("/own", {"PYTHONPATH": "src"}, {"PYTHONPATH": "/own"}),
    ],
)
def test_the_module_that_the_catalog_adds_takes_no_place_of_the_python_path_of_the_shell(
    path: str, shell: Mapping[str, str], here: Mapping[str, str]
) -> None:
    mount = {"name": "trainyard-python", "mountPath": names.MODULE_FOLDER, "readOnly": True}
    of_catalog = custom(env=[{"name": "PYTHONPATH", "value": path}], volumeMounts=[mount])
    process = local(of_catalog, shell, numNodes=1)
    assert environments(process) == [{**here, "JOB_COMPLETION_INDEX": "0"}]
    assert process.missing == (NO_IMAGE.format("i"),)


def test_a_variable_from_a_secret_is_that_of_the_shell() -> None:
    sources = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        {"name": "MODEL", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "model"}}},
        {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "m", "optional": True}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "URL", "value": "https://$(TOKEN)@hub"},
    ]
    here = local("plain", {"TOKEN": "$(URL)", "UNUSED": "u"}, numNodes=1, env=sources)
    assert environments(here) == [
        {"TOKEN": "$(URL)", "URL": "https://$(URL)@hub", "JOB_COMPLETION_INDEX": "0"}
    ]
    assert here.missing[1:] == (
        "MODEL is from the ConfigMap conf, which is not here: set MODEL in this shell",
        "CPUS is from the resources of a container, which is not here: set CPUS in this shell",
    )


def test_variables_are_filled_in_as_the_kubelet_does_it() -> None:
    def field(path: str) -> dict[str, Any]:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    variables = [
        {"name": "LATER", "value": "$(A)"},
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)$(NONE)$$(A)$$$(A)$"},
        {"name": "EMPTY"},
        {"name": "NAME", **field("metadata.name")},
        {"name": "NAMESPACE", **field("metadata.namespace")},
        {"name": "INDEX", **field("metadata.labels['batch.kubernetes.io/job-completion-index']")},
        {"name": "JOBSET", **field("metadata.labels['jobset.sigs.k8s.io/jobset-name']")},
        {"name": "RESTART", **field("metadata.labels['jobset.sigs.k8s.io/restart-attempt']")},
        {"name": "NOTHING", **field("metadata.annotations['x']")},
        {"name": "IP", **field("status.podIP")},
    ]
    words = ["sh", "-c", "echo $(A) $B $(JOB_COMPLETION_INDEX) $$(A)"]
    second = local("plain", env=variables, command=words).processes[1]
    assert second.command == ("sh", "-c", "echo a $B 1 $(A)")
    assert {**second.environment} == {
        "PYTHONUNBUFFERED": "1",
        "LATER": "$(A)",
        "A": "a",
        "B": "a$(NONE)$(A)$a$",
        "EMPTY": "",
        "NAME": "tj-node-0-1",
        "NAMESPACE": "ns",
        "INDEX": "1",
        "JOBSET": "tj",
        "RESTART": "0",
        "NOTHING": "",
        "IP": "127.0.0.1",
        "JOB_COMPLETION_INDEX": "1",
    }


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("tj-node-0-1.tj", "127.0.0.1"),
        ("tcp://tj-node-0-1.tj:29500/x", "tcp://127.0.0.1:1002/x"),
        ("tj-node-0-1.tj.ns.svc.cluster.local:29500", "127.0.0.1:1002"),
        ("tj-node-0-1.tj.ns.svc:80", "127.0.0.1:80"),
        ("tj-node-0-0.tj:29500,tj-node-0-1.tj:29500", "127.0.0.1:1001,127.0.0.1:1002"),
        ("tj-node-0-1.tj:295001", "127.0.0.1:295001"),
        ("tj-node-0-2.tj", "tj-node-0-2.tj"),
        ("my-tj-node-0-1.tj", "my-tj-node-0-1.tj"),
        ("tj-node-0-1.tjx", "tj-node-0-1.tjx"),
    ],
)
def test_an_address_of_the_cluster_is_one_of_this_machine_wherever_it_stands(text: str, here: str) -> None:
    plain = local("plain", env=[{"name": "PEER", "value": text}], command=["sh", text])
    assert plain.processes[0].environment["PEER"] == here
    assert plain.processes[0].command == ("sh", here)


def resources(gpus: int) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": gpus, "cpu": 8}}


@pytest.mark.parametrize(
    ("gpus", "requested", "shares", "sentence"),
    [
        pytest.param(4, 2, ["GPU-0,GPU-1", "GPU-2,GPU-3"], None, id="enough"),
        pytest.param(
            3,
            2,
            ["", ""],
            "The TrainJob asks for 4 GPUs, and 3 are here: its processes see none",
            id="not enough",
        ),
        pytest.param(
            0,
            2,
            [None, None],
            "The TrainJob asks for 4 GPUs, and 0 are here: its processes see none",
            id="none",
        ),
        pytest.param(
            2,
            0,
            ["", ""],
            "The TrainJob asks for no GPU: its processes see none of the 2 that are here",
            id="not asked for",
        ),
    ],
)
def test_each_node_sees_gpus_of_its_own_or_none(
    gpus: int, requested: int, shares: Sequence[str | None], sentence: str | None
) -> None:
    torch = local("torch-distributed", gpus=gpus, resourcesPerNode=resources(requested))
    assert [process.environment.get("CUDA_VISIBLE_DEVICES") for process in torch.processes] == shares
    assert torch.missing[1:] == (() if sentence is None else (sentence,))
    # One rank for each GPU, as in the cluster, or for each CPU.
    per_node = {process.environment["PET_NPROC_PER_NODE"] for process in torch.processes}
    assert per_node == {str(requested or 8)}


def test_the_ranks_of_mpi_share_the_gpus_of_all_nodes() -> None:
    mpi = local("mpi-distributed", gpus=4, resourcesPerNode=resources(2))
    assert mpi.processes[0].environment["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1,GPU-2,GPU-3"
    assert mpi.hosts == "localhost slots=4\n"


def test_gpus_that_the_trainjob_names_itself_stay_as_they_are() -> None:
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": "1"}]
    torch = local("torch-distributed", gpus=1, numNodes=1, env=env)
    assert torch.processes[0].environment["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize(
    ("name", "trainer", "message"),
    [
        pytest.param(
            "torch-distributed",
            {"numNodes": 1000000000},
            "The TrainJob has 1000000000 processes, and one machine runs at most 128: "
            "ask for fewer nodes, GPUs or CPUs, or send it to a cluster",
            id="nodes",
        ),
        pytest.param(
            "torch-distributed",
            {"numProcPerNode": 100},
            "The TrainJob has 200 processes, and one machine runs at most 128: "
            "ask for fewer nodes, GPUs or CPUs, or send it to a cluster",
            id="processes a node",
        ),
        pytest.param(
            "mpi-distributed",
            {"numProcPerNode": 100},
            "The TrainJob has 200 processes, and one machine runs at most 128: "
            "ask for fewer nodes, GPUs or CPUs, or send it to a cluster",
            id="processes of MPI",
        ),
        pytest.param(
            "plain", {"numNodes": 0}, "The TrainJob has no nodes: ask for at least one", id="no nodes"
        ),
        pytest.param(
            "torch-distributed",
            {"command": [], "args": ["train.py"]},
            f"What node-0 runs is in the image {TORCH_IMAGE}, which is not used here: "
            "say it as the command of the TrainJob (spec.trainer.command)",
            id="no command",
        ),
    ],
)
def test_what_does_not_run_on_one_machine_is_refused(
    name: str, trainer: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(LocalError) as error:
        local(name, **trainer)
    assert str(error.value) == message


def test_a_trainjob_of_steps_is_refused() -> None:
    runtime_ = custom()
    job = runtime_.value["spec"]["template"]["spec"]["replicatedJobs"][0]
    prepare = {**copy.deepcopy(job), "name": "prepare"}
    prepare["template"]["metadata"] = {}
    prepare["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh"]
    job["dependsOn"] = [{"name": "prepare", "status": "Complete"}]
    runtime_.value["spec"]["template"]["spec"]["replicatedJobs"].insert(0, prepare)
    with pytest.raises(LocalError) as error:
        local(runtime_)
    assert str(error.value) == (
        "node starts after prepare is complete, and here all of them start at once: "
        "send the TrainJob to a cluster"
    )


JUNK = (None, "", "x" * 300, "2", -1, 0, 2**70, 1.5, True, [], {}, [None], [{}], [{"name": "node"}], {"a": 1})


def test_whatever_a_runtime_has_in_a_field_it_runs_or_is_refused_in_words() -> None:
    source = {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    field = {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    mount = {"name": "v", "mountPath": "/v"}
    whole = custom("proxy", env=[source, field], envFrom=[{"secretRef": {"name": "s"}}], volumeMounts=[mount])
    template = whole.value["spec"]["template"]["spec"]
    template["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["node"]}
    template["network"] = {"subdomain": "sub"}
    template["replicatedJobs"][0]["dependsOn"] = [{"name": "node", "status": "Ready"}]
    template["replicatedJobs"][0]["replicas"] = 1
    pod = template["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "mpi-ssh-auth", "secret": {}}, {"name": "mpi-hostfile", "configMap": {}}]
    chance = random.Random(1)  # noqa: S311 - the same ones each time
    runs = refusals = 0
    for place, junk in itertools.product([*places(template)], JUNK):
        if not place or chance.random() > 1 / 3:
            continue
        value = copy.deepcopy(whole.value)
        value["spec"]["template"]["spec"] = spoiled(template, place, junk)
        try:
            assert all(isinstance(sentence, str) for sentence in local(Document("f", 1, value)).missing)
        except (LocalError, RenderError):
            refusals += 1
        else:
            runs += 1
    assert runs > 50
    assert refusals > 50
