"""What `make preview` and `make up` say: short where nothing changes, and of each change what it does."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, trainjob
from tests.support.patience import eventually
from trainyard_cli.files import outcomes
from trainyard_delivery.rollout.outcome import Outcome

pytestmark = pytest.mark.sandbox(area="platform")


@pytest.fixture
def runs(team_a: Cluster) -> Object:
    """A job of team-a's queue that runs."""
    job = trainjob("previewed", UNTIL_TOLD)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    team_a.apply(job)
    eventually("it runs", lambda: [p for p in team_a.pods("previewed") if p["status"]["phase"] == "Running"])
    return job


def stack_file(platform: Cluster, folder: Path) -> tuple[Path, Object]:
    """A copy of the sandbox's stack file to change, and what is in it."""
    return folder / "Pulumi.sandbox.yaml", platform.stack()


def preview(platform: Cluster, file: Path) -> tuple[subprocess.CompletedProcess[str], Outcome]:
    """What it prints, and what it writes for the report."""
    written = file.with_name("results") / "sandbox.json"
    command = ("env", f"PULUMI_OPTION_CONFIG_FILE={file}", "trainyard", "preview", "--stack", "sandbox")
    answer = platform.run(*command, "--outcome", str(written), check=False)
    return answer, outcomes.read(written, "sandbox")


@pytest.mark.holds("rollout")
@pytest.mark.core
def test_a_preview_says_of_each_object_what_changes_and_what_that_does_to_jobs(
    platform: Cluster, runs: Object, tmp_path: Path
) -> None:
    file, document = stack_file(platform, tmp_path)
    settings = document["config"]["trainyard:platform"]
    queues = settings["queues"]["clusterQueues"]  # in the file two of them are one
    queues["team-a"] = {**queues["team-a"], "stopPolicy": "HoldAndDrain"}
    del settings["tenants"]["team-b"]
    settings["queues"]["priorities"]["new"] = {"value": 1, "description": "New."}
    file.write_text(yaml.safe_dump(document))
    answer, outcome = preview(platform, file)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    said = answer.stdout.splitlines()
    assert said[-1] == f"sandbox: {outcome.summary}"
    assert outcome == Outcome(outcome.summary)
    assert said[:3] == [
        "~ ClusterQueue team-a",
        "    spec.stopPolicy: None -> HoldAndDrain",
        "    team-a/previewed (running) keeps its place in the queue; loses its pods: Kueue suspends it",
    ]
    stays = said.index("= Namespace team-b: stays in the cluster")
    assert said[stays + 1].startswith("    its TrainJobs, volume claims and Secrets stay in it")
    mpi = said.index("- RoleBinding team-b/trainyard-operator-mpi")
    assert said[mpi + 1].startswith("    MPI jobs can no longer start in team-b (Blocked, Forbidden)")
    assert "= LocalQueue team-b/default: stays in the cluster" in said
    assert "+ WorkloadPriorityClass new" in said
    assert {line.partition(" team-b/")[0] for line in said if line[:2] == "- "} == {"- Role", "- RoleBinding"}


def test_a_preview_refuses_a_runtime_whose_jobs_kubernetes_would_refuse(
    platform: Cluster, tmp_path: Path
) -> None:
    """The cluster is asked in a dry run, and asks the operator's webhook."""
    file, document = stack_file(platform, tmp_path)
    runtimes = document["config"]["trainyard:platform"]["runtimes"]
    runtimes["torch-distributed"]["resources"] = {"hugepages-2Mi": "4Mi"}  # without CPU and memory
    file.write_text(yaml.safe_dump(document))
    answer, outcome = preview(platform, file)
    said = answer.stdout + answer.stderr
    assert answer.returncode != 0, said
    assert "Kubernetes would refuse the Jobs: spec.template.spec.replicatedJobs[0].template" in said
    assert outcome.refusals, outcome
    assert [refusal for refusal in outcome.refusals if refusal not in answer.stderr.splitlines()] == []
