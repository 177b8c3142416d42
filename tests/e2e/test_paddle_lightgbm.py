"""PaddlePaddle and LightGBM train over two pods, and both nodes come to one model."""

import re

import pytest

from tests.support.cluster import Cluster, Object, add
from tests.support.patience import LEARNED
from tests.support.runs import record
from trainyard_sandbox.paths import PROJECT

pytestmark = [pytest.mark.sandbox(area="runtimes"), pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def images(platform: Cluster) -> None:
    for part in ("paddle", "lightgbm"):
        add(platform.name, part)


def logs(platform: Cluster, example: str, job: str) -> dict[str, str]:
    """Run an example to its end: what its pods print."""
    platform.kubectl("apply", "-f", f"examples/{example}/trainjob.yaml")
    platform.wait_for_condition(job, "Complete", within=LEARNED)
    return platform.logs(job)


def test_two_nodes_of_paddle_learn_equal_weights_of_rows_of_their_own(platform: Cluster) -> None:
    printed = logs(platform, "paddle", "paddle")
    ends = {pod: re.findall(r"rank (\d) of 2: weights (\S+)", log) for pod, log in printed.items()}
    [(_, weights)] = ends["paddle-node-0-0"]
    assert ends == {f"paddle-node-0-{rank}": [(str(rank), weights)] for rank in (0, 1)}
    losses = {
        pod: [float(loss) for loss in re.findall(r"loss ([\d.]+)", log)] for pod, log in printed.items()
    }
    assert [loss[-1] < loss[0] / 100 for loss in losses.values()] == [True, True]
    assert losses["paddle-node-0-0"] != losses["paddle-node-0-1"]
    record(platform, "paddle", "paddlepaddle", example="paddle")


def test_two_nodes_of_lightgbm_with_half_of_the_rows_each_grow_the_same_trees(platform: Cluster) -> None:
    pattern = r"rank (\d) of 2: (\d+) rows, loss ([\d.]+) -> ([\d.]+), trees (\w+), error ([\d.]+)"
    ends = {pod: re.findall(pattern, log) for pod, log in logs(platform, "lightgbm", "boosting").items()}
    [(_, _, _, _, trees, error)] = ends["boosting-node-0-0"]
    assert {pod: [(rank, rows, own) for rank, rows, _, _, own, _ in end] for pod, end in ends.items()} == {
        f"boosting-node-0-{rank}": [(str(rank), "4000", trees)] for rank in (0, 1)
    }
    # As with all rows in one process; half of them alone leave 0.235 and 0.240.
    assert float(error) < 0.2
    record(platform, "boosting", "lightgbm", example="lightgbm")


PADDLE = """
import paddle
import paddle.distributed
paddle.distributed.init_parallel_env()
rank, total = paddle.distributed.get_rank(), paddle.ones([1])
paddle.distributed.all_reduce(total)
if rank == 1:
    raise ValueError("no such column")
while True:
    paddle.distributed.all_reduce(total)
"""


def script(framework: str) -> str:
    """What trains until node 1 fails in the midst of it, and node 0 with it."""
    if framework == "paddle":
        return PADDLE
    source = (PROJECT / "examples" / framework / "train.py").read_text()
    fails = 'if rank == 1 and at.iteration == 5:\n        raise ValueError("no such column")'
    source = source.replace("rows = lightgbm", f"def fail(at):\n    {fails}\n\n\nrows = lightgbm", 1)
    return source.replace("callbacks=[record]", "callbacks=[fail]")


@pytest.mark.parametrize("framework", ["paddle", "lightgbm"])
def test_the_node_that_fails_is_named(platform: Cluster, framework: str) -> None:
    name = f"column-{framework}"
    job: Object = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "annotations": {"trainyard.dev/max-restarts": "0"}},
        "spec": {
            "runtimeRef": {"name": f"{framework}-distributed"},
            "trainer": {"numNodes": 2, "command": ["python", "-c", script(framework)]},
        },
    }
    platform.apply(job)
    platform.wait_for_condition(name, "Failed", within=LEARNED)
    status = (platform.get("trainjob", name) or {})["status"]
    [attempt] = status["trainyard"]["attempts"]
    assert (attempt["job"], attempt["index"]) == ("node", 1)
    answer = platform.run("trainyard", "explain", name, check=False)
    assert answer.returncode == 1
    assert f"{name}-node-0-1" in answer.stdout
    assert "ValueError: no such column" in answer.stdout
