"""A job that has failed says how, though its pods and their logs are gone."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster, Object, add, emptied, runtime, trainjob
from tests.support.patience import eventually

pytestmark = pytest.mark.sandbox(area="explain")

SECOND_OF_TWO = """
import os, time
if os.environ["JOB_COMPLETION_INDEX"] == "1":
    raise ValueError("no such column")
time.sleep(600)
"""
HUNGRY = """
import subprocess, sys, time
eater = subprocess.run([sys.executable, "-c", "eaten = bytearray(1 << 30)"])
time.sleep(3)  # a container runtime that hears of the end before it hears why calls it `Error`
sys.exit(128 - eater.returncode)
"""


@pytest.fixture
def namespace(platform: Cluster) -> Iterator[Cluster]:
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "verdict"}})
    yield from emptied(platform.within("verdict"))


def twice() -> Object:
    """A runtime whose jobs begin again once, with all of their pods."""
    own = runtime(
        "twice",
        kind="TrainingRuntime",
        job={"backoffLimit": 0},
        pod={"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
        container={"terminationMessagePolicy": "FallbackToLogsOnError"},
    )
    own["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 1}
    return own


def of_python(name: str, script: str, nodes: int = 1, **trainer: Any) -> Object:
    job = trainjob(name, runtimeRef={"kind": "TrainingRuntime", "name": "twice"})
    job["spec"]["trainer"] = {"numNodes": nodes, "command": ["python", "-c", script], **trainer}
    return job


def attempts(namespace: Cluster, job: str) -> list[Object]:
    found: list[Object] = (namespace.get("trainjob", job) or {})["status"]["trainyard"]["attempts"]
    return found


@pytest.mark.core
def test_how_each_attempt_failed_is_known_when_its_pods_are_gone(namespace: Cluster) -> None:
    namespace.apply(twice(), of_python("mistaken", SECOND_OF_TWO, nodes=2))
    namespace.wait_for_condition("mistaken", "Failed")
    namespace.kubectl("delete", "pods", "--all", "--wait")
    noted = attempts(namespace, "mistaken")
    shown = {
        "job": "node",
        "index": 1,
        "container": "node",
        "exitCode": 1,
        "reason": "Error",
    }
    assert [{name: one[name] for name in shown} for one in noted] == [shown, shown]
    assert [one["attempt"] for one in noted] == [1, 2]
    assert [one["message"].splitlines()[-1] for one in noted] == ["ValueError: no such column"] * 2
    [failed] = (namespace.get("trainjob", "mistaken") or {})["status"]["conditions"]
    assert (failed["type"], failed["reason"]) == ("Failed", "ReachedMaxRestarts")
    first, _, ours = failed["message"].partition(". ")
    assert first.startswith("jobset failed due to ")
    assert ours.startswith(
        "In attempt 2 node 1 failed first: exit code 1, container node of pod mistaken-node-0-1-"
    )
    assert ours.endswith(": ValueError: no such column")
    events = eventually("both are told", lambda: told(namespace, "mistaken"))
    assert sorted(event.partition(": ")[0] for event in events) == ["Attempt 1", "Attempt 2"]
    answer = namespace.run("trainyard", "explain", "mistaken", "-n", "verdict", check=False)
    assert answer.returncode == 1
    assert "has failed: AttemptFailed: in attempt 2 node 1 failed first: exit code 1" in answer.stdout
    assert "ValueError: no such column" in answer.stdout
    assert "Traceback (most recent call last):" in answer.stdout


def test_a_container_that_is_started_again_where_it_is_leaves_its_last_words_too(namespace: Cluster) -> None:
    """As MPI's launcher, whose pod is deleted with the last try."""
    own = runtime(
        "in-place",
        kind="TrainingRuntime",
        job={"backoffLimit": 1},
        # The other node hears no SIGTERM.
        pod={"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 2},
        container={"terminationMessagePolicy": "FallbackToLogsOnError"},
    )
    job = of_python("mistaken", SECOND_OF_TWO, nodes=2)
    job["spec"]["runtimeRef"]["name"] = "in-place"
    namespace.apply(own, job)
    namespace.wait_for_condition("mistaken", "Failed")
    eventually("its pods are gone", lambda: namespace.pods("mistaken") == [])
    [noted] = attempts(namespace, "mistaken")
    assert (noted["attempt"], noted["index"], noted["exitCode"]) == (1, 1, 1)
    assert noted["message"].splitlines()[-1] == "ValueError: no such column"


TALK = """
import time
import torch.distributed as dist
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} has begun", flush=True)
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("no such column")
time.sleep(600)
"""


@pytest.mark.long
def test_what_each_node_printed_last_is_known_when_its_pods_are_gone(team_a: Cluster) -> None:
    job = of_torch("lines", *script(TALK))
    job["metadata"]["annotations"] = {"trainyard.dev/max-restarts": "0"}
    team_a.apply(job)
    team_a.wait_for_condition("lines", "Failed")
    eventually("they are kept", lambda: len(kept(team_a, "lines")) == 3)
    team_a.kubectl("delete", "pods", "--all", "--wait")
    answer = team_a.run("trainyard", "explain", "lines", "-n", "team-a", "--logs", check=False)
    assert answer.returncode == 1
    _, waited, failed = answer.stdout.split("\nLast lines of node ")
    assert waited.startswith("0 in attempt 1, pod lines-node-0-0-")
    assert "rank 0 has begun" in waited
    first, *lines = failed.splitlines()
    assert first.startswith("1 in attempt 1, pod lines-node-0-1-")
    assert first.endswith(", which failed first:")
    assert "rank 1 has begun" in failed
    assert any(line.endswith("ValueError: no such column") for line in lines), failed
    team_a.kubectl("delete", "trainjob", "lines", "--wait")
    eventually("they go with it", lambda: kept(team_a, "lines") == {})


def kept(namespace: Cluster, job: str) -> Object:
    """What the ConfigMap with the last lines of a job has; nothing if there is none."""
    found: Object = (namespace.get("configmap", f"{job}-last-lines") or {}).get("data", {})
    return found


def told(namespace: Cluster, job: str) -> list[str]:
    found = namespace.list("events")
    about = [event for event in found if event["involvedObject"]["name"] == job]
    said = [str(event["message"]) for event in about if event["reason"] == "AttemptFailed"]
    assert len(said) == 2, about
    return said


def of_torch(name: str, *command: str) -> Object:
    job = trainjob(name, runtimeRef={"name": "torch-distributed"})
    job["spec"]["trainer"] = {"numNodes": 2, "command": list(command)}
    return job


def script(text: str) -> tuple[str, ...]:
    return ("bash", "-c", 'printf %s "$0" > /tmp/train.py && exec torchrun /tmp/train.py', text)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (script("x = 1\nif:\n"), 42, "SyntaxError: invalid syntax (/tmp/train.py:2)"),
        (
            script("x = 1\nimport no_such\n"),
            42,
            "ModuleNotFoundError: No module named 'no_such' (/tmp/train.py:2)",
        ),
        (("torchrun", "none.py"), 2, "can't open file"),
        (
            ("python", "-c", "import argparse; argparse.ArgumentParser().parse_args(['-x'])"),
            2,
            "error: unrecognized arguments: -x",
        ),
        (("bash", "-c", "no-such-command"), 127, "bash: line 1: no-such-command: command not found"),
    ],
    ids=[
        "a SyntaxError",
        "a missing module",
        "no such script",
        "a wrong argument",
        "not found",
    ],
)
def test_what_would_only_fail_again_is_not_tried_again(
    namespace: Cluster, command: tuple[str, ...], code: int, said: str
) -> None:
    namespace.apply(of_torch("once", *command))
    failed = namespace.wait_for_condition("once", "Failed")
    assert failed["reason"] == "FailJobSetFailurePolicyAction"
    [noted] = attempts(namespace, "once")
    assert (noted["attempt"], noted["exitCode"]) == (1, code)
    namespace.kubectl("delete", "pods", "--all", "--wait")
    answer = namespace.run("trainyard", "explain", "once", "-n", "verdict", check=False)
    assert answer.returncode == 1
    assert said in answer.stdout.splitlines()[0]


def test_a_container_that_cannot_start_is_tried_again_as_its_node_may_be_the_reason(
    namespace: Cluster,
) -> None:
    namespace.apply(of_torch("once", "no-such-command"))
    failed = namespace.wait_for_condition("once", "Failed")
    assert failed["reason"] == "ReachedMaxRestarts"
    noted = [(attempt["attempt"], attempt["exitCode"]) for attempt in attempts(namespace, "once")]
    assert noted == [(1, 128), (2, 128), (3, 128), (4, 128)]


def test_an_elastic_job_too_is_not_tried_again_after_a_mistake(namespace: Cluster) -> None:
    job = trainjob("once", runtime="torch-elastic")
    arguments = ["--no_python", "python", "-c", "import no_such"]
    job["spec"]["trainer"] = {
        "numNodes": 1,
        "args": arguments,
        "env": [{"name": "MAX_RESTARTS", "value": "0"}],
    }
    namespace.apply(job)
    failed = namespace.wait_for_condition("once", "Failed")
    assert failed["reason"] == "FailJobSetFailurePolicyAction"
    [noted] = attempts(namespace, "once")
    assert (noted["attempt"], noted["exitCode"]) == (1, 42)


WITHOUT_TORCHRUN = (
    *("jax-distributed", "lightgbm-distributed", "paddle-distributed"),
    *("plain", "tensorflow-distributed", "xgboost-distributed"),
)


def on(runtime: str, script: str) -> Object:
    job = trainjob("fails", runtime=runtime)
    job["spec"]["trainer"] = {"numNodes": 2, "command": ["python", "-c", script]}
    return job


@pytest.mark.parametrize("runtime", WITHOUT_TORCHRUN)
def test_without_torchrun_too_a_missing_module_is_told_once_and_not_tried_again(
    namespace: Cluster, runtime: str
) -> None:
    framework = runtime.removesuffix("-distributed")
    if framework in ("lightgbm", "paddle", "tensorflow"):
        add(namespace.name, framework)
    namespace.apply(on(runtime, "import no_such"))
    namespace.wait_for_condition("fails", "Failed")
    namespace.kubectl("delete", "pods", "--all", "--wait")
    [noted] = attempts(namespace, "fails")
    assert (noted["attempt"], noted["exitCode"]) == (1, 42)
    assert noted["message"].splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such'"


@pytest.mark.parametrize(("runtime", "tries"), [("jax-distributed", [1, 2, 3, 4]), ("plain", [1])])
def test_without_torchrun_too_an_exception_is_kept_where_its_tries_are_over(
    namespace: Cluster, runtime: str, tries: list[int]
) -> None:
    job = on(runtime, SECOND_OF_TWO)
    job["metadata"]["annotations"] = {"trainyard.dev/max-restarts": "3"}
    namespace.apply(job)
    namespace.wait_for_condition("fails", "Failed")
    namespace.kubectl("delete", "pods", "--all", "--wait")
    noted = attempts(namespace, "fails")
    assert [(one["attempt"], one["index"], one["exitCode"]) for one in noted] == [(n, 1, 1) for n in tries]
    assert {one["message"].splitlines()[-1] for one in noted} == {"ValueError: no such column"}


def test_that_memory_ran_out_is_known_when_the_pod_is_gone(namespace: Cluster) -> None:
    limit = {"limits": {"memory": "64Mi"}}
    namespace.apply(twice(), of_python("hungry", HUNGRY, resourcesPerNode=limit))
    namespace.wait_for_condition("hungry", "Failed")
    namespace.kubectl("delete", "pods", "--all", "--wait")
    assert {(one["reason"], one["exitCode"], one["signal"]) for one in attempts(namespace, "hungry")} == {
        ("OOMKilled", 137, "SIGKILL")
    }
    answer = namespace.run("trainyard", "explain", "hungry", "-n", "verdict", check=False)
    assert "OOMKilled, exit code 137 (SIGKILL)" in answer.stdout
