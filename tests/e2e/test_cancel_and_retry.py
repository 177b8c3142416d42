"""`trainyard cancel`, `suspend`, `resume` and `retry`, by a data scientist and by who may only look."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, finish, trainjob
from tests.support.patience import LEARNED, eventually

from .people import TRAINYARD, of, trainyard
from .queues import queued, running

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

SLOW_TO_GO = "trap 'sleep 20; exit 1' TERM; echo begun; while true; do sleep 0.2; done"
"""A pod that takes its time, so that there is one between a deletion and the next creation."""


def uid(team_a: Cluster, job: str) -> str:
    there = team_a.get("trainjob", job)
    return "" if there is None else str(there["metadata"]["uid"])


def has_gone(team_a: Cluster, job: str) -> bool:
    return uid(team_a, job) == "" and team_a.pods(job) == []


def test_a_job_is_cancelled_by_who_may_and_not_by_who_may_only_look(team_a: Cluster) -> None:
    team_a.apply(queued("runs", "300m", UNTIL_TOLD))
    running(team_a, "runs")
    unconfirmed = trainyard(team_a, "ada", "cancel", "runs")
    assert (unconfirmed.returncode, unconfirmed.stdout) == (1, "")
    assert unconfirmed.stderr.startswith("TrainJob team-a/runs is ")
    assert "Nothing has been changed. To do it without confirmation: " in unconfirmed.stderr
    refused = trainyard(team_a, "vera", "cancel", "runs", "--yes")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == (
        "TrainJob team-a/runs: you are not allowed to delete TrainJobs in namespace team-a"
    )
    assert uid(team_a, "runs")
    done = trainyard(team_a, "ada", "cancel", "runs", "--yes")
    assert (done.returncode, done.stdout) == (0, "TrainJob team-a/runs is cancelled\n"), done.stderr
    eventually("it has gone with its pods", lambda: has_gone(team_a, "runs"))


@pytest.mark.jobset_queues
def test_a_job_of_a_queue_is_suspended_and_resumed(team_a: Cluster) -> None:
    """Its pods go, its quota is another's meanwhile, and it runs again."""
    team_a.apply(queued("pauses", "900m", UNTIL_TOLD))
    first = running(team_a, "pauses")
    held = trainyard(team_a, "ada", "suspend", "pauses")
    assert (held.returncode, held.stdout) == (
        0,
        "TrainJob team-a/pauses is suspended: its pods are deleted, and its quota is free for others; "
        "to resume it: trainyard resume pauses -n team-a\n",
    )
    eventually("its pods have gone", lambda: team_a.pods("pauses") == [])
    assert trainyard(team_a, "ada", "suspend", "pauses").stdout == (
        "TrainJob team-a/pauses is already suspended\n"
    )
    team_a.apply(queued("beside", "900m"))
    team_a.wait_for_condition("beside", "Complete", within=LEARNED)
    resumed = trainyard(team_a, "ada", "resume", "pauses")
    sentence = "TrainJob team-a/pauses is resumed: it waits for quota in queue default\n"
    assert (resumed.returncode, resumed.stdout) == (0, sentence)
    second = running(team_a, "pauses")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    finish(team_a, second)
    team_a.wait_for_condition("pauses", "Complete", within=LEARNED)
    ended = trainyard(team_a, "ada", "suspend", "pauses")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        "TrainJob team-a/pauses is Complete: it has ended, and cannot be suspended;"
    )


def written(team_a: Cluster, job: str) -> Object:
    """The manifest that `retry` would send."""
    answer = trainyard(team_a, "ada", "retry", job, "--dry-run", "-o", "yaml")
    assert answer.returncode == 0, answer.stderr
    manifest: Object = yaml.safe_load(answer.stdout)
    return manifest


def test_a_job_that_has_ended_is_sent_again_as_it_was_written(team_a: Cluster) -> None:
    job = queued("again", "200m", "echo once more")
    job["metadata"]["annotations"] = {"trainyard.dev/retention": "24h"}
    job["metadata"]["namespace"] = "team-a"
    team_a.apply(job)
    team_a.wait_for_condition("again", "Complete", within=LEARNED)
    manifest = written(team_a, "again")
    assert manifest["metadata"] == job["metadata"]
    assert "status" not in manifest
    assert set(manifest["spec"]) == set(job["spec"])
    before = uid(team_a, "again")
    answer = trainyard(team_a, "ada", "retry", "again", "-n", "team-a")
    assert (answer.returncode, answer.stdout) == (0, "TrainJob team-a/again is sent again\n"), answer.stderr
    assert uid(team_a, "again") not in {"", before}
    team_a.wait_for_condition("again", "Complete", within=LEARNED)
    assert team_a.condition("again", "Blocked") is None
    assert written(team_a, "again") == manifest
    second = trainyard(team_a, "ada", "retry", "again", "--name", "second")
    assert second.stdout == "TrainJob team-a/again is sent again as second\n", second.stderr
    team_a.wait_for_condition("second", "Complete", within=LEARNED)


def test_ctrl_c_between_deletion_and_creation_leaves_the_manifest(team_a: Cluster, tmp_path: Path) -> None:
    team_a.apply(trainjob("torn", SLOW_TO_GO))
    running(team_a, "torn")
    environment = {**of(team_a, "ada"), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [TRAINYARD, "retry", "torn", "--yes"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who was started in the background by a shell ignores it, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as retrying:
        assert retrying.stderr is not None
        for line in retrying.stderr:
            if line.startswith("Waiting until its pods have gone"):
                break
        retrying.send_signal(signal.SIGINT)
        out, err = retrying.communicate(timeout=LEARNED.now)
    [file] = (tmp_path / "trainyard" / "unsent").iterdir()
    assert (retrying.returncode, out) == (2, "")
    assert err.splitlines() == [
        "Interrupted.",
        f"To send it, once the old one has gone: kubectl create -f {file}",
    ]
    eventually("the old one has gone", lambda: has_gone(team_a, "torn"), within=LEARNED)
    team_a.run("kubectl", "create", "-f", str(file))
    pod = running(team_a, "torn")
    assert pod["metadata"]["namespace"] == "team-a"
    trainyard(team_a, "ada", "cancel", "torn", "--yes")
    eventually("the new one has gone", lambda: has_gone(team_a, "torn"), within=LEARNED)


def test_a_job_that_runs_is_sent_again_once_its_pods_have_gone(team_a: Cluster) -> None:
    team_a.apply(trainjob("runs", UNTIL_TOLD))
    first = running(team_a, "runs")
    unconfirmed = trainyard(team_a, "ada", "retry", "runs")
    assert (unconfirmed.returncode, unconfirmed.stdout) == (1, "")
    answer = trainyard(team_a, "ada", "retry", "runs", "--yes")
    assert (answer.returncode, answer.stdout) == (0, "TrainJob team-a/runs is sent again\n"), answer.stderr
    pods = [pod["metadata"]["uid"] for pod in team_a.pods("runs")]
    assert first["metadata"]["uid"] not in pods
    finish(team_a, running(team_a, "runs"))
    team_a.wait_for_condition("runs", "Complete", within=LEARNED)
