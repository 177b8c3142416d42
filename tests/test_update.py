"""`make update`: a later Trainyard comes into a site's clone, and the site's own files stay."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ONPREM = "stacks/Pulumi.onprem.yaml"
PROD = "stacks/Pulumi.prod.yaml"
ELASTIC = "runtimes/torch/torch-elastic.yaml"
DISTRIBUTED = "runtimes/torch/torch-distributed.yaml"


def git(folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    command = ("git", *who, *arguments)
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


def committed(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a change")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def update(site: Path, tools: Path | None = None) -> subprocess.CompletedProcess[str]:
    names = {"AUTHOR_NAME": "a", "AUTHOR_EMAIL": "a@b.c", "COMMITTER_NAME": "a", "COMMITTER_EMAIL": "a@b.c"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "MAKE"))}
    environment |= {f"GIT_{name}": value for name, value in names.items()}
    if tools is not None:
        environment["PATH"] = f"{tools}:{environment['PATH']}"
    command = ["make", "update", "FROM=origin/main"]
    return subprocess.run(command, cwd=site, env=environment, check=False, capture_output=True, text=True)


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """Trainyard's repository, as far as sites edit it."""
    folder = tmp_path / "product"
    folder.mkdir()
    for name in ("Makefile", "stacks", "runtimes"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    git(folder, "init", "--quiet", "--initial-branch=main")
    committed(folder)
    return folder


@pytest.fixture
def site(product: Path, tmp_path: Path) -> Path:
    """A clone whose examples have become the site's own."""
    folder = tmp_path / "site"
    git(tmp_path, "clone", "--quiet", str(product), str(folder))
    git(folder, "rm", "--quiet", "stacks/Pulumi.eks.yaml", ELASTIC)
    git(folder, "mv", ONPREM, PROD)
    edit(folder / PROD, "identifier: onprem", "identifier: prod")
    shutil.copy(folder / DISTRIBUTED, folder / "runtimes/torch/torch-own.yaml")
    committed(folder)
    return folder


def test_examples_that_were_taken_out_stay_out_and_own_files_stay_as_they_are(
    product: Path, site: Path
) -> None:
    own = {name: (site / name).read_text() for name in (PROD, "runtimes/torch/torch-own.yaml")}
    for name in (ONPREM, "stacks/Pulumi.eks.yaml", ELASTIC, DISTRIBUTED):
        edit(product / name, "\n", "\n# later\n")
    edit(product / ONPREM, "identifier: onprem", "identifier: other")
    committed(product)
    git(site, "fetch", "--quiet")
    done = update(site)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: (site / name).read_text() for name in own} == own
    assert [name for name in (ONPREM, "stacks/Pulumi.eks.yaml", ELASTIC) if (site / name).exists()] == []
    assert "# later" in (site / DISTRIBUTED).read_text()
    assert git(site, "status", "--porcelain") == ""
    assert git(site, "merge-base", "HEAD", "origin/main") == git(site, "rev-parse", "origin/main")
    assert update(site).returncode == 0, "there is nothing more to merge"
    assert git(site, "status", "--porcelain") == ""


def test_with_the_xargs_of_macos_too_what_was_taken_out_stays_out(
    product: Path, site: Path, tmp_path: Path
) -> None:
    xargs = tmp_path / "xargs"
    refuses = 'case $1 in --*) echo "illegal option -- -" >&2; exit 1; esac'
    xargs.write_text(f'#!/bin/sh\n{refuses}\nexec {shutil.which("xargs")} "$@"\n')
    xargs.chmod(0o755)
    for changed in (ELASTIC, DISTRIBUTED):
        edit(product / changed, "\n", "\n# later\n")
        committed(product)
        git(site, "fetch", "--quiet")
        done = update(site, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (site / ELASTIC).exists()
        assert git(site, "status", "--porcelain") == ""


def test_a_shipped_file_that_was_changed_here_and_there_is_named_and_nothing_is_committed(
    product: Path, site: Path
) -> None:
    edit(site / DISTRIBUTED, "numNodes: 1", "numNodes: 3")
    committed(site)
    before = git(site, "rev-parse", "HEAD")
    edit(product / DISTRIBUTED, "numNodes: 1", "numNodes: 2")
    committed(product)
    git(site, "fetch", "--quiet")
    done = update(site)
    assert done.returncode != 0
    assert done.stdout == f"{DISTRIBUTED}\n"
    assert done.stderr.startswith(
        "Changed here and in origin/main: mend these, git add them, git commit; or "
    )
    assert git(site, "rev-parse", "HEAD") == before
    git(site, "merge", "--abort")
    assert git(site, "status", "--porcelain") == ""


def test_an_earlier_merge_that_is_not_finished_is_not_taken_for_this_one(product: Path, site: Path) -> None:
    edit(site / DISTRIBUTED, "numNodes: 1", "numNodes: 3")
    committed(site)
    before = git(site, "rev-parse", "HEAD")
    edit(product / DISTRIBUTED, "numNodes: 1", "numNodes: 2")
    committed(product)
    git(site, "fetch", "--quiet")
    assert update(site).returncode != 0
    git(site, "checkout", "--quiet", "--theirs", DISTRIBUTED)
    git(site, "add", DISTRIBUTED)
    edit(product / DISTRIBUTED, "numNodes: 2", "numNodes: 4")
    committed(product)
    git(site, "fetch", "--quiet")
    done = update(site)
    assert done.returncode != 0
    assert done.stderr.startswith("An earlier merge is not finished: finish it (git commit) or leave it ")
    assert git(site, "rev-parse", "HEAD") == before


def test_a_reference_that_is_not_there_changes_nothing(site: Path) -> None:
    git(site, "update-ref", "-d", "refs/remotes/origin/main")
    done = update(site)
    assert done.returncode != 0
    assert "origin/main - not something we can merge" in done.stderr
    assert git(site, "status", "--porcelain") == ""
