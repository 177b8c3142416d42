"""What data scientists meet: twelve mistakes, by each way that they send a job for PyTorch.

Of each, `trainyard explain` names the rank, the cause and the line of the
script soon after the failure, and still does when all attempts are over and
their pods are gone.
"""

from __future__ import annotations

import importlib.util
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient

from tests.support.cluster import Cluster, Object, emptied
from tests.support.patience import LEARNED, eventually

pytestmark = pytest.mark.sandbox(area="explain")

RESOURCES = {"memory": "1Gi", "ephemeral-storage": "50Mi"}
OF_RANK_1 = """\
import mmap, os, socket, subprocess, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    {mistake}
while True:
    dist.all_reduce(torch.zeros(1))
    time.sleep(0.1)
"""


@dataclass(frozen=True)
class Mistake:
    """A script, and what is said of it.

    Attributes:
        name: What it is called here.
        script: It is run by two ranks, one on each node.
        said: In the first line of the answer, as an expression.
        who: Whom that line or the next one names, as an expression.
        place: The line of the script that its last lines show; empty: what ends so leaves no last words.
        attempts: How often it is tried: no third time if the second failed as the first did.
    """

    name: str
    script: str
    said: str
    who: str
    place: str = ""
    attempts: int = 2


def of_rank_1(name: str, mistake: str, said: str, *, leaves_words: bool = True) -> Mistake:
    place = mistake if leaves_words else ""
    return Mistake(name, OF_RANK_1.format(mistake=mistake), said, r"rank 1 (\(node 1\) )?failed first", place)


def of_node_1(name: str, mistake: str, said: str) -> Mistake:
    """Its pod ends as a whole, and so no rank can be told."""
    return Mistake(name, OF_RANK_1.format(mistake=mistake), said, r"-node-0-1-\w+$")


EITHER = r"rank [01] (\(node [01]\) )?failed first"
PIP = "subprocess.run([sys.executable, '-m', 'pip', 'install', 'no-such'], check=True)"
FULL = "open('/tmp/full', 'wb').write(bytes(200 << 20)); time.sleep(600)"
SHARED = (
    "file = open('/dev/shm/full', 'w+b'); file.truncate(1 << 28); "
    "mmap.mmap(file.fileno(), 1 << 28).write(bytes(1 << 28))"
)
TWICE = "taken = [socket.create_server(('', 7777)) for _ in (1, 2)]"

MISTAKES = (
    Mistake("syntax", "x = 1\nif:\n", "SyntaxError: invalid syntax", EITHER, "if:", attempts=1),
    Mistake("import", "import no_such\n", "ModuleNotFoundError", EITHER, "import no_such", attempts=1),
    of_rank_1("exception", "raise ValueError('no such column')", "ValueError: no such column"),
    of_rank_1("wrong file", "open('/no/such/file')", "FileNotFoundError"),
    of_rank_1("pip without network", PIP, "CalledProcessError"),
    of_rank_1("port in use", TWICE, "Address already in use"),
    of_node_1("out of memory", "eaten = bytearray(8 << 30)", "OOMKilled"),
    replace(of_rank_1("SIGKILL", "os.kill(os.getpid(), 9)", "SIGKILL", leaves_words=False), attempts=4),
    replace(of_node_1("full disk", FULL, "Evicted"), attempts=4),
    of_rank_1("full shared memory", SHARED, "SIGBUS", leaves_words=False),
    of_rank_1("exit code", "sys.exit(3)", "code 3", leaves_words=False),
)
"""The twelfth is a rank that leaves early: see below."""


@pytest.fixture
def namespace(platform: Cluster) -> Iterator[Cluster]:
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mistakes"}})
    yield from emptied(platform.within("mistakes"))


def by_sdk(cluster: Cluster, script: str, folder: Path) -> str:
    """The script as a function that the SDK sends."""
    kubeconfig = str(cluster.sandbox.instance.kubeconfig)
    client = TrainerClient(KubernetesBackendConfig(namespace="mistakes", config_file=kubeconfig))
    trainer = CustomTrainer(func=function(script, folder), num_nodes=2, resources_per_node=RESOURCES)
    name: str = client.train(runtime="torch-distributed", trainer=trainer)
    return name


def function(script: str, folder: Path) -> Callable[[], Any]:
    """What is no Python is no function either: it is met when it is run."""
    try:
        compile(script, "script", "exec")
    except SyntaxError:
        script = f"compile({script!r}, 'train.py', 'exec')"
    path = folder / "train.py"
    path.write_text(f"def train():\n{textwrap.indent(script, '    ')}\n")
    spec = importlib.util.spec_from_file_location("train", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[], Any] = module.train
    return found


def by_yaml(runtime: str, script: str) -> Object:
    trainer = {
        "numNodes": 2,
        "command": ["bash", "-c", 'printf %s "$0" > /tmp/train.py && exec torchrun /tmp/train.py', script],
        "resourcesPerNode": {"limits": RESOURCES},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": runtime},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer},
    }


def explained(cluster: Cluster, job: str, mistake: Mistake) -> str:
    """The answer, which says what it should."""
    answer = cluster.run("trainyard", "explain", job, "-n", "mistakes", check=False)
    first, cause, *rest = answer.stdout.splitlines()
    assert re.search(mistake.said, first), answer.stdout + answer.stderr
    assert re.search(mistake.who, first) or re.search(mistake.who, cause), answer.stdout
    assert mistake.place in "\n".join(rest), answer.stdout
    return first


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_told_soon_and_when_its_pods_are_gone(
    namespace: Cluster, mistake: Mistake, tmp_path: Path
) -> None:
    namespace.apply(
        by_yaml("torch-distributed", mistake.script), by_yaml("torch-checkpointed", mistake.script)
    )
    jobs = ("torch-distributed", "torch-checkpointed", by_sdk(namespace, mistake.script, tmp_path))
    for job in jobs:
        print(eventually(f"{job} is explained", partial(explained, namespace, job, mistake)))
    # Disruptions count as no restart of torch-checkpointed: it is evicted again and again.
    ending = [job for job in jobs if (mistake.name, job) != ("full disk", "torch-checkpointed")]
    for job in ending:
        namespace.wait_for_condition(job, "Failed", within=LEARNED)
    namespace.kubectl("delete", "pods", "--all", "--wait")
    for job in ending:
        attempts = (namespace.get("trainjob", job) or {})["status"]["trainyard"]["attempts"]
        assert len(attempts) == mistake.attempts, attempts
        print(explained(namespace, job, mistake))


LEAVES = "import os, time; os.environ['JOB_COMPLETION_INDEX'] == '1' or time.sleep(600)"


@pytest.mark.parametrize("runtime", ["torch-distributed", "torch-checkpointed"])
def test_a_rank_that_leaves_early_is_told_while_the_others_wait(namespace: Cluster, runtime: str) -> None:
    job = by_yaml(runtime, "")
    job["spec"]["trainer"]["command"] = ["python", "-c", LEAVES]
    namespace.apply(job)

    def told() -> bool:
        answer = namespace.run("trainyard", "explain", runtime, "-n", "mistakes", check=False)
        assert answer.returncode == 1, answer.stdout
        assert "RankLeft: node 1 of 2 ended with exit code 0" in answer.stdout, answer.stdout
        return True

    eventually("who has left is told", told)
