"""Training outlives its pods: what is restarted, from where, and what is not worth a restart."""

import json

import pytest

from tests.support.cluster import Cluster, Object, trainjob
from tests.support.patience import LEARNED, eventually
from tests.support.runs import record

from .checkpoints import (
    EPOCHS,
    STEPS,
    checkpoint_job,
    final_loss,
    run_undisturbed,
    starts,
    wait_for_checkpoint,
)

pytestmark = pytest.mark.sandbox(area="operator")


def restarts(platform: Cluster, job: str) -> tuple[int, int]:
    """How often a JobSet was restarted, and how many of those count."""
    status = (platform.get("jobset", job) or {}).get("status", {})
    return status.get("restarts", 0), status.get("restartsCountTowardsMax", 0)


def running_pod(platform: Cluster, job: str) -> Object:
    """The pod of a job of one node as soon as it runs."""
    found: Object = eventually(
        f"{job} runs",
        lambda: next((pod for pod in platform.pods(job) if pod["status"]["phase"] == "Running"), None),
    )
    return found


def test_a_job_whose_pod_is_killed_goes_on_from_its_checkpoint_to_the_same_loss(
    platform: Cluster,
) -> None:
    platform.apply(checkpoint_job("killed"))
    wait_for_checkpoint(platform, "killed")
    platform.kill(platform.pods("killed")[1])
    platform.wait_for_condition("killed", "Complete", within=LEARNED)
    assert restarts(platform, "killed") == (1, 1)
    [step] = set(starts(platform, "killed"))
    assert 0 < step < EPOCHS * STEPS
    assert final_loss(platform, "killed") == pytest.approx(run_undisturbed(platform), abs=1e-6)
    record(platform, "killed", "torch", example="checkpoint")


def test_the_volume_of_checkpoints_goes_with_its_job(platform: Cluster) -> None:
    platform.apply(trainjob("tidy", "touch $CHECKPOINT_DIR/x", "torch-checkpointed"))
    platform.wait_for_condition("tidy", "Complete")
    assert platform.get("pvc", "checkpoints-tidy") is not None
    platform.kubectl("delete", "trainjob", "tidy")
    eventually("the claim is gone", lambda: platform.get("pvc", "checkpoints-tidy") is None)
    volumes = platform.sandbox.instance.dir / "volumes"
    eventually("its folder is gone", lambda: not list(volumes.glob("*_default_checkpoints-tidy")))


@pytest.mark.core
def test_exit_code_42_fails_the_job_at_once(platform: Cluster) -> None:
    platform.apply(trainjob("gives-up", "exit 42", "torch-checkpointed"))
    failed = platform.wait_for_condition("gives-up", "Failed")
    assert failed["reason"] == "FailJobSetFailurePolicyAction"
    assert restarts(platform, "gives-up") == (0, 0)


@pytest.mark.core
def test_a_failure_that_comes_twice_is_not_tried_a_third_time_and_loses_no_checkpoint(
    platform: Cluster,
) -> None:
    platform.apply(trainjob("alike", 'echo "no such column" >&2; exit 3', "torch-checkpointed"))
    failed = platform.wait_for_condition("alike", "Failed")
    assert failed["reason"] == "SameFailureTwice"
    assert "attempts 1 and 2 failed in the same way" in failed["message"]
    assert "no such column" in failed["message"]
    eventually("its pods are gone", lambda: not platform.pods("alike"))
    assert restarts(platform, "alike") == (2, 2)
    eventually(
        "its JobSet is suspended, which is written after the status",
        lambda: (platform.get("jobset", "alike") or {})["spec"]["suspend"],
    )
    assert platform.get("pvc", "checkpoints-alike") is not None


def test_a_job_is_tried_as_often_as_its_user_says(platform: Cluster) -> None:
    for number in (0, 3):
        job = trainjob(f"tried-{number}", "exit 3", "torch-checkpointed")
        job["metadata"]["annotations"] = {"trainyard.dev/max-restarts": str(number)}
        platform.apply(job)
    for number in (0, 3):
        platform.wait_for_condition(f"tried-{number}", "Failed", within=LEARNED)
        assert restarts(platform, f"tried-{number}") == (number, number)


def begun(platform: Cluster, job: str) -> Object:
    """The pod of a new job that runs until it is ended, and is done as soon as it is started again.

    Whichever of its processes is killed first: it does not end well.
    """
    script = """
        [ -e $CHECKPOINT_DIR/begun ] && exit
        touch $CHECKPOINT_DIR/begun
        trap "exit 1" TERM
        sleep 600 & wait $!
    """
    platform.apply(trainjob(job, script, "torch-checkpointed"))
    pod = running_pod(platform, job)
    volumes = platform.sandbox.instance.dir / "volumes"
    eventually("it has begun", lambda: list(volumes.glob(f"*_default_checkpoints-{job}/begun")))
    return pod


@pytest.mark.core
def test_a_killed_pod_is_restarted_and_the_restart_is_counted(platform: Cluster) -> None:
    platform.kill(begun(platform, "killed-once"))
    platform.wait_for_condition("killed-once", "Complete")
    assert restarts(platform, "killed-once") == (1, 1)


@pytest.mark.core
def test_an_evicted_pod_is_restarted_and_the_restart_is_not_counted(platform: Cluster) -> None:
    pod = begun(platform, "evicted")["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["name"]}}
    path = f"/api/v1/namespaces/default/pods/{pod['name']}/eviction"
    platform.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    platform.wait_for_condition("evicted", "Complete")
    assert restarts(platform, "evicted") == (1, 0)
