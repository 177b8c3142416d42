"""What the operator makes of a TrainJob, run on this machine's GPUs without a cluster.

What only a cluster gives, a pod's index and the address behind a pod's name, is
put in here. `torchrun` and the framework have to be on PATH.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import runs
from trainyard_api import documents
from trainyard_assist.render import render
from trainyard_platform.catalog.runs import Place, Run

PROJECT = Path(__file__).parents[2]
INDEX = {
    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"},
}


def gpus() -> int:
    """How many there are on this machine."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE))


def needs(count: int) -> None:
    """Skip the test on a machine with fewer GPUs; fail on one with none, where nothing would be tested."""
    there = gpus()
    assert there, "nvidia-smi lists no GPU on this machine: run `make test-gpu` on one that has some"
    if there < count:
        pytest.skip(f"it needs {count} GPUs, of which this machine has {there}")


def record(runtime: str, example: str, folder: Path, *packages: str) -> None:
    """Record the run on this machine's GPU, if it is to be recorded, with the versions that torchrun has."""
    if not runs.recording():
        return
    script = folder / "versions.py"
    script.write_text(runs.VERSIONS)
    command = ["torchrun", "--standalone", str(script), *packages]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    names = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    runs.write(
        Run(
            runtime=runtime,
            example=example,
            place=Place.GPU,
            accelerator=names[0],
            versions=dict(json.loads(printed)),
            test=runs.current_test(),
        )
    )


@dataclass(frozen=True)
class Node:
    """The trainer's container of a job, as the operator has it in each of its pods."""

    name: str
    """Of the job."""
    container: Mapping[str, Any]

    @classmethod
    def of(cls, example: str, runtime: str, nodes: int, each: int) -> Node:
        """That of an example (`digits/trainjob.yaml`) with so many nodes, and GPUs each.

        Args:
            example: Its file below `examples/`.
            runtime: The file of its runtime below `runtimes/`.
            nodes: How many pods there are.
            each: How many GPUs each has.
        """
        file, of_runtime = PROJECT / "examples" / example, PROJECT / "runtimes" / runtime
        [job] = documents.parse(file.read_text(), str(file))
        limits = {"limits": {"nvidia.com/gpu": each}}
        job.value["spec"]["trainer"] |= {"numNodes": nodes, "resourcesPerNode": limits}
        [jobset] = render([job], documents.parse(of_runtime.read_text(), str(of_runtime)))
        [container] = [
            container
            for replicated in jobset["spec"]["replicatedJobs"]
            for container in replicated["template"]["spec"]["template"]["spec"]["containers"]
            if container["name"] == "node"
        ]
        return cls(job.value["metadata"]["name"], container)

    def start(self, index: int, folder: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
        """Start the pod of this index in a folder, with further arguments and variables."""
        folder.mkdir(parents=True, exist_ok=True)
        variables = {
            entry["name"]: str(index) if entry.get("valueFrom") == INDEX else entry["value"]
            for entry in self.container["env"]
        }
        assert variables["PET_MASTER_ADDR"] == f"{self.name}-node-0-0.{self.name}"
        return subprocess.Popen(
            [*self.container["command"], *self.container.get("args", []), *more],
            cwd=folder,
            env={**os.environ, **variables, "PET_MASTER_ADDR": "127.0.0.1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
