"""The rank that failed first is named, whichever it is and however, not one that failed for want of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster, Object, emptied
from tests.support.patience import STARTED, eventually

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
