"""What git says of another revision."""

import os
import subprocess
from pathlib import Path

import pytest

from trainyard_cli.files import git


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository without a commit, which is the current folder."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    run("init", "--quiet", "--initial-branch", "main")
    return folder


def run(*arguments: str) -> None:
    who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], check=True, env={**os.environ, **who})


def test_a_link_out_of_the_repository_is_left_out_of_what_a_revision_has(
    repository: Path, tmp_path: Path
) -> None:
    elsewhere, target = tmp_path / "elsewhere", tmp_path / "target"
    target.mkdir()
    (repository / "runtimes").mkdir()
    (repository / "runtimes" / "own.yaml").write_text("a: 1\n")
    for name in ("runtimes/linked.yaml", "stacks"):
        (repository / name).symlink_to(elsewhere)
    run("add", "--all")
    run("commit", "--quiet", "--message", "first")
    folders = git.at_revision("main", [repository / "runtimes", repository / "stacks"], target)
    assert folders == [target / "runtimes", target / "stacks"]
    assert {path.relative_to(target).as_posix() for path in target.rglob("*")} == {
        "runtimes",
        "runtimes/own.yaml",
    }
