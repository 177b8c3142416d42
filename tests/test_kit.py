"""What contributors meet before any code: editors, hooks, forms, and the types that a wheel ships."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.support.yaml_files import load
from trainyard_cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
HOOKS = {
    hook["id"]: hook
    for repository in load(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]
}
FORMS = {path.stem: load(path) for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_wheel_says_of_each_package_that_it_has_types() -> None:
    shipped = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    packages = {
        path.parent.name for path in ROOT.glob("*/trainyard_*/__init__.py") if "tests" not in path.parts
    }
    assert {f"{package}/py.typed" for package in packages} - shipped == set()


def test_hooks_run_what_the_environment_pins() -> None:
    programs = {name: hook["entry"].split()[0] for name, hook in HOOKS.items()}
    assert programs == {
        "ruff-check": ".venv/bin/ruff",
        "ruff-format": ".venv/bin/ruff",
        "whitespace": "git",
        "changes": ".venv/bin/pytest",
        "verify": ".venv/bin/trainyard",
    }
    assert {hook["language"] for hook in HOOKS.values()} == {"system"}, "nothing else is downloaded"


@pytest.mark.parametrize(
    ("file", "hooks"),
    [
        ("changes/quicker-start.train.md", {"changes"}),
        ("runtimes/plain/plain.yaml", {"verify"}),
        ("stacks/Pulumi.onprem.yaml", {"verify"}),
        ("policies/trainyard_policies/rules/pod_end.py", {"verify"}),
        ("docs/stacks.md", set()),
    ],
)
def test_a_hook_that_takes_long_runs_only_for_its_files(file: str, hooks: set[str]) -> None:
    assert {
        name for name, hook in HOOKS.items() if "files" in hook and re.search(hook["files"], file)
    } == hooks


def test_each_path_of_codeowners_exists_and_nobody_is_made_up() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == []
    paths = [match[1] for line in lines if (match := re.fullmatch(r"# (/\S*) +@ORGANIZATION/TEAM", line))]
    assert paths
    assert [path for path in paths if not (ROOT / path.strip("/")).exists()] == []


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_form_is_one_that_github_takes(form: dict[str, Any]) -> None:
    assert form.keys() <= {"name", "description", "labels", "body"}
    assert {element["type"] for element in form["body"]} <= {"input", "markdown", "textarea"}
    fields = [element for element in form["body"] if element["type"] != "markdown"]
    names = [element["id"] for element in fields]
    assert len(names) == len(set(names))
    assert all(element["attributes"]["label"] for element in fields)


def test_forms_name_commands_that_exist() -> None:
    named = set(re.findall(r"`trainyard ([a-z]+)", str(FORMS)))
    assert named == {"dump", "explain", "sandbox"}
    assert named <= COMMANDS.keys()


def test_the_template_of_a_pull_request_names_targets_and_folders_that_exist() -> None:
    text = (GITHUB / "pull_request_template.md").read_text()
    targets = set(re.findall(r"`make ([a-z]+)`", text))
    assert targets == {"check", "generate", "test", "verify"}
    assert targets <= make_targets()
    folders = set(re.findall(r"`([a-z/]+)/`", text))
    assert folders == {"changes", "docs", "docs/adr"}
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_devcontainer_makes_the_environment() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    assert container["postCreateCommand"] == "make environment"
    assert container["remoteEnv"]["PATH"].startswith("${containerWorkspaceFolder}/.venv/bin:")
