"""Frameworks train over two pods, and all ranks come to the number that is right."""

import math
import re

import pytest

from tests.support.cluster import Cluster, add
from tests.support.patience import LEARNED

pytestmark = pytest.mark.sandbox(area="runtimes")


def ranks(platform: Cluster, example: str, job: str, pattern: str) -> dict[str, tuple[str, ...]]:
    """Run an example to its end. What `pattern` finds in the log of each pod that prints it."""
    platform.kubectl("apply", "-f", f"examples/{example}/trainjob.yaml")
    platform.wait_for_condition(job, "Complete", within=LEARNED)
    logs = platform.logs(job)
    return {pod: found[0] for pod, text in logs.items() if (found := re.findall(pattern, text))}


@pytest.mark.core
def test_mpirun_reaches_the_other_node_over_ssh_and_an_allreduce_gives_pi(platform: Cluster) -> None:
    platform.kubectl("apply", "-f", "examples/mpi/trainjob.yaml")
    platform.wait_for_condition("pi", "Complete", within=LEARNED)
    found = platform.said_by_launcher("pi", r"rank (\d) of 2 on (\S+): pi ([\d.]+)", 2)
    assert [(rank, host) for rank, host, _ in found] == [("0", "pi-launcher-0-0"), ("1", "pi-node-0-0")]
    assert [abs(float(pi) - math.pi) < 1e-9 for _, _, pi in found] == [True, True]


def trained(platform: Cluster, example: str, job: str, rest: str) -> set[str]:
    """Run an example in which two ranks train one model. What both say beside the loss, which has fallen."""
    platform.kubectl("apply", "-f", f"examples/{example}/trainjob.yaml")
    platform.wait_for_condition(job, "Complete", within=LEARNED)
    pattern = rf"rank (\d) of 2 on (\S+): loss ([\d.]+) -> ([\d.]+), ({rest})"
    ranks = platform.said_by_launcher(job, pattern, 2)
    assert [rank for rank, *_ in ranks] == ["0", "1"]
    assert {host for _, host, *_ in ranks} == {f"{job}-launcher-0-0", f"{job}-node-0-0"}
    assert [float(last) < float(first) / 5 for _, _, first, last, _ in ranks] == [True, True]
    return {words for *_, words in ranks}


@pytest.mark.long
def test_two_ranks_of_mlx_have_equal_weights(platform: Cluster) -> None:
    assert len(trained(platform, "mlx", "average", r"weights [\d.]+")) == 1


@pytest.mark.long
def test_two_ranks_of_deepspeed_with_zero_1_have_equal_weights_and_half_of_the_optimizer_each(
    platform: Cluster,
) -> None:
    """With Open MPI 5, which reads other variables than Open MPI 4."""
    add(platform.name, "deepspeed")
    [words] = trained(platform, "deepspeed", "zero", r"weights [\d.]+, moments of \d+ of \d+ parameters")
    [(held, parameters)] = re.findall(r"moments of (\d+) of (\d+)", words)
    assert 0.5 <= int(held) / int(parameters) < 0.51


def test_two_jax_processes_share_gradients_by_psum(platform: Cluster) -> None:
    pattern = r"rank (\d) of 2: psum (\d+), weights (\S+) (\S+) (\S+)"
    learnt = {
        rank: (int(psum), [round(float(weight), 3) for weight in weights])
        for rank, psum, *weights in ranks(platform, "jax", "regression", pattern).values()
    }
    assert learnt == {"0": (3, [1.0, -2.0, 3.0]), "1": (3, [1.0, -2.0, 3.0])}


def test_two_xgboost_workers_with_half_of_the_rows_each_grow_the_same_trees(platform: Cluster) -> None:
    pattern = r"rank (\d) of 2: (\d+) rows, trees (\w+), error ([\d.]+)"
    found = ranks(platform, "xgboost", "trees", pattern)
    assert {pod: (rank, rows) for pod, (rank, rows, _, _) in found.items()} == {
        "trees-node-0-0": ("0", "800"),
        "trees-node-0-1": ("1", "800"),
    }
    [(_, error)] = {(trees, float(error)) for _, _, trees, error in found.values()}
    # As one process with all rows; half of them alone leave 0.286 and 0.297.
    assert error == pytest.approx(0.2660, abs=0.005)
