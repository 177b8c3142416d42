"""Jobs of the training operator and of the MPI operator: migrated as their users wrote them, and run.

Each rank prints a number that is right only if all ranks had their part in it.
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, Object, add
from tests.support.patience import LEARNED, STARTED, Limit
from trainyard_sandbox.paths import PROJECT

pytestmark = pytest.mark.sandbox(area="migrate")

TORCH = "docker.io/trainyard/torch-cpu:sandbox"
JAX_XGBOOST = "docker.io/trainyard/jax-xgboost:sandbox"
MPI = "docker.io/trainyard/mpi:sandbox"
TENSORFLOW = "docker.io/trainyard/tensorflow:sandbox"

FITS_BY_ALLREDUCE = """
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
inputs = torch.randn(256, 3)
targets = inputs @ torch.tensor([1.0, -2.0, 3.0])
weights = torch.zeros(3)
for _ in range(100):
    gradient = 2 * inputs.T @ (inputs @ weights - targets) / len(inputs)
    dist.all_reduce(gradient)
    weights -= 0.1 * gradient / world
total = torch.tensor(rank + 1)
dist.all_reduce(total)
print(f"rank {rank} of {world}: sum {total}, weights", *weights.tolist(), flush=True)
dist.barrier()  # who leaves first takes what others still read
os._exit(0)  # gloo of PyTorch 2.6, taken down in order, sometimes waits for a peer that has left
"""
SUMS_BY_PSUM = """
import os

import jax
import jax.numpy as jnp

jax.distributed.initialize(
    f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
    int(os.environ["NUM_PROCESSES"]),
    int(os.environ["PROCESS_ID"]),
)
rank, devices = jax.process_index(), jax.local_device_count()
mine = jnp.full(devices, (rank + 1) / devices)
total = jax.pmap(lambda x: jax.lax.psum(x, "ranks"), axis_name="ranks")(mine)
print(f"rank {rank} of {jax.process_count()}: sum {total[0]:.3f}", flush=True)
"""
GROWS_TREES = """
import os
import socket
import time

import numpy
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

rank, workers = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
tracker = None
if rank == "0":
    here = socket.gethostbyname(socket.gethostname())
    tracker = RabitTracker(n_workers=workers, host_ip=here, port=port, sortby="task")
    tracker.start()
while True:  # its name appears a moment after its pod
    try:
        address = socket.gethostbyname(host)
        break
    except socket.gaierror:
        time.sleep(0.5)
meet = {"dmlc_tracker_uri": address, "dmlc_tracker_port": port, "dmlc_task_id": rank, "dmlc_retry": 10}
with collective.CommunicatorContext(dmlc_communicator="rabit", **meet):
    rank, world = collective.get_rank(), collective.get_world_size()
    rows = numpy.random.default_rng(0).normal(size=(2000, 4))
    values = 2 * rows[:, 0] - rows[:, 1] + numpy.abs(rows[:, 2])
    mine = xgboost.DMatrix(rows[rank:1600:world], label=values[rank:1600:world])
    model = xgboost.train({"max_depth": 4, "eta": 0.3, "nthread": 1}, mine, num_boost_round=40)
    guesses = model.inplace_predict(rows[1600:])
    error = float(numpy.sqrt(((guesses - values[1600:]) ** 2).mean()))
    print(f"rank {rank} of {world}: error {error:.6f}", flush=True)
if tracker:
    tracker.wait_for(60)
"""
SUMS_OVER_MIRRORS = """
import json, os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import tensorflow as tf
config = json.loads(os.environ["TF_CONFIG"])
rank, workers = config["task"]["index"], len(config["cluster"]["worker"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
add = lambda: tf.distribute.get_replica_context().all_reduce("SUM", float(rank + 1))
total = strategy.experimental_local_results(tf.function(lambda: strategy.run(add))())[0]
print(f"rank {rank} of {workers}: sum {float(total)}", flush=True)
"""
PI = """
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
slices = 1_000_000
middles = (numpy.arange(rank, slices, size) + 0.5) / slices
pi = world.allreduce((4 / (1 + middles**2)).sum() / slices)
print(f"rank {rank} of {size} on {MPI.Get_processor_name()}: pi {pi:.10f}", flush=True)
"""


def replica(number: int, container: str, image: str, command: list[str], **fields: Any) -> Object:
    main = {"name": container, "image": image, "command": command, **fields}
    return {
        "replicas": number,
        "restartPolicy": "OnFailure",
        "template": {"spec": {"containers": [main]}},
    }


def old(kind: str, version: str = "v1", **spec: Any) -> Object:
    name = f"old-{kind.lower()}"
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


LINE = r"^rank \d of .*$"


@contextmanager
def done(platform: Cluster, job: Object, folder: Path, within: Limit = STARTED) -> Iterator[str]:
    """The name of the job while it is there: migrated, applied and complete."""
    name = job["metadata"]["name"]
    source = folder / "old.yaml"
    source.write_text(json.dumps(job))
    platform.run("trainyard", "migrate", str(source), "--output-dir", str(folder / "new"))
    migrated = str(folder / "new" / "old.yaml")
    platform.run("trainyard", "lint", migrated)
    platform.run("trainyard", "validate", "-f", migrated)
    platform.kubectl("apply", "--server-side", "-f", migrated)
    platform.wait_for_condition(name, "Complete", within=within)
    yield name
    platform.kubectl("delete", "-f", migrated)


def printed(platform: Cluster, job: Object, folder: Path) -> list[str]:
    """What the ranks print, in their order."""
    with done(platform, job, folder) as name:
        return sorted(re.findall(LINE, "".join(platform.logs(name).values()), re.MULTILINE))


@pytest.mark.core
def test_a_pytorchjob_of_master_and_worker_fits_a_line(platform: Cluster, tmp_path: Path) -> None:
    pods = replica(1, "pytorch", TORCH, ["python", "-c", FITS_BY_ALLREDUCE])
    job = old("PyTorchJob", pytorchReplicaSpecs={"Master": pods, "Worker": pods})
    said = [line.split(", weights ") for line in printed(platform, job, tmp_path)]
    assert [head for head, _ in said] == ["rank 0 of 2: sum 3", "rank 1 of 2: sum 3"]
    assert [[round(float(weight), 3) for weight in weights.split()] for _, weights in said] == [
        [1.0, -2.0, 3.0]
    ] * 2


def test_the_processes_of_a_jaxjob_find_each_other(platform: Cluster, tmp_path: Path) -> None:
    pods = replica(2, "jax", JAX_XGBOOST, ["python", "-c", SUMS_BY_PSUM])
    job = old("JAXJob", jaxReplicaSpecs={"Worker": pods})
    assert printed(platform, job, tmp_path) == ["rank 0 of 2: sum 3.000", "rank 1 of 2: sum 3.000"]


def test_master_and_worker_of_an_xgboostjob_grow_trees_together(platform: Cluster, tmp_path: Path) -> None:
    pods = replica(1, "xgboost", JAX_XGBOOST, ["python", "-c", GROWS_TREES])
    job = old("XGBoostJob", xgbReplicaSpecs={"Master": pods, "Worker": pods})
    errors = [float(line.rpartition(" ")[2]) for line in printed(platform, job, tmp_path)]
    # As with all rows in one process; half of them alone leave 0.286 and 0.297.
    assert errors == pytest.approx([0.2660] * 2, abs=0.005)


def test_the_launcher_of_an_mpijob_reaches_its_workers(platform: Cluster, tmp_path: Path) -> None:
    mpiuser = {"securityContext": {"runAsUser": 1000}}
    server = ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"]
    listens = {"readinessProbe": {"tcpSocket": {"port": 2222}, "periodSeconds": 2}}
    roles = {
        "Launcher": replica(1, "launcher", MPI, ["mpirun", "python", "-c", PI], **mpiuser),
        "Worker": replica(2, "worker", MPI, server, **mpiuser, **listens),
    }
    for role in roles.values():
        role["template"]["spec"]["securityContext"] = {"fsGroup": 1000}
    job = old("MPIJob", "v2beta1", sshAuthMountPath="/home/mpiuser/.ssh", mpiReplicaSpecs=roles)
    with done(platform, job, tmp_path) as name:
        said = platform.said_by_launcher(name, r"rank (\d) of 2 on (\S+): pi ([\d.]+)", 2)
    assert [rank for rank, _, _ in said] == ["0", "1"]
    assert {host for _, host, _ in said} == {f"{name}-node-0-0", f"{name}-node-0-1"}
    assert [float(pi) for _, _, pi in said] == pytest.approx([math.pi] * 2, abs=1e-9)


@pytest.mark.long
def test_chief_and_worker_of_a_tfjob_are_the_nodes_of_a_runtime_of_the_catalog(
    platform: Cluster, tmp_path: Path
) -> None:
    add(platform.name, "tensorflow")
    pods = replica(1, "tensorflow", TENSORFLOW, ["python", "-c", SUMS_OVER_MIRRORS])
    job = old("TFJob", tfReplicaSpecs={"Chief": pods, "Worker": pods})
    with done(platform, job, tmp_path, within=LEARNED) as name:
        lines = re.findall(LINE, "".join(platform.logs(name).values()), re.MULTILINE)
        runtime = (platform.get("trainjob", name) or {})["spec"]["runtimeRef"]["name"]
    assert sorted(lines) == ["rank 0 of 2: sum 3.0", "rank 1 of 2: sum 3.0"]
    assert runtime == "tensorflow-distributed"


@pytest.mark.long
def test_chief_and_workers_of_a_tfjob_train_on_its_parameter_server(
    platform: Cluster, tmp_path: Path
) -> None:
    add(platform.name, "tensorflow")
    script = (PROJECT / "examples" / "tensorflow-ps" / "train.py").read_text()
    env = [{"name": "CHECKPOINT_DIR", "value": "checkpoints"}, {"name": "STEPS", "value": "300"}]
    pods = {
        type_: replica(count, "tensorflow", TENSORFLOW, ["python", "-c", script], env=env)
        for type_, count in (("Chief", 1), ("PS", 1), ("Worker", 2))
    }
    job = old("TFJob", tfReplicaSpecs=pods)
    with done(platform, job, tmp_path, within=LEARNED) as name:
        runtime = (platform.get("trainjob", name) or {})["spec"]["runtimeRef"]["name"]
        chief = platform.list(
            "pods",
            f"jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=chief",
        )
        log = platform.log(chief[0]["metadata"]["name"])
    assert runtime == "tensorflow-ps"
    assert re.search(r"weights on /job:ps/replica:0/task:0\S*, starts", log)
    assert re.findall(r"(\d) workers, weights", log) == ["2"]
