"""`trainyard jobs`, `logs` and `attach`, by a data scientist and by who may only look."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, finish, runtime, trainjob
from tests.support.patience import LEARNED, eventually

from .people import TRAINYARD, of, trainyard
from .queues import queued, running, said

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

PEOPLE = ("ada", "vera")
COUNTS = 'for i in 1 2 3; do echo "step $i"; sleep 0.3; done; '


def jobs(team_a: Cluster, person: str, *options: str) -> dict[str, Object]:
    answer = trainyard(team_a, person, "jobs", "-o", "json", *options)
    assert answer.returncode == 0, answer.stderr
    return {job["name"]: job for job in json.loads(answer.stdout)["trainJobs"]}


def two_nodes(name: str, script: str) -> Object:
    job = trainjob(name, script)
    job["spec"]["trainer"]["numNodes"] = 2
    return job


@pytest.mark.parametrize("person", PEOPLE)
def test_who_belongs_to_a_team_sees_what_runs_and_what_waits_where(team_a: Cluster, person: str) -> None:
    team_a.apply(queued("holds", "900m", UNTIL_TOLD))
    pod = running(team_a, "holds")
    team_a.apply(queued("waits", "500m"))
    said(team_a, "waits", "QuotaReserved", "False")

    def listed() -> dict[str, Object] | None:
        rows = jobs(team_a, person)
        runs = rows["holds"]["state"] == "Running"
        return rows if runs and rows.get("waits", {}).get("place") else None

    seen = eventually("one runs and the other has its place", listed)
    assert list(seen) == ["holds", "waits"]
    assert seen["holds"]["nodes"] == {"ready": 1, "total": 1}
    assert (seen["waits"]["state"], seen["waits"]["queue"]) == ("Queued", "default")
    assert seen["waits"]["place"]["position"] == 1
    finish(team_a, pod)
    for job in ("holds", "waits"):
        team_a.wait_for_condition(job, "Complete", within=LEARNED)
    assert jobs(team_a, person) == {}
    ended = jobs(team_a, person, "--all")
    assert {name: job["state"] for name, job in ended.items()} == {"holds": "Complete", "waits": "Complete"}
    refused = trainyard(team_a, person, "jobs", "-A")
    assert (refused.returncode, refused.stdout) == (2, "")
    sentence = "you are not allowed to list the TrainJobs of all namespaces; name one of yours with -n\n"
    assert refused.stderr == sentence


@pytest.mark.parametrize("person", PEOPLE)
def test_who_belongs_to_a_team_reads_the_logs_of_all_nodes(team_a: Cluster, person: str) -> None:
    team_a.apply(two_nodes("logs", COUNTS))
    team_a.wait_for_condition("logs", "Complete", within=LEARNED)
    answer = trainyard(team_a, person, "logs", "logs")
    assert answer.returncode == 0, answer.stderr
    whole = answer.stdout.splitlines()
    for rank in (0, 1):
        assert [line for line in whole if line.startswith(f"{rank} | ")] == [
            f"{rank} | step {step}" for step in (1, 2, 3)
        ]
    assert len(whole) == 6
    assert trainyard(team_a, person, "logs", "logs", "--rank", "1", "--tail", "1").stdout == "step 3\n"
    unknown = trainyard(team_a, person, "logs", "log")
    assert unknown.returncode == 2
    assert unknown.stderr == (
        "TrainJob log is not found: namespace team-a has none of this name; did you mean logs?\n"
    )
    absent = trainyard(team_a, person, "logs", "logs", "--rank", "7")
    assert (absent.returncode, absent.stderr) == (2, "TrainJob logs has no rank 7: it has 0, 1\n")


def test_a_job_is_followed_over_a_new_pod_to_its_end(team_a: Cluster, tmp_path: Path) -> None:
    """The pod of rank 0 is deleted: what both of its pods print is printed, each line once."""
    team_a.apply(two_nodes("followed", f"{COUNTS}{UNTIL_TOLD}"))
    printed = tmp_path / "printed"
    with (
        printed.open("w") as file,
        subprocess.Popen(
            [TRAINYARD, "logs", "followed", "--follow"],
            env=of(team_a, "ada"),
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as following,
    ):
        try:
            first = eventually("both run", lambda: ready(team_a, "followed"))
            # Nobody can read the lines of a pod that is gone, so it waits for its reader.
            eventually("both are printed", lambda: printed.read_text().count(" | step 3\n") == 2)
            [lost] = [pod for pod in first if index(pod) == "0"]
            team_a.kubectl("delete", "pod", lost["metadata"]["name"])
            second = eventually("both run again", lambda: ready(team_a, "followed", without=lost))
            for pod in second:
                eventually("it has counted", lambda pod=pod: counted(team_a, pod))
                finish(team_a, pod)
            team_a.wait_for_condition("followed", "Complete", within=LEARNED)
            following.wait(timeout=LEARNED.now)
        finally:
            following.kill()
    lines = printed.read_text().splitlines()
    assert following.returncode == 0, lines
    assert lines[-1] == "TrainJob team-a/followed is Complete"
    steps = [f"step {step}" for step in (1, 2, 3)]
    assert [line for line in lines if line.startswith("0 | ")] == [f"0 | {step}" for step in 2 * steps]
    assert [line for line in lines if line.startswith("1 | ")] == [f"1 | {step}" for step in steps]


def index(pod: Object) -> str:
    return str(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def counted(team_a: Cluster, pod: Object) -> bool:
    return "step 3" in team_a.kubectl("logs", pod["metadata"]["name"])


def ready(team_a: Cluster, job: str, *, without: Object | None = None) -> list[Object]:
    """Both pods, once they run and none is the one that is going."""
    gone = "" if without is None else without["metadata"]["uid"]
    pods = [pod for pod in team_a.pods(job) if pod["metadata"]["uid"] != gone]
    return pods if [pod["status"].get("phase") for pod in pods] == ["Running", "Running"] else []


def test_ctrl_c_ends_the_following_quietly(team_a: Cluster) -> None:
    team_a.apply(trainjob("endless", f"echo begun; {UNTIL_TOLD}"))
    pod = running(team_a, "endless")
    with subprocess.Popen(
        [TRAINYARD, "logs", "endless", "--follow"],
        env=of(team_a, "ada"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who was started in the background by a shell ignores it, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "0 | begun\n"
        following.send_signal(signal.SIGINT)
        out, err = following.communicate(timeout=LEARNED.now)
    assert (following.returncode, out, err) == (0, "", "")
    finish(team_a, pod)
    team_a.wait_for_condition("endless", "Complete", within=LEARNED)


def test_of_a_failed_job_whose_pods_are_gone_the_last_lines_are_printed(team_a: Cluster) -> None:
    team_a.apply(trainjob("lost", "echo no data; exit 42"))
    team_a.wait_for_condition("lost", "Failed", within=LEARNED)
    name = "lost-last-lines"
    eventually("its last lines are kept", lambda: team_a.get("configmap", name) is not None)
    team_a.kubectl("delete", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=lost", "--wait")
    eventually("its pods are gone", lambda: team_a.pods("lost") == [])
    answer = trainyard(team_a, "ada", "logs", "lost")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == "Its pods are gone, or cannot be read. These are their last lines:\n"
    assert "  | no data" in answer.stdout.splitlines()


# --- attach -------------------------------------------------------------------------


def attaching(team_a: Cluster, person: str, job: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [TRAINYARD, "attach", job],
        env=of(team_a, person),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who was started in the background by a shell ignores it, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


@pytest.mark.parametrize("person", PEOPLE)
def test_a_job_is_attached_to_from_its_queue_to_its_exit_code(team_a: Cluster, person: str) -> None:
    team_a.apply(queued("before", "900m", UNTIL_TOLD))
    pod = running(team_a, "before")
    team_a.apply(queued("attached", "500m", f"{COUNTS}exit 42"))
    said(team_a, "attached", "QuotaReserved", "False")
    eventually("it is queued", lambda: jobs(team_a, person).get("attached", {}).get("state") == "Queued")
    with attaching(team_a, person, "attached") as attached:
        try:
            assert attached.stderr is not None
            first = attached.stderr.readline()
            finish(team_a, pod)
            out, err = attached.communicate(timeout=LEARNED.now)
        finally:
            attached.kill()
    assert first.startswith("TrainJob team-a/attached is Queued: QuotaShort: it is number 1 in "), first
    assert (attached.returncode, out) == (42, "".join(f"0 | step {step}\n" for step in (1, 2, 3))), err
    cause, step = err.splitlines()[-2:]
    assert cause.startswith("TrainJob team-a/attached has failed: ")
    assert step.startswith("Next step: ")


def test_restarts_of_a_container_lose_and_double_no_line(team_a: Cluster) -> None:
    """Its kubelet restarts it in its pod, at once and then after a pause."""
    in_place = runtime(
        "restarts-in-place",
        kind="TrainingRuntime",
        job={"backoffLimit": 6},
        pod={
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "OnFailure",
            "volumes": [{"name": "runs", "emptyDir": {}}],
        },
        container={"volumeMounts": [{"name": "runs", "mountPath": "/runs"}]},
    )
    count = "n=$(ls /runs | wc -l); touch /runs/$n"
    # Nobody can read the first run's lines once the second has ended, so it waits for its reader.
    wait = "[ $n -gt 0 ] || sleep 10"
    job = trainjob("restarted", f'{count}; {wait}; echo "run $n begins"; echo "run $n ends"; [ $n -ge 2 ]')
    job["spec"]["runtimeRef"] = {"kind": "TrainingRuntime", "name": "restarts-in-place"}
    team_a.apply(in_place)
    team_a.apply(job)
    with attaching(team_a, "ada", "restarted") as attached:
        try:
            out, err = attached.communicate(timeout=LEARNED.now)
        finally:
            attached.kill()
    team_a.kubectl("delete", "trainjob", "restarted")
    team_a.kubectl("delete", "trainingruntime", "restarts-in-place")
    lines = [f"0 | run {run} {word}" for run in (0, 1, 2) for word in ("begins", "ends")]
    assert (attached.returncode, out.splitlines()) == (0, lines), err


def test_ctrl_c_leaves_the_job_running_and_whoever_comes_back_sees_how_it_ends(team_a: Cluster) -> None:
    team_a.apply(trainjob("left", f"echo begun; {UNTIL_TOLD}"))
    pod = running(team_a, "left")
    eventually("it is told to run", lambda: team_a.table("trainjobs")["left"]["STATE"] == "Running")
    with attaching(team_a, "ada", "left") as attached:
        assert attached.stdout is not None
        assert attached.stdout.readline() == "0 | begun\n"
        attached.send_signal(signal.SIGINT)
        out, err = attached.communicate(timeout=LEARNED.now)
    assert (attached.returncode, out) == (130, "")
    assert err.splitlines()[-1] == (
        "TrainJob team-a/left is Running, and continues. To come back: trainyard attach left"
    )
    finish(team_a, pod)
    team_a.wait_for_condition("left", "Complete", within=LEARNED)
    again = trainyard(team_a, "ada", "attach", "left")
    assert (again.returncode, again.stdout) == (0, "0 | begun\n")
    assert again.stderr.startswith("TrainJob team-a/left is complete: ")
