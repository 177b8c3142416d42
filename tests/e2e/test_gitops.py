"""What a pull request reaches in the cluster, and the platform as plain YAML."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clones import clone_at
from tests.support.cluster import UNTIL_TOLD, Cluster, Object, sandbox_of_its_own, trainjob
from tests.support.patience import eventually
from trainyard_delivery import plain_manifests
from trainyard_sandbox.paths import PROJECT

from .life import taken

READER = "impact-reader"
SEEN = {
    "trainer.kubeflow.org": ["trainjobs"],
    "jobset.x-k8s.io": ["jobsets"],
    "kueue.x-k8s.io": ["workloads", "localqueues"],
}


@pytest.fixture
def reader(platform: Cluster, tmp_path: Path) -> str:
    """A kubeconfig of somebody who may list what there is, and nothing else."""
    rules = [
        {"apiGroups": [group], "resources": plurals, "verbs": ["get", "list"]}
        for group, plurals in SEEN.items()
    ]
    metadata = {"name": READER}
    rbac = "rbac.authorization.k8s.io"
    platform.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": "default"}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": READER},
            "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": "default"}],
        },
    )
    config = yaml.safe_load(platform.sandbox.instance.kubeconfig.read_text())
    token = platform.kubectl("create", "token", READER, "--namespace", "default").strip()
    config["users"] = [{"name": READER, "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = READER
    path = tmp_path / "reader.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def clone(folder: Path) -> Path:
    """A repository with the catalog and the sandbox's stack, and a change that is not committed."""
    folder.mkdir()
    clone_at(folder)
    shutil.copytree(PROJECT / "runtimes", folder / "runtimes", dirs_exist_ok=True)
    stack = folder / "stacks" / "Pulumi.sandbox.yaml"
    shutil.copy(PROJECT / "stacks" / stack.name, stack)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "before"]):
        subprocess.run([*git, *arguments], check=True)
    document = yaml.safe_load(stack.read_text())
    settings = document["config"]["trainyard:platform"]
    settings["runtimes"]["plain"]["env"] = {"NEW": "yes"}
    queues = settings["queues"]["clusterQueues"]  # in the file two of them are one
    queues["team-a"] = {**queues["team-a"], "stopPolicy": "HoldAndDrain"}
    stack.write_text(yaml.safe_dump(document))
    return folder


def impact(platform: Cluster, folder: Path, kubeconfig: str, *arguments: str) -> str:
    command = 'cd "$0" && exec trainyard impact --stack sandbox --since HEAD --kubeconfig "$@"'
    return platform.run("sh", "-c", command, str(folder), kubeconfig, *arguments).stdout


@pytest.mark.jobset_queues
@pytest.mark.core
@pytest.mark.sandbox(area="platform")
def test_who_reads_alone_is_told_whom_a_change_reaches(
    platform: Cluster, team_a: Cluster, reader: str, tmp_path: Path
) -> None:
    job = trainjob("impact-runs", UNTIL_TOLD)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    team_a.apply(job)
    eventually(
        "it runs", lambda: [p for p in team_a.pods("impact-runs") if p["status"]["phase"] == "Running"]
    )
    folder = clone(tmp_path / "clone")
    found = json.loads(impact(platform, folder, reader, "--output", "json"))
    changes = {f"{one['kind']} {one['name']}": one for one in found["changes"]}
    assert set(changes) == {"ClusterTrainingRuntime plain", "ClusterQueue team-a"}
    mine = {"namespace": "team-a", "name": "impact-runs", "state": "running"}
    queue = changes["ClusterQueue team-a"]
    assert queue["fields"] == [{"path": "spec.stopPolicy", "before": "None", "after": "HoldAndDrain"}]
    assert queue["trainJobs"] == [
        {**mine, "keeps": "its place in the queue", "loses": "its pods: Kueue suspends it"}
    ]
    [runs] = [
        one for one in changes["ClusterTrainingRuntime plain"]["trainJobs"] if one["name"] == mine["name"]
    ]
    assert runs == {
        **mine,
        "keeps": "the runtime that it started with, whatever becomes of its pods",
        "loses": "",
    }
    assert (found["unjudged"], found["unseen"]) == ([], [])
    text = impact(platform, folder, reader)
    assert "team-a/impact-runs (running) keeps its place in the queue; loses its pods" in text


@pytest.fixture(scope="module")
def rendered(platform: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sandbox's stack as plain manifests."""
    target = tmp_path_factory.mktemp("manifests")
    said = platform.run("make", "manifests", "STACK=sandbox", f"OUTPUT={target}").stdout
    assert f"{target}: " in said, said
    assert not (PROJECT / "stacks" / "Pulumi.sandbox.yaml").read_text().startswith("encryption")
    return target


@pytest.fixture(scope="module")
def empty() -> Iterator[Cluster]:
    """Another sandbox, with nothing installed."""
    with sandbox_of_its_own("plain") as cluster:
        yield cluster


def manifests(folder: Path) -> list[Object]:
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("wave-*/*.yaml"))]


def identity(manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.mark.sandbox(area="platform")
def test_plain_manifests_are_all_that_pulumi_installs_and_no_secret(
    platform: Cluster, rendered: Path
) -> None:
    exported = json.loads(platform.pulumi("stack", "export", "--stack", "sandbox").stdout)
    installed = {identity(one.manifest): one.manifest for one in plain_manifests.waves(exported)}
    found = {identity(one): one for one in manifests(rendered)}
    assert set(found) == set(installed)
    assert len(found) > 100
    for name, manifest in found.items():
        assert manifest == installed[name], name
    assert [one for one in found.values() if one["kind"] == "Secret" and one.get("data")] == []
    assert "pulumi.com/" not in "".join(path.read_text() for path in rendered.glob("wave-*/*.yaml"))


@pytest.mark.soak  # two minutes and a half, for what the comparison above says too
def test_applied_wave_by_wave_to_an_empty_cluster_they_are_a_platform(empty: Cluster, rendered: Path) -> None:
    empty.run("examples/gitops/kubectl.sh", str(rendered))
    team_a = empty.within("team-a")
    job = trainjob("by-kubectl")
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    eventually("the webhook answers", lambda: taken(team_a, job))
    team_a.wait_for_condition("by-kubectl", "Complete")
    admitted = next(one for one in team_a.list("workloads") if "by-kubectl" in one["metadata"]["name"])
    assert admitted["status"]["admission"]["clusterQueue"] == "team-a"
    again = empty.run("examples/gitops/kubectl.sh", str(rendered)).stdout
    assert again.count("serverside-applied") == len(manifests(rendered)), (
        "nothing of it is anybody else's by now"
    )
