"""`trainyard seff` and `dump`, and `kubectl trainyard`: by a data scientist, and by who may only look."""

from __future__ import annotations

import json
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.cluster import A_SHELLS_OWN, UNTIL_TOLD, Cluster, finish
from tests.support.patience import LEARNED, eventually

from .queues import queued, running

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

PEOPLE = ("ada", "vera")
SECRET = "hunter2-of-ada"
NOBODY = (
    "What it uses is not known: nothing measures the pods of this cluster: "
    "it has no metrics.k8s.io (metrics-server).\n"
)


def answer(
    team_a: Cluster, person: str, *command: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command answers somebody of team-a."""
    return subprocess.run(
        command,
        env={**A_SHELLS_OWN, **team_a.sandbox.environment(person, "team-a")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_who_belongs_to_a_team_sees_what_a_job_asks_for_and_that_nobody_measures_it(team_a: Cluster) -> None:
    """The sandbox has no metrics-server. Who might not ask for metrics would be told that, and not this."""
    team_a.apply(queued("used", "100m", UNTIL_TOLD))
    pod = running(team_a, "used")
    eventually("it is told to run", lambda: team_a.table("trainjobs")["used"]["STATE"] == "Running")
    for person in PEOPLE:
        seen = answer(team_a, person, "trainyard", "seff", "used", "-o", "json")
        assert (seen.returncode, seen.stderr) == (1, "")
        figures = json.loads(seen.stdout)
        assert [(rank["rank"], rank["pod"]) for rank in figures["ranks"]] == [("0", pod["metadata"]["name"])]
        assert figures["total"]["cpu"] == {"requested": 0.1, "used": None, "percent": None}
        assert (figures["state"], figures["unmeasured"]) == ("Running", [NOBODY.rstrip()])
        text = answer(team_a, person, "trainyard", "seff", "used")
        assert (text.returncode, text.stderr) == (1, NOBODY)
        assert text.stdout.splitlines()[1].split()[:2] == ["0", "?/0.1"]
    finish(team_a, pod)
    team_a.wait_for_condition("used", "Complete", within=LEARNED)
    after = answer(team_a, "ada", "trainyard", "seff", "used")
    assert after.returncode == 1
    assert after.stdout.splitlines()[1].split()[:2] == ["0", "?/0.1"]
    assert after.stderr.startswith("TrainJob team-a/used is Complete")
    assert after.stderr.endswith("was measured only while it ran, and nothing has recorded it.\n")


@pytest.mark.parametrize("person", PEOPLE)
def test_who_belongs_to_a_team_collects_all_about_a_job_without_its_secrets(
    team_a: Cluster, person: str, tmp_path: Path
) -> None:
    job = queued("dumped", "100m", f'echo "password: {SECRET}"; echo begun; {UNTIL_TOLD}')
    job["spec"]["trainer"]["env"] = [{"name": "DB_PASS", "value": SECRET}]
    team_a.apply(job)
    pod = running(team_a, "dumped")
    name = pod["metadata"]["name"]
    eventually("it has begun", lambda: "begun" in team_a.kubectl("logs", name))
    done = answer(team_a, person, "trainyard", "dump", "dumped", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert done.stdout.startswith(f"{path.name}: ")
    with tarfile.open(path) as tar:
        whole = {
            entry.name.partition("/")[2]: tar.extractfile(entry).read().decode() for entry in tar.getmembers()
        }
    assert [file for file, text in whole.items() if SECRET in text] == []
    log = [line.partition(" ")[2] for line in whole[f"logs/{name}/node.log"].splitlines()]
    assert log == ["password: (removed)", "begun"]
    expected = ("trainjob", "runtime", "jobset", "jobs", "pods", "workloads", "queues", "events")
    assert {f"objects/{kind}.json" for kind in expected} <= whole.keys()
    assert whole["explain.txt"].startswith("TrainJob team-a/dumped ")
    contents = json.loads(whole["contents.json"])
    assert {"trainyard", "kubernetes", "trainer"} <= contents["versions"].keys()
    unread = {each["what"]: each["why"] for each in contents["unread"]}
    for subject in ("image of the operator", "revision of the runtime"):
        assert unread[subject] == f"you are not allowed to get the {subject}"
        assert f"Could not read {subject}: " in done.stderr
    again = answer(team_a, person, "trainyard", "dump", "dumped", "--output", path.name, folder=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith(f"{path.name}: already exists")
    finish(team_a, pod)
    team_a.wait_for_condition("dumped", "Complete", within=LEARNED)


def test_kubectl_finds_the_command_and_completes_it(team_a: Cluster) -> None:
    plugin = answer(team_a, "ada", "kubectl", "trainyard", "jobs", "--help")
    assert plugin.returncode == 0, plugin.stderr
    assert "Usage: kubectl trainyard jobs [OPTIONS]" in plugin.stdout
    listed = answer(team_a, "ada", "kubectl", "trainyard", "jobs", "-o", "json")
    assert json.loads(listed.stdout)["kind"] == "Jobs"
    completed = answer(team_a, "ada", "kubectl", "__complete", "trainyard", "sef")
    assert "seff" in completed.stdout.splitlines()
