"""Which stacks a change touches, as a table; and what `trainyard stacks` says of it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from trainyard_cli.commands import stacks
from trainyard_delivery import stack_names
from trainyard_platform.errors import PlatformError

BOTH = ("onprem", "prod")


@pytest.mark.parametrize(
    ("changes", "touched"),
    {
        "nothing": ((), ()),
        "its file": (("stacks/Pulumi.prod.yaml",), ("prod",)),
        "both files": (("stacks/Pulumi.prod.yaml", "stacks/Pulumi.onprem.yaml"), BOTH),
        "the file of a stack that is no more": (("stacks/Pulumi.old.yaml",), ()),
        "a name that begins alike": (("stacks/Pulumi.prod.yaml.bak",), ()),
        "the schema for editors": (("stacks/schema.json",), ()),
        "a file of that name elsewhere": (("docs/stacks/Pulumi.prod.yaml",), ()),
        "the program": (("platform/trainyard_platform/stack/settings.py",), BOTH),
        "the catalog": (("runtimes/torch/torch-distributed.yaml",), BOTH),
        "a rule": (("policies/trainyard_policies/rules/gpu.py",), BOTH),
        "the shared words": (("api/trainyard_api/pools.py",), BOTH),
        "the project": (("Pulumi.yaml",), BOTH),
        "the submodule with the stack files": (("stacks",), BOTH),
        "what it runs with": (("requirements/dev.txt",), BOTH),
        "what it is built as": (("pyproject.toml",), BOTH),
        "a folder that begins alike": (("platforms/a.py", "api.md"), ()),
        "the operator, whose image a stack names": (
            ("operator/trainyard_operator/core/decide/reconcile.py",),
            (),
        ),
        "documents and tests": (("README.md", "docs/gitops.md", "tests/conftest.py"), ()),
    }.values(),
)
def test_a_change_touches(changes: tuple[str, ...], touched: tuple[str, ...]) -> None:
    assert stack_names.touched(BOTH, changes) == touched


@pytest.mark.parametrize(
    ("folder", "change", "touched"),
    [
        ("charts", "charts/kueue/1/chart/Chart.yaml", ("prod",)),
        ("charts", "charts-of-others/a", ()),
        ("../charts", "../charts/kueue/1/chart/Chart.yaml", ("prod",)),
        ("../charts", "../README.md", ()),
        ("vendor/charts", "vendor", ("prod",)),
    ],
)
def test_a_change_of_its_vendored_charts_or_of_their_submodule_touches_a_stack(
    folder: str, change: str, touched: tuple[str, ...]
) -> None:
    assert stack_names.touched(BOTH, [change], {"prod": Path(folder)}) == touched


def test_a_stack_is_a_file_with_a_name_that_pulumi_takes(tmp_path: Path) -> None:
    for name in ("Pulumi.prod.yaml", "Pulumi.eu-west_1.a.yaml", "schema.json", "Pulumi.yaml", "other.yaml"):
        (tmp_path / name).touch()
    assert stack_names.stacks(tmp_path) == ("eu-west_1.a", "prod")


@pytest.mark.parametrize("name", ["a b", "$(id)", "-x", "a'b", "x" * 101])
def test_a_name_that_pulumi_refuses_is_refused_with_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / f"Pulumi.{name}.yaml").touch()
    with pytest.raises(PlatformError, match=r"Pulumi\..*: a stack's name has letters"):
        stack_names.stacks(tmp_path)


def test_a_stack_file_or_its_folder_that_is_a_link_is_refused_because_a_change_of_its_target_touches_no_stack(
    tmp_path: Path,
) -> None:
    files, folder = tmp_path / "files", tmp_path / "stacks"
    files.mkdir()
    (files / "Pulumi.prod.yaml").touch()
    (files / "Pulumi.dr.yaml").symlink_to("Pulumi.prod.yaml")
    folder.symlink_to(files)
    for place, link in ((files, files / "Pulumi.dr.yaml"), (folder, folder)):
        with pytest.raises(PlatformError) as caught:
            stack_names.stacks(place)
        assert str(caught.value) == (
            f"{link}: must not be a symbolic link, because a change of its target would affect no stack; "
            "copy the target here"
        )


@pytest.mark.parametrize("name", ["prod-preview", "prod-drift", "prod-Preview", "PROD-drift", "pRod"])
def test_a_name_that_is_an_environment_of_another_stack_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"Pulumi.{name}.yaml"
    file.touch()
    assert stack_names.stacks(tmp_path) == (name,)
    (tmp_path / "Pulumi.Prod.yaml").touch()
    with pytest.raises(PlatformError) as caught:
        stack_names.stacks(tmp_path)
    assert str(caught.value) == (
        f"{file}: {name} is also the name of an environment of the stack Prod in a pipeline, which would "
        "give one stack the credentials of the other; rename the stack (pulumi stack rename) and its file"
    )


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three stacks, on a branch that left main."""
    monkeypatch.chdir(tmp_path)
    for name in ("stacks/Pulumi.onprem.yaml", "stacks/Pulumi.prod.yaml", "stacks/Pulumi.sandbox.yaml"):
        written(name)
    written("platform/old.py", "x = 1\n" * 20)
    git("init", "--quiet", "--initial-branch", "main")
    commit("first")
    git("switch", "--quiet", "--create", "change")
    return tmp_path


def git(*arguments: str) -> None:
    who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], check=True, env={**os.environ, **who})


def commit(message: str) -> None:
    git("add", "--all")
    git("commit", "--quiet", "--message", message)


def written(name: str, text: str = "x\n") -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def answer(**options: Any) -> tuple[int, str, str]:
    return answered(stacks.run, folder=Path("stacks"), **options)


def test_all_stacks_are_printed_as_json_on_one_line(clone: Path) -> None:
    assert answer() == (0, '["onprem", "prod", "sandbox"]\n', "")
    assert answer(without=["sandbox"]) == (0, '["onprem", "prod"]\n', "")


def test_to_leave_out_the_sandbox_is_no_mistake_where_its_file_is_deleted(clone: Path) -> None:
    git("rm", "--quiet", "stacks/Pulumi.sandbox.yaml")
    assert answer(without=["sandbox"]) == (0, '["onprem", "prod"]\n', "")


def test_since_a_branch_only_what_differs_from_where_it_was_left_is_printed(clone: Path) -> None:
    written("stacks/Pulumi.prod.yaml", "changed\n")
    commit("prod")
    git("switch", "--quiet", "main")
    written("platform/old.py", "main goes on\n")
    commit("main goes on")
    git("switch", "--quiet", "change")
    assert answer(since="main") == (0, '["prod"]\n', "")
    assert answer(since="change") == (0, "[]\n", "")


@pytest.mark.parametrize("change", [("rm", "platform/old.py"), ("mv", "platform/old.py", "old.py")])
def test_what_is_removed_or_moved_away_touches_what_it_was_part_of(
    clone: Path, change: tuple[str, ...]
) -> None:
    git(*change)
    commit("gone")
    assert answer(since="main", without=["sandbox"]) == (0, '["onprem", "prod"]\n', "")


def test_what_cannot_be_asked_is_said(clone: Path) -> None:
    assert answer(without=["sandbx"]) == (
        2,
        "",
        "--without sandbx: there is no such stack (there are: onprem, prod, sandbox); "
        "did you mean sandbox?\n",
    )
    code, out, err = answer(since="nowhere")
    assert (code, out) == (2, "")
    assert err.startswith("git merge-base: ")
    assert answer(since="-x")[2] == "--since -x: must name a commit, a branch or a tag\n"


def test_of_a_site_in_a_folder_of_a_repository_only_its_own_changes_count(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("site/Pulumi.yaml", "site/stacks/Pulumi.lab.yaml", "site/stacks/Pulumi.prod.yaml"):
        written(name)
    commit("a site")
    git("branch", "--force", "main")
    written("runtimes/torch/mine.yaml")
    written("site/stacks/Pulumi.lab.yaml", "y\n")
    monkeypatch.chdir("site")
    assert answer(since="main") == (0, '["lab"]\n', "")
    written("runtimes/torch/mine.yaml")
    assert answer(since="main") == (0, '["lab", "prod"]\n', "")


VENDORED = """
config:
  trainyard:platform:
    operator: {image: "example.com/operator:1"}
    artifacts: {source: folder, folder: ../charts}
"""


def test_the_charts_of_a_site_in_a_folder_may_be_elsewhere_in_its_repository(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("site/Pulumi.yaml")
    written("site/stacks/Pulumi.lab.yaml")
    written("site/stacks/Pulumi.prod.yaml", VENDORED)
    commit("a site")
    git("branch", "--force", "main")
    written("charts/kueue/Chart.yaml")
    written("charts-of-others/Chart.yaml")
    monkeypatch.chdir("site")
    assert answer(since="main") == (0, '["prod"]\n', "")
