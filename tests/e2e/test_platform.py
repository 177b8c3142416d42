"""`pulumi up`, again, wrong, and back: what is installed, and what is never taken away."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, finish, shows, trainjob
from tests.support.patience import eventually
from trainyard_platform.parts.queues import gate
from trainyard_sandbox.paths import PROJECT

from . import queues
from .queues import queued, running, workload

pytestmark = pytest.mark.sandbox(area="platform")


def changes(platform: Cluster) -> dict[str, Any]:
    """What the last update changed, by kind of change."""
    [last, *_] = json.loads(platform.pulumi("stack", "history", "--json", "--stack", "sandbox").stdout)
    return dict(last["resourceChanges"])


@pytest.mark.holds("rollout")
@pytest.mark.core
def test_a_second_up_changes_nothing_and_leaves_no_credentials_behind(
    platform: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    up = platform.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview", "--diff")
    assert set(changes(platform)) == {"same"}, up.stdout
    assert [path.name for path in tmp_path.iterdir() if "kubeconfig" in path.name] == []


def test_the_checked_in_stack_file_stays_as_it_is(platform: Cluster) -> None:
    assert "encryptionsalt" not in (PROJECT / "stacks" / "Pulumi.sandbox.yaml").read_text()


@pytest.mark.core
def test_a_wrong_key_stops_the_preview_with_its_path_and_the_nearest_name(platform: Cluster) -> None:
    stack = platform.sandbox.instance.dir / "wrong.yaml"
    document = platform.stack()
    settings = document["config"]["trainyard:platform"]
    settings["operater"] = settings.pop("operator")
    stack.write_text(yaml.safe_dump(document))
    answer = platform.pulumi("preview", "--stack", "sandbox", "--config-file", str(stack), check=False)
    said = answer.stdout + answer.stderr
    assert answer.returncode != 0
    assert re.search(r"trainyard:platform\.operater.*operator", said), said
    assert "Traceback" not in said


def test_every_binary_on_this_way_is_a_real_one(platform: Cluster) -> None:
    """Compiled programs: no script of ours stands in for one, but for the language host.

    `pulumi` is a launcher, which becomes the real one.
    """
    for name in ("kube-apiserver", "kubelet", "kubectl", "etcd", "pulumi", "pulumi-resource-kubernetes"):
        path = platform.run("sh", "-c", f"command -v {name}").stdout.strip() or str(
            platform.sandbox.instance.dir / name
        )
        if launcher := re.search(r"pulumi_launcher (.+)", Path(path).read_text(errors="replace")):
            path = shlex.split(launcher[1])[0]
        with open(path, "rb") as file:
            assert file.read(4) == b"\x7fELF", path


@pytest.mark.core
def test_the_operator_runs_without_privileges(platform: Cluster) -> None:
    pods = platform.within("trainyard-system").list("pods")
    [pod] = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
    [container] = pod["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["status"]["containerStatuses"][0]["ready"] is True


CREATE = ("kubectl", "create", "--namespace", "team-a", "-f", "-")


def test_destroy_leaves_running_jobs_and_the_next_up_finds_them(platform: Cluster, team_a: Cluster) -> None:
    platform.apply(trainjob("outlives", "sleep 600"))
    eventually("it runs", lambda: [p for p in platform.pods("outlives") if p["status"]["phase"] == "Running"])
    team_a.apply(queued("holds-on", "100m", UNTIL_TOLD))
    pod = running(team_a, "holds-on")
    held = workload(team_a, "holds-on")["metadata"]["uid"]
    crds = {crd["metadata"]["name"] for crd in platform.list("crds")}

    def uids() -> list[str]:
        found = [
            platform.get("trainjob", "outlives"),
            platform.get("jobset", "outlives"),
            *platform.pods("outlives"),
        ]
        return [o["metadata"]["uid"] for o in found if o]

    before = uids()
    assert len(before) == 3
    destroyed = platform.run("make", "destroy", "STACK=sandbox", "YES=1").stdout
    assert destroyed.startswith("sandbox: https://")
    for part in ("trainyard-system/trainyard-operator", "jobset-system/jobset-controller"):
        assert f"    Deployment {part}: " in destroyed
    for running_job in ("default/outlives", "team-a/holds-on"):
        assert f"    {running_job} (running) keeps its pods, which run on; loses its status" in destroyed
    assert "To bring it back, and take over what has stayed: make up STACK=sandbox\n" in destroyed
    assert {crd["metadata"]["name"] for crd in platform.list("crds")} == crds
    assert uids() == before
    platform.kubectl("annotate", "trainjob", "outlives", "still=writable")
    # Both controllers are gone; the namespace stays, with the revisions that running jobs were built from.
    everywhere = platform.kubectl("get", "deployments", "--all-namespaces", "-o", "name")
    assert everywhere == ""
    assert platform.kubectl("get", "controllerrevisions", "-n", "trainyard-system", "-o", "name") != ""

    # Nobody judges a TrainJob, nor holds one of a queue until there is quota: it is not let in.
    job = trainjob("past-quota")
    for metadata, suspend in [({}, False), ({"labels": {"kueue.x-k8s.io/queue-name": "default"}}, True)]:
        sly = {
            **job,
            "metadata": {**job["metadata"], **metadata},
            "spec": {**job["spec"], "suspend": suspend},
        }
        refused = platform.run(*CREATE, check=False, stdin=yaml.safe_dump(sly))
        # Where the queues hold TrainJobs, two policies refuse those of a queue.
        assert any(f"'{policy}'" in refused.stderr for policy in (gate.PLATFORM_NAME, gate.NAME)), refused

    up = platform.run("make", "up", "STACK=sandbox").stdout
    left = re.findall(r"^sandbox: \d+ to delete, (\d+) to leave in the cluster$", destroyed, re.M)
    assert re.findall(r"^sandbox: \d+ to create, (\d+) to take over$", up, re.M) == left, up
    assert uids() == before
    platform.run(*CREATE, stdin=yaml.safe_dump(job))
    team_a.wait_for_condition("past-quota", "Complete")
    shows(team_a, "past-quota", STATE="Complete", NODES="", REASON="AllJobsCompleted", QUEUE="default")
    assert workload(team_a, "past-quota")["metadata"]["uid"] != held
    assert [p["metadata"]["uid"] for p in team_a.pods("holds-on")] == [pod["metadata"]["uid"]]
    assert workload(team_a, "holds-on")["metadata"]["uid"] == held
    shows(team_a, "holds-on", STATE="Running", NODES="1/1", REASON="", QUEUE="default")
    finish(team_a, pod)
    team_a.wait_for_condition("holds-on", "Complete")
    platform.apply(trainjob("after-the-next-up"))
    platform.wait_for_condition("after-the-next-up", "Complete")
    assert uids() == before
    # Its runtime is a new object by now. A later run has the content of the first all the same.
    queues.suspend(platform, "outlives", True)
    eventually("its pod is gone", lambda: platform.pods("outlives") == [])
    queues.suspend(platform, "outlives", False)
    running(platform, "outlives")
    lost = ("--field-selector=reason=RuntimeRevisionLost", "-o", "name")
    assert platform.kubectl("get", "events", *lost) == ""
    platform.kubectl("delete", "trainjob", "outlives", "--cascade=foreground", "--wait")
