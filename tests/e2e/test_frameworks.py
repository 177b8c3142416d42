"""Frameworks train over two pods, and all ranks come to the number that is right."""

import math
import re

import pytest
import yaml

from tests.support.cluster import Cluster, Object, add
from tests.support.patience import LEARNED, STARTED, eventually
from tests.support.runs import record
from trainyard_sandbox.paths import PROJECT

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
    record(platform, "pi", "openmpi", example="mpi")


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
    record(platform, "average", "mlx", "openmpi", example="mlx")


@pytest.mark.long
def test_two_ranks_of_deepspeed_with_zero_1_have_equal_weights_and_half_of_the_optimizer_each(
    platform: Cluster,
) -> None:
    """With Open MPI 5, which reads other variables than Open MPI 4."""
    add(platform.name, "deepspeed")
    [words] = trained(platform, "deepspeed", "zero", r"weights [\d.]+, moments of \d+ of \d+ parameters")
    [(held, parameters)] = re.findall(r"moments of (\d+) of (\d+)", words)
    assert 0.5 <= int(held) / int(parameters) < 0.51
    record(platform, "zero", "deepspeed", "torch", "openmpi", example="deepspeed")


def test_two_jax_processes_share_gradients_by_psum(platform: Cluster) -> None:
    pattern = r"rank (\d) of 2: psum (\d+), weights (\S+) (\S+) (\S+)"
    learnt = {
        rank: (int(psum), [round(float(weight), 3) for weight in weights])
        for rank, psum, *weights in ranks(platform, "jax", "regression", pattern).values()
    }
    assert learnt == {"0": (3, [1.0, -2.0, 3.0]), "1": (3, [1.0, -2.0, 3.0])}
    record(platform, "regression", "jax", example="jax")


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
    record(platform, "trees", "xgboost-cpu", example="xgboost")


def example(name: str, job: str, **env: str) -> Object:
    """The TrainJob of an example under another name, with more variables for its script."""
    manifest: Object = yaml.safe_load((PROJECT / "examples" / name / "trainjob.yaml").read_text())
    manifest["metadata"]["name"] = job
    manifest["spec"]["trainer"]["env"] = [{"name": key, "value": value} for key, value in env.items()]
    return manifest


def interrupt(platform: Cluster, job: str, checkpoint: str) -> dict[str, str]:
    """Kill node 1 once a checkpoint is whole, and wait for the end. What was printed before that, by pod."""
    volumes = platform.sandbox.instance.dir / "volumes"
    pattern = f"*_default_checkpoints-{job}/{checkpoint}"
    eventually(f"{job} has a checkpoint", lambda: list(volumes.glob(pattern)), within=STARTED)
    printed = platform.logs(job)
    of_job = f"jobset.sigs.k8s.io/jobset-name={job},batch.kubernetes.io/job-completion-index=1"
    [pod] = platform.list("pods", of_job)
    platform.kill(pod)
    platform.wait_for_condition(job, "Complete", within=LEARNED)
    return printed


def losses(log: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", log)]


@pytest.mark.long
def test_two_ranks_of_fsdp_hold_half_each_and_continue_from_a_checkpoint_of_both_halves(
    platform: Cluster,
) -> None:
    platform.apply(example("fsdp", "shards", STEPS="1000"))
    before = interrupt(platform, "shards", "*/.metadata")
    after = platform.logs("shards")
    pattern = r"rank (\d) of 2 on (\S+): (starts|resumes at step \d+) with (\d+) of 64 rows"
    [(_, _, resumed, _)] = re.findall(pattern, after["shards-node-0-0"])
    for begins, logs in (("starts", before), (resumed, after)):
        assert {pod: re.findall(pattern, log) for pod, log in logs.items()} == {
            f"shards-node-0-{rank}": [(str(rank), f"shards-node-0-{rank}", begins, "32")] for rank in (0, 1)
        }
    step = int(resumed.rpartition(" ")[2])
    assert (step % 20, 0 < step < 1000) == (0, True)
    assert losses(before["shards-node-0-0"])[0] > 1
    assert losses(after["shards-node-0-0"])[-1] < 0.05
    record(platform, "shards", "torch", example="fsdp")


@pytest.mark.long
def test_two_ranks_of_lightning_have_equal_weights_and_continue_from_the_last_epoch(
    platform: Cluster,
) -> None:
    add(platform.name, "trainers")
    platform.apply(example("lightning", "module", EPOCHS="60"))
    before = interrupt(platform, "module", "last.ckpt")
    after = platform.logs("module")
    pattern = r"rank (\d) of 2 on (\S+): (starts|resumes after epoch \d+)"
    [(_, _, resumed)] = re.findall(pattern, after["module-node-0-0"])
    for begins, logs in (("starts", before), (resumed, after)):
        assert {pod: re.findall(pattern, log) for pod, log in logs.items()} == {
            f"module-node-0-{rank}": [(str(rank), f"module-node-0-{rank}", begins)] for rank in (0, 1)
        }
    assert 0 < int(resumed.rpartition(" ")[2]) < 60
    [weights] = {weights for log in after.values() for weights in re.findall(r"weights ([\d.]+)", log)}
    assert float(weights) > 0
    assert losses(before["module-node-0-0"])[0] > 1
    assert losses(after["module-node-0-0"])[-1] < 0.05
    record(platform, "module", "lightning", "torch", example="lightning")


FAILS = {
    "fsdp": ("    loss.backward()\n", "    if step == 5 and rank == 1:\n"),
    "lightning": ("        return loss\n", "        if self.global_step == 5 and self.global_rank == 1:\n"),
}
"""Before which line of its script an example fails, and where that is."""


@pytest.mark.long
@pytest.mark.parametrize("framework", FAILS)
def test_the_rank_that_fails_is_named(platform: Cluster, framework: str) -> None:
    add(platform.name, "trainers")
    name = f"column-{framework}"
    job = example(framework, name)
    job["metadata"]["annotations"] = {"trainyard.dev/max-restarts": "0"}
    line, condition = FAILS[framework]
    indent = " " * (len(condition) - len(condition.lstrip()) + 4)
    *command, script = job["spec"]["trainer"]["command"]
    assert script.count(line) == 1
    fails = f'{condition}{indent}raise ValueError("no such column")\n{line}'
    job["spec"]["trainer"]["command"] = [*command, script.replace(line, fails)]
    platform.apply(job)
    platform.wait_for_condition(name, "Failed", within=LEARNED)
    status = (platform.get("trainjob", name) or {})["status"]
    [attempt] = status["trainyard"]["attempts"]
    assert (attempt["job"], attempt["index"]) == ("node", 1)
    answer = platform.run("trainyard", "explain", name, check=False)
    assert answer.returncode == 1
    assert f"{name}-node-0-1" in answer.stdout
    assert "ValueError: no such column" in answer.stdout
