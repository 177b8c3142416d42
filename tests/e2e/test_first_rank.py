"""The rank that failed first is named, whichever it is and however, not one that failed for want of it."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.cluster import Cluster, Object, emptied
from tests.support.patience import NOTICED, STARTED, eventually

pytestmark = pytest.mark.sandbox(area="explain")

ENDS = {
    "exception": "raise ValueError('no such column')",
    "exit": "sys.exit(3)",
    "SIGKILL": "os.kill(os.getpid(), 9)",
    "OOM": "eaten = bytearray(8 << 30)",
}
SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
time.sleep(1)
if dist.get_rank() == {rank}:
    {ends}
while True:
    dist.all_reduce(torch.zeros(1))
"""
LINE = SCRIPT.splitlines().index("    {ends}") + 1
SHAPES = {2: (2, 1), 4: (2, 2), 6: (3, 2)}
"""Nodes and processes of each, by the number of ranks."""


@pytest.fixture
def namespace(platform: Cluster) -> Iterator[Cluster]:
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ranks"}})
    yield from emptied(platform.within("ranks"))


def every() -> Iterator[Any]:
    """The others take long."""
    for ranks in SHAPES:
        for rank in range(ranks):
            for number, ends in enumerate(ENDS):
                short = ends == "exception" or rank == number % ranks
                is_core = (ranks, rank, ends) == (2, 1, "exception")
                marks = pytest.mark.core if is_core else () if short else pytest.mark.soak
                yield pytest.param(ranks, rank, ends, marks=marks, id=f"{rank} of {ranks} by {ends}")


def sent(ranks: int, rank: int, ends: str) -> Object:
    nodes, each = SHAPES[ranks]
    script = SCRIPT.format(rank=rank, ends=ENDS[ends])
    trainer = {
        "numNodes": nodes,
        "numProcPerNode": each,
        "command": ["bash", "-c", 'printf %s "$0" > /tmp/train.py && exec torchrun /tmp/train.py', script],
        "resourcesPerNode": {"limits": {"memory": "2Gi"}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "fails"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
    }


def told(ranks: int, rank: int, ends: str) -> dict[str, Any]:
    """What is noted of the attempt."""
    node = rank // SHAPES[ranks][1]
    match ends:
        case "exception":
            return {"index": node, "rank": rank, "exitCode": 1}
        case "exit":
            return {"index": node, "rank": rank, "exitCode": 3}
        case "SIGKILL":
            return {"index": node, "rank": rank, "exitCode": 137, "signal": "SIGKILL"}
    return {"index": node, "exitCode": 137, "signal": "SIGKILL", "reason": "OOMKilled"}


@pytest.mark.parametrize(("ranks", "rank", "ends"), list(every()))
def test_the_rank_that_failed_first_is_named(namespace: Cluster, ranks: int, rank: int, ends: str) -> None:
    namespace.apply(sent(ranks, rank, ends))
    wanted = told(ranks, rank, ends)

    def noted() -> Object:
        status = (namespace.get("trainjob", "fails") or {}).get("status", {})
        first: Object = status["trainyard"]["attempts"][0]
        assert {field: first.get(field) for field in wanted} == wanted, first
        return first

    first = eventually("the first that failed is noted", noted, within=STARTED)
    if ends == "exception":
        assert first["message"].splitlines()[-1] == "ValueError: no such column"
        assert f'File "/tmp/train.py", line {LINE}, in <module>' in first["message"]


HANGS = """
import datetime, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
dist.barrier()
if dist.get_rank() == 1:
    time.sleep(7200)
dist.all_reduce(torch.zeros(1))
"""
RESTS = "import time\nprint('rests', flush=True)\ntime.sleep(7200)\n"
LOSES = HANGS.splitlines().index("dist.all_reduce(torch.zeros(1))") + 1
PATIENCE = 300
"""Seconds that torchrun waits for its peers by itself, though a rank of its own has failed."""


def of_two_nodes(script: str, **environment: str) -> Object:
    job = sent(2, 0, "exception")
    job["metadata"]["annotations"] = {"trainyard.dev/max-restarts": "0"}
    job["spec"]["trainer"]["command"][-1] = script
    job["spec"]["trainer"]["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    return job


@pytest.mark.long
def test_a_rank_that_lost_another_ends_its_torchrun_though_the_other_hangs(namespace: Cluster) -> None:
    namespace.apply(of_two_nodes(HANGS))
    failed = namespace.wait_for_condition("fails", "Failed", within=NOTICED)
    assert "rank 0 (node 0) failed first: lost others, exit code 1" in failed["message"]
    [noted] = (namespace.get("trainjob", "fails") or {})["status"]["trainyard"]["attempts"]
    assert f"(/tmp/train.py:{LOSES})" in failed["message"]
    raised, ended = (datetime.fromisoformat(at) for at in (noted["failedAt"], failed["lastTransitionTime"]))
    assert (ended - raised).total_seconds() < PATIENCE


@pytest.mark.long
def test_ranks_that_hang_are_said_to_be_silent_and_say_where_they_are(namespace: Cluster) -> None:
    namespace.apply(of_two_nodes(RESTS, TRAINYARD_SILENT_AFTER="20"))

    def told() -> re.Match[str] | None:
        said = namespace.run("trainyard", "explain", "fails", "-n", "ranks").stdout
        return re.search(r"silent for .*?: .* kubectl (exec .*) -- sh -c '(kill -USR1 [\d ]+)' ", said)

    silent = eventually("the ranks are silent", told, within=STARTED)
    _, _, _, pod, *_ = silent[1].split()
    namespace.kubectl(*silent[1].split(), "--", "sh", "-c", silent[2])
    place = f'File "/tmp/train.py", line {RESTS.splitlines().index("time.sleep(7200)") + 1} in <module>'
    eventually("it says where it is", lambda: place in namespace.kubectl("logs", pod))
