"""TensorFlow trains over several pods as one, and goes on where it was when a pod is lost."""

import re
from typing import Any

import pytest
import yaml

from tests.support.cluster import Cluster, Object, add
from tests.support.patience import LEARNED, STARTED, eventually
from tests.support.runs import record
from trainyard_sandbox.paths import PROJECT

pytestmark = [pytest.mark.sandbox(area="runtimes"), pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def image(platform: Cluster) -> None:
    add(platform.name, "tensorflow")


ALONE = """
import json, os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import tensorflow as tf
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = tf.function(lambda: strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", 1.0)))
total()
if rank == 1:
    raise ValueError("no such column")
while True:
    total()
"""


def example(name: str, **env: str) -> list[Object]:
    """The objects of an example, with more variables for its script."""
    claim, job = yaml.safe_load_all((PROJECT / "examples" / name / "trainjob.yaml").read_text())
    job["spec"]["trainer"]["env"] += [{"name": key, "value": value} for key, value in env.items()]
    return [claim, job]


def pod(platform: Cluster, job: str, step: str, index: int = 0) -> Object:
    found: list[Object] = platform.list(
        "pods",
        f"jobset.sigs.k8s.io/jobset-name={job},jobset.sigs.k8s.io/replicatedjob-name={step},"
        f"batch.kubernetes.io/job-completion-index={index}",
    )
    assert len(found) == 1, found
    return found[0]


def says(platform: Cluster, of: Object, pattern: str) -> None:
    name = of["metadata"]["name"]
    eventually(
        f"{name} says {pattern!r}", lambda: re.search(pattern, platform.kubectl("logs", name)), within=STARTED
    )


def attempts(platform: Cluster, job: str) -> list[tuple[Any, ...]]:
    status = (platform.get("trainjob", job) or {})["status"]
    return [(one["attempt"], one["job"], one["index"]) for one in status["trainyard"]["attempts"]]


def test_two_workers_train_as_one_and_all_go_on_from_the_last_epoch_when_one_is_killed(
    platform: Cluster,
) -> None:
    platform.apply(*example("tensorflow", EPOCHS="60"))
    says_that_it_trains = r"epoch 3 of 60"
    eventually("both workers are there", lambda: pod(platform, "keras", "node", 1), within=STARTED)
    says(platform, pod(platform, "keras", "node", 1), says_that_it_trains)
    platform.kill(pod(platform, "keras", "node", 1))
    platform.wait_for_condition("keras", "Complete", within=LEARNED)
    logs = platform.logs("keras")
    assert sorted(logs) == ["keras-node-0-0", "keras-node-0-1"]
    begun = {re.findall(r"epoch (\d+) of 60", log)[0] for log in logs.values()}
    [epoch] = begun
    assert 1 < int(epoch) <= 60, "it goes on from the last epoch"
    ends = {
        host: re.findall(r"rank (\d) of 2: (\d) replicas in sync, weights (\S+)", log)
        for host, log in logs.items()
    }
    [(_, _, weights)] = ends["keras-node-0-0"]
    assert ends == {f"keras-node-0-{rank}": [(str(rank), "2", weights)] for rank in (0, 1)}
    losses = [float(loss) for loss in re.findall(r"rank 0 .*: loss ([\d.]+)", logs["keras-node-0-0"])]
    assert losses[-1] < 0.1
    assert attempts(platform, "keras")[0] == (1, "node", 1)
    record(platform, "keras", "tensorflow-cpu", "tf-keras", example="tensorflow")


def test_the_chief_goes_on_from_its_checkpoint_when_the_server_is_killed_and_ends_all_others(
    platform: Cluster,
) -> None:
    platform.apply(*example("tensorflow-ps", STEPS="3000"))
    eventually("the chief is there", lambda: pod(platform, "servers", "chief"), within=STARTED)
    says(platform, pod(platform, "servers", "chief"), r"step 300 of 3000")
    platform.kill(pod(platform, "servers", "ps"))
    platform.wait_for_condition("servers", "Complete", within=LEARNED)
    log = platform.log(pod(platform, "servers", "chief")["metadata"]["name"])
    [step] = re.findall(r"weights on /job:ps/replica:0/task:0\S*, resumes at step (\d+)", log)
    assert 0 < int(step) < 3000
    [(workers, off)] = re.findall(r"(\d) workers, weights ([\d.]+) off", log)
    assert (workers, float(off) < 0.01) == ("2", True)
    assert attempts(platform, "servers")[0] == (1, "ps", 0)

    def at_work() -> list[str]:
        return [p["metadata"]["name"] for p in platform.pods("servers") if p["status"]["phase"] == "Running"]

    eventually("workers and server have ended with the chief", lambda: at_work() == [])
    record(platform, "servers", "tensorflow-cpu", example="tensorflow-ps")


def test_a_worker_that_is_killed_is_replaced_and_the_job_does_not_restart(platform: Cluster) -> None:
    claim, job = example("tensorflow-ps", STEPS="6000")
    claim["metadata"]["name"] = job["metadata"]["name"] = "replaced"
    text = yaml.safe_dump(job).replace("claimName: servers", "claimName: replaced")
    platform.apply(claim, yaml.safe_load(text))
    eventually("the chief is there", lambda: pod(platform, "replaced", "chief"), within=STARTED)
    says(platform, pod(platform, "replaced", "chief"), r"step 300 of 6000")
    lost = pod(platform, "replaced", "node", 1)
    platform.kill(lost)
    platform.wait_for_condition("replaced", "Complete", within=LEARNED)
    log = platform.log(pod(platform, "replaced", "chief")["metadata"]["name"])
    assert re.findall(r", (starts|resumes)", log) == ["starts"]
    assert re.findall(r"(\d) workers, weights", log) == ["2"]
    assert (platform.get("jobset", "replaced") or {})["status"].get("restarts", 0) == 0


def test_the_worker_that_fails_is_named_and_not_the_one_that_lost_it(platform: Cluster) -> None:
    job: Object = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "column", "annotations": {"trainyard.dev/max-restarts": "0"}},
        "spec": {
            "runtimeRef": {"name": "tensorflow-distributed"},
            "trainer": {"numNodes": 2, "command": ["python", "-c", ALONE]},
        },
    }
    platform.apply(job)
    platform.wait_for_condition("column", "Failed", within=LEARNED)
    assert attempts(platform, "column") == [(1, "node", 1)]
    answer = platform.run("trainyard", "explain", "column", check=False)
    assert answer.returncode == 1
    assert "column-node-0-1" in answer.stdout
    assert "ValueError: no such column" in answer.stdout
