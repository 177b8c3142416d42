"""A rendered TrainJob on real GPUs: the command and the environment of its pods, over NCCL (`make test-gpu`).

It needs torchrun, PyTorch with CUDA and scikit-learn on PATH, and no cluster:
what only a cluster gives, a pod's index and the address behind a pod's name,
is put in here.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import runs
from trainyard_api import documents
from trainyard_assist.render import render
from trainyard_platform.catalog.runs import Place, Run

pytestmark = pytest.mark.gpu

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "digits" / "trainjob.yaml"
RUNTIME = PROJECT / "runtimes" / "torch" / "torch-distributed.yaml"
INDEX = {
    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"},
}


def gpus() -> int:
    """How many there are on this machine."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE))


def accelerator() -> str:
    """The name of the first GPU."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def versions(folder: Path) -> dict[str, str | None]:
    """The version of PyTorch that torchrun has."""
    script = folder / "versions.py"
    script.write_text(runs.VERSIONS)
    command = ["torchrun", "--standalone", str(script), "torch"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(printed))


def container(nodes: int, each: int) -> dict[str, Any]:
    """The trainer's container as the operator has it in the pods of a job, with so many GPUs each."""
    [job] = documents.parse(EXAMPLE.read_text(), str(EXAMPLE))
    limits = {"limits": {"nvidia.com/gpu": each}}
    job.value["spec"]["trainer"] |= {"numNodes": nodes, "resourcesPerNode": limits}
    catalog = documents.parse(RUNTIME.read_text(), str(RUNTIME))
    [jobset] = render([job], catalog)
    [replicated] = jobset["spec"]["replicatedJobs"]
    [found] = replicated["template"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def environment(of: dict[str, Any], index: int) -> dict[str, str]:
    """A container's variables in the pod of this index."""
    told = {
        entry["name"]: str(index) if entry.get("valueFrom") == INDEX else entry["value"]
        for entry in of["env"]
    }
    assert told["PET_MASTER_ADDR"] == "digits-node-0-0.digits"
    return {**told, "PET_MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize("nodes", [1, 2], ids=["one node with every GPU", "two nodes with a GPU each"])
def test_a_rendered_job_trains_over_nccl(nodes: int, tmp_path: Path) -> None:
    there = gpus()
    if there < nodes:
        pytest.skip(f"it needs {nodes} GPU(s), of which this machine has {there}")
    each = 1 if nodes > 1 else there
    node = container(nodes, each)
    pods = []
    for index in range(nodes):
        folder = tmp_path / str(index)
        folder.mkdir()
        seen = ",".join(str(gpu) for gpu in range(index * each, (index + 1) * each))
        own = {"CUDA_VISIBLE_DEVICES": seen, "NCCL_DEBUG": "INFO"}
        pods.append(
            subprocess.Popen(
                [*node["command"], *node.get("args", [])],
                cwd=folder,
                env={**os.environ, **environment(node, index), **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [pod.communicate(timeout=600)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0] * nodes, "\n".join(said)
    first = said[0]
    assert {f"rank {rank} of {nodes * each}" for rank in range(nodes * each)} == set(
        re.findall(r"rank \d+ of \d+", "".join(said))
    )
    found = re.search(r"accuracy (\d\.\d+)", first)
    assert found, first
    assert float(found[1]) >= 0.95, first
    assert re.search(rf"NCCL INFO .*nranks {nodes * each} ", first), first
    if runs.recording():
        runs.write(
            Run(
                runtime="torch-distributed",
                example="digits",
                place=Place.GPU,
                accelerator=accelerator(),
                versions=versions(tmp_path),
                test=runs.current_test(),
            )
        )
