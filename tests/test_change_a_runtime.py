"""docs/change-a-runtime.md can be followed: its commands are run, and answer what it shows."""

import re
from pathlib import Path

import pytest

from tests.support import site
from tests.support.site import ROOT, STACK, edit

GUIDE = (ROOT / "docs" / "change-a-runtime.md").read_text()
pytestmark = pytest.mark.long
OF_A_CLUSTER = "trainyard runtimes jobs "
"""What is asked of a cluster is tried on one (tests/e2e/test_runtime_jobs.py)."""
DISTRIBUTED = "runtimes/torch/torch-distributed.yaml"
ELASTIC = "runtimes/torch/torch-elastic.yaml"
OVERLAY = "      torch-distributed:\n"


def section(title: str) -> str:
    [found] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", GUIDE, re.DOTALL | re.MULTILINE)
    return str(found)


def followed(clone: Path, title: str) -> list[str]:
    """What the commands of a section say, all of them; each has to show what the guide shows below it."""
    said = []
    for block in re.findall(r"```console\n(.*?)```", section(title), re.DOTALL):
        for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
            if command.startswith(OF_A_CLUSTER):
                continue
            done = site.run(clone, command, **IDENTITY)
            said.append(done.stdout + done.stderr)
            for line in shown.splitlines():
                assert any(one.startswith(line) for one in done.stdout.splitlines()), (command, said[-1])
    return said


IDENTITY = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site.made(tmp_path_factory.mktemp("clone") / "site")


@pytest.fixture(autouse=True)
def as_on_main(clone: Path) -> None:
    """Each task begins on a branch of its own."""
    site.git(clone, "checkout", "--quiet", "--force", "-B", "change", "main")
    site.git(clone, "clean", "--quiet", "--force")


@pytest.mark.long
def test_a_change_is_tried_on_one_stack_and_then_made_for_all(clone: Path) -> None:
    image = re.findall(r"image: (\S+)", section("Try a change on one stack first"))[0]
    edit(clone / STACK, OVERLAY, f"{OVERLAY}        image: {image}\n")
    [report] = followed(clone, "Try a change on one stack first")
    assert "| `prod` |" in report
    site.commit(clone)
    site.git(clone, "branch", "--force", "main")
    text = (clone / DISTRIBUTED).read_text()
    (clone / DISTRIBUTED).write_text(re.sub(r"(?m)^(\s+image: )\S+$", rf"\g<1>{image}", text))
    edit(clone / STACK, f"        image: {image}\n", "")
    report = site.run(clone, "trainyard report --since main").stdout
    assert "ClusterTrainingRuntime torch-distributed" not in report


def test_a_change_is_tried_under_another_name(clone: Path) -> None:
    said = followed(clone, "Try a change with one team first")
    assert " 0 mandatory" in said[-1]


def test_a_change_is_taken_back(clone: Path) -> None:
    edit(clone / DISTRIBUTED, "    numNodes: 1\n", "    numNodes: 2\n")
    site.commit(clone)
    assert followed(clone, "Revert a change")[-1] == "Nothing differs.\n"


def deprecate(clone: Path) -> None:
    label = "    trainer.kubeflow.org/framework: torch\n"
    edit(clone / ELASTIC, label, f"{label}    trainer.kubeflow.org/support: deprecated\n")


@pytest.mark.long
def test_a_runtime_that_goes_away_is_said_to(clone: Path) -> None:
    deprecate(clone)
    [listed] = followed(clone, "Deprecate a runtime")
    assert re.search(r"torch-elastic\s+torch\s+sandbox\s+Deprecated: ", listed)
    assert " 0 mandatory" in site.run(clone, "trainyard verify").stderr
    edit(clone / ELASTIC, "support: deprecated", "support: Deprecated")
    said = site.run(clone, "trainyard verify").stdout
    assert "labels[trainer.kubeflow.org/support]: must be deprecated, and is Deprecated" in said


@pytest.mark.long
def test_a_new_name_is_a_new_runtime(clone: Path) -> None:
    assert " 0 mandatory" in followed(clone, "Rename a runtime")[-1]
    deprecate(clone)
    assert " 0 mandatory" in site.run(clone, "trainyard verify").stderr


@pytest.mark.long
def test_a_runtime_is_taken_away_where_no_stack_speaks_of_it(clone: Path) -> None:
    edit(clone / STACK, OVERLAY, f"      torch-elastic: {{enabled: false}}\n{OVERLAY}")
    said = followed(clone, "Remove a runtime")[-1]
    line = (clone / STACK).read_text().splitlines().index("      torch-elastic: {enabled: false}") + 1
    assert f"{STACK}:{line}:" in said, said
    assert "torch-elastic" in said
    edit(clone / STACK, "      torch-elastic: {enabled: false}\n", "")
    assert " 0 mandatory" in site.run(clone, "trainyard verify").stderr
