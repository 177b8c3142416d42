"""`trainyard run` and `trainyard clone`, by a data scientist and by who may only look."""

from __future__ import annotations

import os
import pty
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import Cluster
from tests.support.patience import LEARNED, eventually

from .people import TRAINYARD, of

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

RANKS = 'import os; print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], os.environ["NOTE"])'


def trainyard(
    team_a: Cluster, person: str, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """What the command answers somebody of team-a, who is in this folder and has no terminal."""
    return subprocess.run(
        [TRAINYARD, *arguments],
        env=of(team_a, person),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )


def test_a_command_is_planned_sent_and_sent_again_with_other_settings(
    team_a: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "trainyard.yaml").write_text("nodes: 1\nenv: {NOTE: of the file}\n")
    words = ("--", "python", "-c", RANKS)
    options = ("--name", "ranks", "--nodes", "2", "--yes", "--detach")
    first = trainyard(team_a, "ada", tmp_path, "run", *options, *words)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("TrainJob team-a/ranks\n  runtime    torch-distributed\n")
    assert "  command    torchrun --no_python python -c " in first.stdout
    assert "  nodes      2" in first.stdout
    assert "  queue      default: starts now" in first.stdout
    assert "  admission  lets it in\n" in first.stdout
    assert first.stdout.endswith("To follow it: trainyard attach ranks\n")
    team_a.wait_for_condition("ranks", "Complete", within=LEARNED)
    # torchrun may warn that the other node has left first.
    logs = {name: log.splitlines() for name, log in team_a.logs("ranks").items()}
    assert {name: [line for line in lines if line.startswith("rank")] for name, lines in logs.items()} == {
        f"ranks-node-0-{rank}": [f"rank {rank} of 2 of the file"] for rank in (0, 1)
    }
    taken = trainyard(team_a, "ada", tmp_path, "run", "--name", "ranks", "--yes", *words)
    assert (taken.returncode, taken.stdout) == (2, "")
    assert taken.stderr.startswith("namespace team-a has a TrainJob ranks already: choose another --name")
    again = trainyard(
        team_a, "ada", tmp_path, "clone", "ranks", "--nodes", "1", "--name", "one", "--yes", "-d"
    )
    assert again.returncode == 0, again.stderr
    assert "  changes    since ranks, " in again.stdout
    assert "             trainer.numNodes: 2 -> 1\n" in again.stdout
    team_a.wait_for_condition("one", "Complete", within=LEARNED)
    assert team_a.logs("one")["one-node-0-0"].split() == ["rank", "0", "of", "1", "of", "the", "file"]


def test_a_folder_is_sent_and_followed_and_the_exit_code_is_the_jobs(team_a: Cluster, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("words of the folder\n")
    (tmp_path / ".env").write_text("TOKEN=1")
    (tmp_path / "train.sh").write_text("cat words\n[ -e .env ] || echo no secrets\nexit 42\n")
    options = ("--name", "folder", "--runtime", "plain", "--yes")
    followed = trainyard(team_a, "ada", tmp_path, "run", *options, "--", "sh", "train.sh")
    assert followed.returncode == 42, followed.stderr
    assert f"  workspace  {tmp_path}: 2 files, " in followed.stdout
    assert "             .env has the name of a file with secrets: it is left out\n" in followed.stdout
    assert "TrainJob team-a/folder is sent.\n" in followed.stdout
    assert followed.stdout.endswith("0 | words of the folder\n0 | no secrets\n")
    assert "TrainJob team-a/folder has failed: " in followed.stderr
    (tmp_path / "train.sh").unlink()
    command = ("--", "cat", "words")
    copied = trainyard(team_a, "ada", tmp_path, "clone", "folder", "--name", "copied", "--yes", *command)
    assert copied.returncode == 0, copied.stderr
    assert "  workspace  that of folder\n" in copied.stdout
    assert copied.stdout.endswith("0 | words of the folder\n")


def test_a_variable_of_the_command_reaches_the_ranks_of_an_mpi_job_on_every_node(
    team_a: Cluster, tmp_path: Path
) -> None:
    """mpirun itself passes no variable of the launcher on to the workers."""
    # In one write, which nothing of the other rank can interrupt.
    ranks = (
        "import os, sys; environment = os.environ; "
        "rank, steps, odd = (environment[name] for name in ('OMPI_COMM_WORLD_RANK', 'STEPS', 'ODD')); "
        r"sys.stdout.write(f'rank {rank} {steps} {odd}\n')"
    )
    options = ("--name", "forwarded", "--runtime", "mpi-distributed", "--nodes", "2", "--yes", "--detach")
    variables = ("--env", "STEPS=200", "--env", "ODD=a;b c,d=e")
    sent = trainyard(team_a, "ada", tmp_path, "run", *options, *variables, "--", "python", "-c", ranks)
    assert sent.returncode == 0, sent.stderr
    team_a.wait_for_condition("forwarded", "Complete", within=LEARNED)
    assert team_a.said_by_launcher("forwarded", r"rank (\d) (\S+) (.*)$", 2) == [
        ("0", "200", "a;b c,d=e"),
        ("1", "200", "a;b c,d=e"),
    ]


def test_what_cannot_be_sent_is_told_and_nothing_is_sent(team_a: Cluster, tmp_path: Path) -> None:
    def answer(person: str, *arguments: str) -> tuple[int, str]:
        answered = trainyard(team_a, person, tmp_path, "run", *arguments, "--", "python", "-c", "1")
        return answered.returncode, answered.stderr

    code, sentence = answer("ada", "--yes", "--runtime", "torch-distribute")
    assert code == 2
    assert sentence.endswith("; did you mean torch-distributed?\n")
    code, sentence = answer("ada", "--yes", "--queue", "defaul")
    assert (code, sentence) == (2, "namespace team-a has no LocalQueue defaul; did you mean default?\n")
    assert answer("ada") == (
        2,
        "there is no terminal to ask: --yes sends it, --dry-run only plans it\n",
    )
    assert answer("ada", "--yes", "--nodes", "0")[0] == 2
    assert answer("vera", "--yes") == (2, "you are not allowed to create TrainJobs in namespace team-a\n")
    refused = trainyard(
        team_a, "ada", tmp_path, "run", "--yes", "--env", "PET_NNODES=3", "--", "python", "-c", "1"
    )
    assert refused.returncode == 1
    assert "  admission  refuses it: admission webhook " in refused.stdout
    assert team_a.list("trainjobs") == []


@pytest.mark.jobset_queues
def test_a_job_that_never_fits_is_planned_with_the_warning_of_admission(
    team_a: Cluster, tmp_path: Path
) -> None:
    arguments = ("run", "--dry-run", "-o", "yaml", "--cpus", "40", "--", "python", "-c", "1")
    planned = trainyard(team_a, "ada", tmp_path, *arguments)
    assert planned.returncode == 0, planned.stderr
    assert "  admission  lets it in, with a warning\n" in planned.stderr
    assert "this job will wait forever" in planned.stderr
    job = yaml.safe_load(planned.stdout)
    assert job["spec"]["trainer"]["resourcesPerNode"]["requests"] == {"cpu": "40"}
    assert team_a.list("trainjobs") == []


def test_a_shell_opens_in_the_folder_on_the_first_rank_and_the_job_ends_with_it(
    team_a: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "words").write_text("words of the folder\n")
    options = ("run", "--interactive", "--runtime", "plain", "--nodes", "2", "--name", "desk", "--yes")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [TRAINYARD, *options],
        env=of(team_a, "ada"),
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as shell:
        os.close(slave)
        seen = b""
        try:
            # Typed before anybody listens, it waits in the terminal.
            os.write(master, b"cat words; echo rank $JOB_COMPLETION_INDEX in $(pwd); exit 7\r")
            with suppress(OSError):  # at its end, nobody has it open any more
                while piece := os.read(master, 65_536):
                    seen += piece
            assert shell.wait(LEARNED.now) == 7, seen
        finally:
            shell.kill()
            os.close(master)
    text = seen.decode().replace("\r\n", "\n")
    assert "  shell      in rank 0; the job ends with it, or after 8 h (--time-limit); what the" in text
    assert "words of the folder\nrank 0 in /trainyard/workspace\n" in text
    assert text.endswith("TrainJob team-a/desk is cancelled\n")
    eventually("it is gone", lambda: team_a.get("trainjob", "desk") is None)


def test_a_job_with_a_shell_that_nobody_uses_is_complete(team_a: Cluster, tmp_path: Path) -> None:
    options = (
        "--interactive",
        "--keep",
        "--idle-limit",
        "10s",
        "--runtime",
        "plain",
        "--name",
        "desk",
        "--yes",
    )
    busy = ("timeout", "20", "sh", "-c", "while :; do :; done")
    used = trainyard(team_a, "ada", tmp_path, "run", "--no-workspace", *options, "--", *busy)
    assert used.returncode == 124, used.stderr
    assert "the job ends after 10 s without use, or after 8 h (--time-limit)" in used.stdout
    team_a.wait_for_condition("desk", "Complete", within=LEARNED)
    said = ["trainyard: ready\n", "trainyard: nobody has used it for 10 s\n"]
    assert team_a.logs("desk") == {"desk-node-0-0": "".join(said)}


def test_requirements_are_installed_before_the_command_or_the_log_says_why_not(
    team_a: Cluster, tmp_path: Path
) -> None:
    wheel(tmp_path, "greeting")
    (tmp_path / "requirements.txt").write_text("./greeting-1-py3-none-any.whl\n")
    (tmp_path / "train.py").write_text("import greeting; print(greeting.WORDS)\n")
    options = ("run", "--yes", "--requirements", "requirements.txt", "--name")
    installed = trainyard(team_a, "ada", tmp_path, *options, "installed", "--", "python", "train.py")
    assert installed.returncode == 0, installed.stderr
    assert "each node installs the 1 requirements of requirements.txt with pip" in installed.stdout
    assert installed.stdout.endswith("0 | words of a wheel\n")
    (tmp_path / "requirements.txt").write_text("greeting-of-nobody\n")
    nowhere = ("--env", "PIP_INDEX_URL=http://127.0.0.1:9/", "--env", "PIP_RETRIES=0")
    missing = trainyard(team_a, "ada", tmp_path, *options, "missing", *nowhere, "--", "python", "train.py")
    assert missing.returncode == 1, missing.stderr
    assert "this pod does not reach the package index of its pip configuration" in missing.stdout
    assert "the requirements of requirements.txt are not installed" in missing.stderr


def test_a_large_folder_travels_over_a_claim_and_only_once(team_a: Cluster, tmp_path: Path) -> None:
    team_a.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "large"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Mi"}}},
        }
    )
    try:
        (tmp_path / "model").write_bytes(os.urandom(3 * 2**20))
        (tmp_path / "train.sh").write_text("wc -c < model\n")
        options = ("run", "--yes", "--runtime", "plain", "--nodes", "2", "--workspace-volume", "large")
        for name, sentence in (("first", "The folder is there"), ("second", "The folder was there already")):
            sent = trainyard(team_a, "ada", tmp_path, *options, "--name", name, "--", "sh", "train.sh")
            assert sent.returncode == 0, sent.stderr
            assert "  it travels over PersistentVolumeClaim large\n" in sent.stdout
            assert f"{sentence}\nTrainJob team-a/{name}-folder is cancelled\n" in sent.stderr
            assert sorted(sent.stdout.splitlines()[-2:]) == ["0 | 3145728", "1 | 3145728"]
        assert [
            secret for secret in team_a.list("secrets") if "workspace" in secret["metadata"]["name"]
        ] == []
    finally:
        team_a.kubectl("delete", "pvc", "large", "--wait=false")


def wheel(folder: Path, name: str) -> None:
    """A package that pip installs without an index."""
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
        about = f"{name}-1.dist-info"
        archive.writestr(f"{name}.py", 'WORDS = "words of a wheel"\n')
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
