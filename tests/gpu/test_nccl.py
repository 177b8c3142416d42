"""A rendered TrainJob on real GPUs: the command and the environment of its pods, over NCCL (`make test-gpu`).

It needs torchrun, PyTorch with CUDA and scikit-learn on PATH, and no cluster.
"""

import re
from pathlib import Path

import pytest

from .rendered import Node, gpus, needs, record

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("nodes", [1, 2], ids=["one node with every GPU", "two nodes with a GPU each"])
def test_a_rendered_job_trains_over_nccl(nodes: int, tmp_path: Path) -> None:
    needs(nodes)
    each = 1 if nodes > 1 else gpus()
    node = Node.of("digits/trainjob.yaml", "torch/torch-distributed.yaml", nodes, each)
    pods = []
    for index in range(nodes):
        seen = ",".join(str(gpu) for gpu in range(index * each, (index + 1) * each))
        folder = tmp_path / str(index)
        pods.append(node.start(index, folder, CUDA_VISIBLE_DEVICES=seen, NCCL_DEBUG="INFO"))
    logs = [pod.communicate(timeout=600)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0] * nodes, "\n".join(logs)
    first = logs[0]
    assert {f"rank {rank} of {nodes * each}" for rank in range(nodes * each)} == set(
        re.findall(r"rank \d+ of \d+", "".join(logs))
    )
    accuracy = re.search(r"accuracy (\d\.\d+)", first)
    assert accuracy, first
    assert float(accuracy[1]) >= 0.95, first
    assert re.search(rf"NCCL INFO .*nranks {nodes * each} ", first), first
    record("torch-distributed", "digits", tmp_path, "torch")
