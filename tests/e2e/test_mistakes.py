"""What data scientists meet: twelve mistakes, by each way that they send a job for PyTorch.

Of each, `trainyard explain` names the rank, the cause and the line of the
script soon after the failure, and still does when all attempts are over and
their pods are gone.

The jobs of several mistakes run beside each other, each mistake's in a
namespace of its own: most of the time they wait.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient

from tests.harness.selection import asked_for
from tests.support.cluster import Cluster, Object, emptied
from tests.support.patience import LEARNED, STARTED, eventually
from trainyard_cli.commands import explain as command

from .asked import namespace

pytestmark = pytest.mark.sandbox(area="explain")

RESOURCES = {"memory": "1Gi", "ephemeral-storage": "50Mi"}
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
"""The node's memory in GiB: it is the machine's."""
AT_ONCE = max(1, min(3, (MEMORY - 2) // 6))
"""Mistakes beside each other, each of six pods that request 1 GiB; the platform requests less than 2.

With more than three, two cores are what they wait for.
"""
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
        alone: Whether no other runs beside it: it takes what all pods of the node share.
    """

    name: str
    script: str
    said: str
    who: str
    place: str = ""
    attempts: int = 2
    alone: bool = False


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
    replace(of_node_1("out of memory", "eaten = bytearray(8 << 30)", "OOMKilled"), alone=True),
    replace(of_rank_1("SIGKILL", "os.kill(os.getpid(), 9)", "SIGKILL", leaves_words=False), attempts=4),
    replace(of_node_1("full disk", FULL, "Evicted"), attempts=4, alone=True),
    replace(of_rank_1("full shared memory", SHARED, "SIGBUS", leaves_words=False), alone=True),
    of_rank_1("exit code", "sys.exit(3)", "code 3", leaves_words=False),
)
"""The twelfth is a rank that leaves early: see below."""


@contextmanager
def within(platform: Cluster, name: str) -> Iterator[Cluster]:
    """A new namespace, which goes when no job and no pod is left in it."""
    with namespace(platform, name):
        yield from emptied(platform.within(name))


def by_sdk(cluster: Cluster, script: str, folder: Path) -> str:
    """The script as a function that the SDK sends."""
    kubeconfig = str(cluster.sandbox.instance.kubeconfig)
    client = TrainerClient(KubernetesBackendConfig(namespace=cluster.namespace, config_file=kubeconfig))
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


def failed(cluster: Cluster, job: str) -> bool:
    """Whether a pod has failed, of this attempt or of one before: cheap to ask, which `trainyard` is not."""
    status = (cluster.get("trainjob", job) or {}).get("status", {})
    over = bool(status.get("trainyard", {}).get("attempts"))
    return over or any(pod["status"]["phase"] == "Failed" for pod in cluster.pods(job))


def explain(cluster: Cluster, job: str) -> subprocess.CompletedProcess[str]:
    return cluster.run("trainyard", "explain", job, "-n", cluster.namespace, check=False)


def explained(cluster: Cluster, job: str, mistake: Mistake) -> str:
    """The answer, which says what it should, made in this process: there are some hundred."""
    out, kubeconfig = io.StringIO(), str(cluster.sandbox.instance.kubeconfig)
    command.run(job, namespace=cluster.namespace, kubeconfig=kubeconfig, out=out)
    first, cause, *rest = out.getvalue().splitlines()
    assert re.search(mistake.said, first), out.getvalue()
    assert re.search(mistake.who, first) or re.search(mistake.who, cause), out.getvalue()
    assert mistake.place in "\n".join(rest), out.getvalue()
    return first


def explained_to_the_end(platform: Cluster, mistake: Mistake, folder: Path) -> list[str]:
    """The answers about its jobs: soon after their failure, and when their pods are gone."""
    with within(platform, f"mistakes-{mistake.name.lower().replace(' ', '-')}") as cluster:
        cluster.apply(
            by_yaml("torch-distributed", mistake.script), by_yaml("torch-checkpointed", mistake.script)
        )
        jobs = ("torch-distributed", "torch-checkpointed", by_sdk(cluster, mistake.script, folder))
        answers = []
        for job in jobs:
            eventually(f"{job} has failed", partial(failed, cluster, job), within=STARTED)
            answers.append(eventually(f"{job} is explained", partial(explained, cluster, job, mistake)))
        # Disruptions count as no restart of torch-checkpointed: it is evicted again and again.
        ending = [job for job in jobs if (mistake.name, job) != ("full disk", "torch-checkpointed")]
        for job in ending:
            cluster.wait_for_condition(job, "Failed", within=LEARNED)
        cluster.kubectl("delete", "pods", "--all", "--wait")
        for job in ending:
            attempts = (cluster.get("trainjob", job) or {})["status"]["trainyard"]["attempts"]
            assert len(attempts) == mistake.attempts, attempts
            answers.append(explained(cluster, job, mistake))
        return answers


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, platform: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Mistake], list[str]]]:
    """What comes of a mistake. With the first, all those of this run begin that need not be alone."""
    # The client keeps the kubeconfig's keys in files of the process, and no thread may read half of one.
    platform.list("pods")
    pool = ThreadPoolExecutor(AT_ONCE)

    def begin(mistake: Mistake) -> Future[list[str]]:
        folder = tmp_path_factory.mktemp("mistake")
        return pool.submit(explained_to_the_end, platform, mistake, folder)

    begun = {mistake: begin(mistake) for mistake in asked_for(request, "mistake") if not mistake.alone}

    def answers_to(mistake: Mistake) -> list[str]:
        if mistake.alone:
            wait(begun.values())
            return begin(mistake).result()
        return begun[mistake].result()

    yield answers_to
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_told_soon_and_when_its_pods_are_gone(
    answers: Callable[[Mistake], list[str]], mistake: Mistake
) -> None:
    print(*answers(mistake), sep="\n")


LEAVES = "import os, time; os.environ['JOB_COMPLETION_INDEX'] == '1' or time.sleep(600)"


@pytest.fixture(scope="module")
def left(request: pytest.FixtureRequest, platform: Cluster) -> Iterator[Cluster]:
    """The namespace of jobs, one of each runtime, of which a rank has left early."""
    with within(platform, "mistakes-rank-left") as cluster:
        for runtime in asked_for(request, "runtime"):
            job = by_yaml(runtime, "")
            job["spec"]["trainer"]["command"] = ["python", "-c", LEAVES]
            cluster.apply(job)
        yield cluster


@pytest.mark.parametrize("runtime", ["torch-distributed", "torch-checkpointed"])
def test_a_rank_that_leaves_early_is_told_while_the_others_wait(left: Cluster, runtime: str) -> None:
    def told() -> bool:
        answer = explain(left, runtime)
        assert answer.returncode == 1, answer.stdout
        assert "RankLeft: node 1 of 2 ended with exit code 0" in answer.stdout, answer.stdout
        return True

    eventually("who has left is told", told)
