"""A folder that travels with a TrainJob, sent by a data scientist."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.cluster import Cluster, Object, trainjob
from tests.support.patience import LEARNED, eventually
from trainyard_api.errors import UserError
from trainyard_assist.workspace import Packed, with_workspace
from trainyard_cli.cluster import connection, workspace
from trainyard_cli.files.workspace import pack
from trainyard_kube.client import Client
from trainyard_kube.resources import CLUSTER_TRAINING_RUNTIMES

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

T = TypeVar("T")

SHOWS = 'pwd; cat data/words; ./run.sh "$1"'


def folder(target: Path) -> Path:
    """A folder with a file in a folder, and one that can be run."""
    (target / "data").mkdir(parents=True)
    (target / "data" / "words").write_text("words of the folder\n")
    (target / "run.sh").write_text('#!/bin/sh\necho "ran with $1"\n')
    (target / "run.sh").chmod(0o755)
    return target


def asked(cluster: Cluster, person: str | None, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """The answer with the rights of somebody of a team, or None's: an administrator's."""
    kubeconfig = cluster.sandbox.environment(person, cluster.namespace or "default")["KUBECONFIG"]
    return connection.ask(connection.load(kubeconfig, None), "run", question)


def sent(cluster: Cluster, person: str | None, job: Object, packed: Packed) -> Object:
    """The TrainJob as it is stored, sent with the folder."""

    namespace = cluster.namespace or "default"
    manifest = {**job, "metadata": {**job["metadata"], "namespace": namespace}}

    async def send(client: Client) -> Object:
        name = job["spec"]["runtimeRef"]["name"]
        runtime = await client.get(CLUSTER_TRAINING_RUNTIMES.path(name=name))
        return await workspace.send(client, namespace, with_workspace(manifest, packed, runtime, "e2e"))

    return asked(cluster, person, send)


def secrets_of(team_a: Cluster, job: str) -> list[str]:
    names = [secret["metadata"]["name"] for secret in team_a.list("secrets")]
    return [name for name in names if name.startswith(f"{job}-workspace-")]


def test_each_node_runs_the_command_in_the_folder_and_the_secret_goes_with_the_trainjob(
    team_a: Cluster, tmp_path: Path
) -> None:
    job = trainjob("folder", SHOWS)
    job["spec"]["trainer"] |= {"numNodes": 2, "args": ["sh", "an argument"]}
    packed = pack(folder(tmp_path / "folder")).packed
    stored = sent(team_a, "ada", job, packed)
    team_a.wait_for_condition("folder", "Complete", within=LEARNED)
    text = "/trainyard/workspace\nwords of the folder\nran with an argument\n"
    assert sorted(team_a.logs("folder").values()) == [text, text]
    assert asked(team_a, "ada", lambda client: workspace.fetch(client, "team-a", stored)) == packed
    assert len(secrets_of(team_a, "folder")) == 1
    team_a.kubectl("delete", "trainjob", "folder", "--wait")
    eventually("its Secret is deleted with it", lambda: secrets_of(team_a, "folder") == [])


def test_who_may_only_look_is_told_and_sends_nothing(team_a: Cluster, tmp_path: Path) -> None:
    packed = pack(folder(tmp_path / "folder")).packed
    with pytest.raises(UserError) as refused:
        sent(team_a, "vera", trainjob("looks", SHOWS), packed)
    assert str(refused.value) == (
        "you are not allowed to create Secrets in namespace team-a, in which a workspace travels: ask the "
        "platform team for the right `secrets`, or put the files into an image"
    )
    assert team_a.get("trainjob", "looks") is None
    assert secrets_of(team_a, "looks") == []


@pytest.mark.parametrize("runtime", ["mpi-distributed", "horovod-distributed"])
def test_all_ranks_of_an_mpi_job_start_in_the_folder(platform: Cluster, tmp_path: Path, runtime: str) -> None:
    """As a user of the image, and as root."""
    name = f"folder-{runtime.partition('-')[0]}"
    script = 'echo "rank $OMPI_COMM_WORLD_RANK on $(hostname) in $(pwd): $(cat data/words)"'
    job = trainjob(name, runtime=runtime)
    job["spec"]["trainer"] = {"numNodes": 2, "numProcPerNode": 1, "command": ["mpirun", "sh", "-c", script]}
    sent(platform, None, job, pack(folder(tmp_path / "folder")).packed)
    platform.wait_for_condition(name, "Complete", within=LEARNED)
    here = ("/trainyard/workspace", "words of the folder")
    assert platform.said_by_launcher(name, r"rank (\d) on (\S+) in (\S+): (.+)$", 2) == [
        ("0", f"{name}-launcher-0-0", *here),
        ("1", f"{name}-node-0-0", *here),
    ]
