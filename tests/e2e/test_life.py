"""The life of a TrainJob: suspended, too long, blocked, and with an operator that dies."""

import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.support.cluster import OPERATOR, UNTIL_TOLD, Cluster, Object, finish, runtime, trainjob
from tests.support.patience import eventually, looks
from tests.support.runs import record

from .life import accepted, unchecked

pytestmark = pytest.mark.sandbox(area="operator")


def uid(found: Object | None) -> str | None:
    return found["metadata"]["uid"] if found else None


def set_suspend(platform: Cluster, name: str, value: bool) -> None:
    patch = f'{{"spec":{{"suspend":{str(value).lower()}}}}}'
    platform.kubectl("patch", "trainjob", name, "--type=merge", "-p", patch)


@pytest.mark.core
def test_a_job_that_starts_suspended_has_a_jobset_and_no_pods_until_it_is_resumed(platform: Cluster) -> None:
    platform.apply(trainjob("starts-suspended", suspend=True))
    suspended = platform.wait_for_condition("starts-suspended", "Suspended")
    assert (suspended["reason"], suspended["message"]) == ("Suspended", "TrainJob is suspended")
    jobset = eventually("its JobSet", lambda: platform.get("jobset", "starts-suspended"))
    assert jobset["spec"]["suspend"] is True
    assert platform.pods("starts-suspended") == []

    set_suspend(platform, "starts-suspended", False)
    platform.wait_for_condition("starts-suspended", "Complete")
    resumed = platform.condition("starts-suspended", "Suspended")
    assert resumed is not None
    assert (resumed["status"], resumed["reason"], resumed["message"]) == (
        "False",
        "Resumed",
        "TrainJob is resumed",
    )
    record(platform, "starts-suspended")
    assert uid(platform.get("jobset", "starts-suspended")) == jobset["metadata"]["uid"]


def test_a_running_job_loses_its_pods_when_suspended_and_runs_again_when_resumed(platform: Cluster) -> None:
    platform.apply(trainjob("pauses", UNTIL_TOLD))
    eventually("it runs", lambda: platform.pods("pauses"))
    set_suspend(platform, "pauses", True)
    platform.wait_for_condition("pauses", "Suspended")
    eventually("its pods are gone", lambda: platform.pods("pauses") == [])
    set_suspend(platform, "pauses", False)
    [pod] = eventually(
        "it runs again", lambda: [p for p in platform.pods("pauses") if p["status"]["phase"] == "Running"]
    )
    finish(platform, pod)
    platform.wait_for_condition("pauses", "Complete")


def test_a_suspended_job_keeps_the_runtime_that_it_started_with(platform: Cluster) -> None:
    first = runtime("editions", container={"env": [{"name": "EDITION", "value": "first"}]})
    platform.apply(first)
    platform.apply(trainjob("keeps-its-edition", "echo edition=$EDITION", "editions", suspend=True))
    eventually("its JobSet", lambda: platform.get("jobset", "keeps-its-edition"))
    container = first["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "spec"
    ]["containers"][0]
    container["env"][0]["value"] = "second"
    platform.apply(first)
    set_suspend(platform, "keeps-its-edition", False)
    platform.wait_for_condition("keeps-its-edition", "Complete")
    [pod] = platform.pods("keeps-its-edition")
    assert platform.log(pod["metadata"]["name"]) == "edition=first\n"


@pytest.mark.core
def test_a_job_past_its_deadline_fails_and_frees_its_nodes(platform: Cluster) -> None:
    platform.apply(trainjob("too-long", "sleep 600", activeDeadlineSeconds=5))
    failed = platform.wait_for_condition("too-long", "Failed")
    assert (failed["reason"], failed["message"]) == (
        "DeadlineExceeded",
        "TrainJob exceeded its active deadline",
    )
    eventually("its JobSet is gone", lambda: platform.get("jobset", "too-long") is None)


@pytest.mark.holds("platform")
@pytest.mark.core
def test_an_operator_killed_in_mid_job_changes_nothing_for_the_job(platform: Cluster) -> None:
    platform.apply(trainjob("survives", "sleep 8"))
    eventually("it runs", lambda: [p for p in platform.pods("survives") if p["status"]["phase"] == "Running"])
    jobset = uid(platform.get("jobset", "survives"))
    killed = platform.operator_pid()
    os.kill(killed, signal.SIGKILL)
    platform.wait_for_condition("survives", "Complete")
    eventually("the operator is back", lambda: [p for p in platform.operator_pids() if p != killed])
    # Until it answers webhooks again no TrainJob can be created.
    platform.wait("deployment/trainyard-operator", "-n", "trainyard-system", condition="condition=Available")
    eventually("admission answers", lambda: accepted(platform, trainjob("asks-again")))
    assert uid(platform.get("jobset", "survives")) == jobset
    assert len(platform.pods("survives")) == 1


def test_a_steady_state_and_a_restart_in_it_cost_no_write(platform: Cluster) -> None:
    platform.apply(trainjob("steady", "sleep 600"), trainjob("steady-suspended", suspend=True))
    platform.wait_for_condition("steady-suspended", "Suspended")
    eventually("it is ready", lambda: [j["ready"] for j in jobs_status(platform, "steady")] == [1])
    eventually("the other one is counted", lambda: jobs_status(platform, "steady-suspended"))

    def written() -> list[str]:
        jobs = ("steady", "steady-suspended")
        return [write for job in jobs for write in platform.audited_writes(OPERATOR, job)]

    before, acquired = settled(written), lease(platform)["acquireTime"]
    assert before.count("create jobsets") == 2
    killed = platform.operator_pid()
    os.kill(killed, signal.SIGKILL)
    eventually("another process leads", lambda: lease(platform)["acquireTime"] != acquired)
    assert settled(written) == before
    platform.kubectl("delete", "trainjob", "steady", "steady-suspended", "--wait=false")


def settled(ask: Callable[[], list[str]]) -> list[str]:
    """The answer that has stayed the same for five seconds, to be sure that nothing more comes."""
    last = None
    for _ in looks(pause=lambda: time.sleep(5)):
        before, last = last, ask()
        if last == before:
            return last
    raise AssertionError(f"there is no end of it: {last}")


def jobs_status(platform: Cluster, job: str) -> list[Object]:
    """The counts that the TrainJob has."""
    found = platform.get("trainjob", job) or {}
    counts: list[Object] = found.get("status", {}).get("jobsStatus", [])
    return counts


def lease(platform: Cluster) -> Object:
    """Who leads, and since when."""
    found = platform.within("trainyard-system").get("lease", "trainyard-operator")
    assert found is not None
    spec: Object = found["spec"]
    return spec


@pytest.mark.core
def test_a_job_without_a_runtime_is_refused_in_upstreams_words(platform: Cluster) -> None:
    lost = json.dumps(trainjob("lost", runtime="nowhere"))
    answer = platform.run("kubectl", "create", "-f", "-", stdin=lost, check=False)
    assert answer.returncode == 1
    assert (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook '
        '"validator.trainjob.trainer.kubeflow.org" denied the request: spec.RuntimeRef: Invalid value: '
    ) in answer.stderr
    assert 'clustertrainingruntimes.trainer.kubeflow.org "nowhere" not found' in answer.stderr


@pytest.mark.core
def test_a_job_whose_runtime_is_missing_says_so_and_goes_on_by_itself_when_it_appears(
    platform: Cluster,
) -> None:
    waits = trainjob("waits", runtime="appears-later")
    with unchecked(platform, {**waits, "metadata": {"name": "asks", "namespace": "default"}}):
        platform.apply(waits)
    blocked = platform.wait_for_condition("waits", "Blocked")
    assert blocked["reason"] == "RuntimeNotFound"
    assert "appears-later" in blocked["message"]
    events = eventually(
        "an Event says the same",
        lambda: [e for e in platform.list("events") if e["involvedObject"]["name"] == "waits"],
    )
    assert (events[0]["reason"], bool(events[0]["firstTimestamp"])) == ("RuntimeNotFound", True)
    platform.apply(runtime("appears-later"))
    platform.wait_for_condition("waits", "Complete")
    assert platform.condition("waits", "Blocked") is None


def test_a_jobset_of_the_same_name_that_is_not_ours_is_never_touched(platform: Cluster) -> None:
    pod = {"containers": [{"name": "c", "image": "docker.io/trainyard/torch-cpu:sandbox"}]}
    theirs = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "taken", "namespace": "default"},
        "spec": {
            "suspend": True,
            "replicatedJobs": [{"name": "x", "template": {"spec": {"template": {"spec": pod}}}}],
        },
    }
    platform.apply(theirs)
    before = eventually("it has its first status", lambda: platform.get("jobset", "taken"))
    platform.apply(trainjob("taken"))
    assert platform.wait_for_condition("taken", "Blocked")["reason"] == "JobSetConflict"
    after = platform.get("jobset", "taken")
    assert after is not None
    assert (uid(after), after["spec"]) == (uid(before), before["spec"])
    platform.kubectl("delete", "jobset", "taken")
    platform.wait_for_condition("taken", "Complete")


def test_a_job_managed_elsewhere_is_left_alone(platform: Cluster) -> None:
    platform.apply(trainjob("elsewhere", managedBy="kueue.x-k8s.io/multikueue"), trainjob("here"))
    platform.wait_for_condition("here", "Complete")
    elsewhere = platform.get("trainjob", "elsewhere")
    assert elsewhere is not None
    assert ("status" in elsewhere, platform.get("jobset", "elsewhere")) == (False, None)


def test_an_impossible_job_is_refused_by_the_api_server(platform: Cluster) -> None:
    impossible = trainjob("impossible", activeDeadlineSeconds=0)
    answer = platform.run(
        "kubectl", "create", "-f", "-", stdin=str(impossible).replace("'", '"'), check=False
    )
    assert answer.returncode == 1
    assert "spec.activeDeadlineSeconds: Invalid value" in answer.stderr
