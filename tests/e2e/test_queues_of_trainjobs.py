"""Where the queues hold TrainJobs: Kueue's own integration of them, with the official controller's words."""

from collections.abc import Iterator

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, emptied, finish, shows
from tests.support.patience import eventually
from trainyard_cli.cluster.queued_jobs import close

from .people import trainyard
from .queues import (
    gives_way_and_goes_on,
    moves_to_another_flavor,
    queued,
    running,
    two_flavors,
    waits_until_it_is_resumed,
    workload,
)

pytestmark = pytest.mark.sandbox(area="queues")


@pytest.fixture(scope="module")
def holding_trainjobs(platform: Cluster) -> Iterator[Cluster]:
    """The platform with Kueue's integration of TrainJobs; afterwards as it was."""
    document = platform.stack()
    document["config"]["trainyard:platform"]["kueue"]["integrations"] = ["trainer.kubeflow.org/trainjob"]
    stack = platform.sandbox.instance.dir / "holding-trainjobs.yaml"
    stack.write_text(yaml.safe_dump(document))
    up = ("up", "--stack", "sandbox", "--yes", "--skip-preview")
    platform.pulumi(*up, "--config-file", str(stack))
    yield platform
    platform.pulumi(*up)


@pytest.fixture
def team_a(holding_trainjobs: Cluster) -> Iterator[Cluster]:
    yield from emptied(holding_trainjobs.within("team-a"))


@pytest.fixture
def team_b(holding_trainjobs: Cluster) -> Iterator[Cluster]:
    yield from emptied(holding_trainjobs.within("team-b"))


def test_a_job_that_is_sent_suspended_waits_until_it_is_resumed(team_a: Cluster) -> None:
    waits_until_it_is_resumed(team_a, gate_on="trainjob")


def test_a_job_that_waits_is_suspended_by_kueue(team_a: Cluster) -> None:
    team_a.apply(queued("too-big", "64"))
    team_a.wait_for_condition("too-big", "Suspended")
    shows(team_a, "too-big", STATE="Queued", NODES="0/1", REASON="Suspended", QUEUE="default")


@pytest.mark.long
def test_a_running_job_is_not_suspended_by_its_user_and_one_that_was_sent_so_is_resumed(
    team_a: Cluster,
) -> None:
    """`spec.suspend` is Kueue's here, and what is Kueue's is not sent again."""
    team_a.apply(queued("runs", "100m", UNTIL_TOLD))
    pods = [running(team_a, "runs")]
    refused = trainyard(team_a, "ada", "suspend", "runs")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        "TrainJob team-a/runs cannot be suspended: queue default holds TrainJobs"
    )
    late = queued("late", "100m", UNTIL_TOLD)
    late["spec"]["suspend"] = True
    team_a.apply(late)
    team_a.wait_for_condition("late", "Suspended")
    for job, suspend in (("runs", None), ("late", True)):
        manifest = yaml.safe_load(trainyard(team_a, "ada", "retry", job, "--dry-run").stdout)
        assert "runtimePatches" not in manifest["spec"]
        assert "annotations" not in manifest["metadata"]
        assert manifest["spec"].get("suspend") is suspend
    resumed = trainyard(team_a, "ada", "resume", "late")
    sentence = "TrainJob team-a/late is resumed: it waits for quota in queue default\n"
    assert (resumed.returncode, resumed.stdout) == (0, sentence), resumed.stderr
    pods.append(running(team_a, "late"))
    for pod in pods:
        finish(team_a, pod)
    for job in ("runs", "late"):
        team_a.wait_for_condition(job, "Complete")


def test_a_high_priority_takes_the_quota_of_a_low_one_which_goes_on_after_it(
    team_a: Cluster, team_b: Cluster
) -> None:
    gives_way_and_goes_on(team_a, team_b, taker="TrainJob")


def test_a_job_that_moves_to_another_flavor_carries_nothing_of_the_first(holding_trainjobs: Cluster) -> None:
    with two_flavors(holding_trainjobs) as mover:
        moves_to_another_flavor(mover)


@pytest.mark.jobset_queues
def test_what_the_queues_hold_changes_once_no_job_is_in_them_and_none_comes_meanwhile(
    holding_trainjobs: Cluster, team_a: Cluster
) -> None:
    """The last one here: it leaves the platform with queues that hold JobSets, as its own stack file says."""
    platform, counted = holding_trainjobs, "count/trainjobs.trainer.kubeflow.org"

    def quota(part: str) -> str:
        return str((team_a.get("resourcequota", "tenant") or {})[part]["hard"][counted])

    allowed = quota("spec")
    team_a.apply(queued("runs", "100m", UNTIL_TOLD))
    pod = running(team_a, "runs")
    for command in ("preview", "up"):
        refused = platform.run("trainyard", command, "--stack", "sandbox", check=False)
        assert refused.returncode == 1, refused.stdout + refused.stderr
        assert "refused: the queues hold TrainJobs, and would hold JobSets" in refused.stderr
        assert "With quota: team-a/runs" in refused.stderr
        assert close() in refused.stderr
    platform.run("sh", "-c", close())
    eventually("the quota is nothing", lambda: quota("status") == "0")
    late = yaml.safe_dump(queued("late", "100m"))
    denied = team_a.run("kubectl", "create", "-n", "team-a", "-f", "-", check=False, stdin=late)
    assert "exceeded quota: tenant" in denied.stderr
    assert [one["metadata"]["uid"] for one in team_a.pods("runs")] == [pod["metadata"]["uid"]]
    finish(team_a, pod)
    team_a.wait_for_condition("runs", "Complete")
    eventually("its quota is free", lambda: _has_ended(workload(team_a, "runs")))
    platform.run("trainyard", "up", "--stack", "sandbox")
    eventually("the quota is as before", lambda: quota("status") == allowed)
    team_a.apply(queued("after", "100m", UNTIL_TOLD))
    pod = running(team_a, "after")
    assert workload(team_a, "after")["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
    finish(team_a, pod)
    team_a.wait_for_condition("after", "Complete")


def _has_ended(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any((one["type"], one["status"]) == ("Finished", "True") for one in conditions)
