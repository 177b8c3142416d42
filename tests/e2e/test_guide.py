"""The guides for data scientists, each of their commands run by one, in their order."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, trainyard
from tests.support.patience import LEARNED, eventually
from trainyard_sandbox.paths import PROJECT

pytestmark = pytest.mark.sandbox(area="tenants")

GUIDE = (PROJECT / "docs" / "data-scientists.md").read_text(encoding="utf-8")
RESULTS = (PROJECT / "docs" / "results.md").read_text(encoding="utf-8")
FIRST_HOUR = (PROJECT / "docs" / "first-hour.md").read_text(encoding="utf-8")
SAID = {
    "cat accuracy": r"^0\.97$",
    "kubectl get trainjobs": "hello",
    "python examples/digits/submit.py": r"TrainJob \w+ is Complete:",
    "kubectl logs -l jobset.sigs.k8s.io/jobset-name=hello --prefix": r"rank 1 of 2 says hello",
    "trainyard run --local": r"1 \| this is node 1",
    "trainyard logs hello --rank 0": "rank 0 of 2 says hello",
    "trainyard logs hello": "rank 1 of 2 says hello",
    "trainyard attach hello": "rank 1 of 2 says hello",
    "trainyard explain hello": "TrainJob team-a/hello is complete",
    "kubectl create -f with-secret.yaml": "with-secret created",
    "trainyard run --nodes 2 --dry-run": "  admission  lets it in",
    "trainyard run --nodes 2 --name first": r"0 \| step 20: loss 0\.",
    "trainyard jobs --all": "first +Complete",
    "trainyard logs first": r"^step 20: loss 0\.",
    "trainyard clone first": r"No such file or directory: 'number\.txt'",
    "trainyard explain broken": r"number\.txt",
    "trainyard logs broken": r"number\.txt",
    "trainyard clone broken": r"0 \| step 20: loss 0\.",
    "trainyard attach long": r"0 \| rank 0 continues after step [1-9]",
    "trainyard run --interactive": r"^step 20: loss 0\.",
    "trainyard exec bench": "^weight.pt$",
}
"""What a command says, by how it begins."""
CODES = {"trainyard clone first": 1, "trainyard explain broken": 1}
"""The exit code of a command, by how it begins, where it is another than 0."""


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)


def commands(guide: str) -> list[str]:
    """Those after the one with which somebody becomes a data scientist, if there is one."""
    shown = [line for block in blocks(guide, "console") for line in block.splitlines()]
    found = [line[2:] for line in shown if line.startswith("$ ")]
    begins = [number + 1 for number, command in enumerate(found) if command.endswith("-- bash")]
    return found[max(begins, default=0) :]


def until_possible(command: str, team_a: Cluster) -> None:
    """Wait for what somebody sees before they go on."""
    if command in ("trainyard logs long", "trainyard suspend long"):
        eventually("it has taken some steps", lambda: "step 3:" in "".join(team_a.logs("long").values()))
    elif command == "trainyard resume long":
        eventually("its pods are gone", lambda: team_a.pods("long") == [])


@pytest.fixture
def folder(tmp_path: Path, team_a: Cluster) -> Iterator[Path]:
    """With the files that the guide shows, and the examples."""
    for block in (*blocks(GUIDE, "yaml"), *blocks(RESULTS, "yaml")):
        name = re.match(r"# (\S+\.yaml)\n", block)
        assert name, block
        (tmp_path / name[1]).write_text(block)
    [script] = blocks(FIRST_HOUR, "python")
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    yield tmp_path
    team_a.kubectl("delete", "secret", "hub", "--ignore-not-found")
    team_a.kubectl("delete", "pvc", "results", "--ignore-not-found", "--wait=false")


def follow(guide: str, team_a: Cluster, folder: Path) -> None:
    ada = {**team_a.sandbox.environment("ada", "team-a"), "HOME": str(folder)}
    for command in commands(guide):
        until_possible(command, team_a)
        answer = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=ada,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        code = next((code for begin, code in CODES.items() if command.startswith(begin)), 0)
        assert answer.returncode == code, f"{command}\n{answer.stdout}\n{answer.stderr}"
        wanted = next((said for begin, said in SAID.items() if command.startswith(begin)), "")
        assert re.search(wanted, answer.stdout, re.MULTILINE), f"{command}\n{answer.stdout}"
        if created := re.match(r"kubectl create -f (\S+)\.yaml", command):
            awaited = "Blocked" if "will wait forever" in answer.stderr else "Complete"
            team_a.wait_for_condition(created[1], awaited, within=LEARNED)


@pytest.mark.jobset_queues
def test_each_command_of_the_guide_works(team_a: Cluster, folder: Path) -> None:
    follow(GUIDE, team_a, folder)
    assert team_a.logs("with-secret") == {"with-secret-node-0-0": "a token of 6 characters\n"}


@pytest.mark.long
def test_each_command_of_the_page_on_results_works(team_a: Cluster, folder: Path) -> None:
    follow(RESULTS, team_a, folder)


@pytest.mark.jobset_queues
@pytest.mark.long
def test_each_command_of_the_first_hour_works(team_a: Cluster, folder: Path) -> None:
    (folder / "trainyard.yaml").unlink()  # of the other guide: with it, jobs have two nodes
    follow(FIRST_HOUR, team_a, folder)
    assert (folder / "weight.pt").is_file()
    assert team_a.get("trainjob", "bench") is None


def test_a_user_is_who_the_sandbox_says_and_no_path(team_a: Cluster) -> None:
    command = ("sandbox", "exec", "--name", team_a.name, "--namespace", "team-a", "--user")
    answer = trainyard(*command, "ada", "--", "kubectl", "auth", "can-i", "create", "trainjobs")
    assert answer.stdout == "yes\n"
    answer = trainyard(*command, "mallory", "--", "kubectl", "auth", "can-i", "get", "pods", check=False)
    assert answer.stdout == "no\n"
    answer = trainyard(*command, "../ada", "--", "true", check=False)
    assert answer.returncode != 0
    assert "--user '../ada': a name has at most 63 letters, digits, '.', '_' and '-'." in answer.stderr
