"""The repository keeps its own promises: layout, names, and what it never holds."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
SOURCE_ROOTS = sorted(
    {path.parents[1].name for path in PROJECT.glob("*/trainyard_*/__init__.py")} - {"tests"}
)


def tracked(*patterns: str) -> list[Path]:
    """Files that git holds, or would with the next `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    answer = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return [PROJECT / line for line in answer.stdout.splitlines() if (PROJECT / line).is_file()]


def texts() -> dict[Path, str]:
    """All text files that git holds, by path."""
    found = {}
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            found[path] = content.decode()
    return found


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_no_package_and_shadows_no_standard_module(root: str) -> None:
    folder = PROJECT / root
    names = {path.stem for path in folder.glob("*.py")} | {p.name for p in folder.iterdir() if p.is_dir()}
    assert "__init__" not in names
    assert names & set(sys.stdlib_module_names) - {"__main__"} == set()


def test_every_test_folder_is_a_package_so_that_equal_file_names_do_not_hide_each_other() -> None:
    folders = {path.parent for path in tracked("tests/**/test_*.py")}
    assert {str(f.relative_to(PROJECT)) for f in folders if not (f / "__init__.py").exists()} == set()


def test_no_file_names_a_package_registry_by_its_host() -> None:
    host = re.compile(
        r"://[a-z0-9.-]*(golang|pypi|pythonhosted|npmjs|crates|debian|maven)[a-z.]*(/|:|$|[^a-z.])"
    )
    found = {str(path.relative_to(PROJECT)) for path, text in texts().items() if host.search(text)}
    assert found == set()


def test_the_operator_image_has_no_kubernetes_package() -> None:
    locked = (PROJECT / "requirements" / "operator.txt").read_text()
    assert not re.search(r"^kubernetes", locked, re.MULTILINE)
    assert "kopf==" in locked


LOCKS = runpy.run_path(str(PROJECT / "requirements/lock.py"))["LOCKS"]


def test_each_file_of_requirements_is_in_the_table_of_locks() -> None:
    assert {f"{lock.name}.txt" for lock in LOCKS} == {path.name for path in tracked("requirements/*.txt")}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_requirements_are_locked_by_hash(lock: Any) -> None:
    lines = (PROJECT / "requirements" / f"{lock.name}.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert pins
    assert [line for line in pins if not re.fullmatch(r"[a-zA-Z0-9._-]+==[^ ]+ \\", line)] == []


def test_every_part_of_dev_pins_what_dev_pins() -> None:
    def pins(name: str) -> dict[str, str]:
        text = (PROJECT / "requirements" / f"{name}.txt").read_text()
        return dict(re.findall(r"^([a-zA-Z0-9._-]+)==([^ ]+)", text, re.MULTILINE))

    dev = pins("dev")
    parts = [lock.name for lock in LOCKS if lock.within_dev]
    assert parts == ["operator", "platform", "policies", "initializers", "data-cache", "cli", "uv"]
    for name in parts:
        assert {k: v for k, v in pins(name).items() if dev.get(k) != v} == {}, name


@pytest.mark.parametrize("system", ["Darwin", "Linux"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_dev_locks_what_its_packages_need_on_each_system(python: str, system: str) -> None:
    there = {
        "extra": "",
        "platform_system": system,
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": system.lower(),
    }
    text = (PROJECT / "requirements" / "dev.txt").read_text()
    locked = {canonicalize_name(name) for name in re.findall(r"^([a-zA-Z0-9._-]+)==", text, re.MULTILINE)}
    needed = {
        canonicalize_name(requirement.name)
        for package in metadata.distributions()
        if canonicalize_name(package.metadata["Name"]) in locked
        for requirement in map(Requirement, package.requires or ())
        if requirement.marker is None or requirement.marker.evaluate(there)
    }
    assert needed - locked == set()


def test_every_package_of_ours_is_shipped_typed_and_guarded() -> None:
    config = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = {path.parent.name for path in tracked(":(glob)*/trainyard_*/__init__.py")}
    shipped = {Path(p).name for p in config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    assert shipped == packages
    assert {path.parent.name for path in tracked(":(glob)*/trainyard_*/py.typed")} == packages
    assert set(config["tool"]["mypy"]["packages"]) == packages | {"benchmarks", "tests"}
    assert set(config["tool"]["importlinter"]["root_packages"]) == packages


def test_make_help_names_every_target() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE))
    described = set(re.findall(r"^([a-z0-9-]+):.*##", makefile, re.MULTILINE))
    assert described == targets


@pytest.mark.parametrize("folder", [".", "examples/site"])
def test_make_help_is_a_table_with_the_sed_of_macos_too(folder: str, tmp_path: Path) -> None:
    sed = tmp_path / "sed"
    sed.write_text(f'#!/bin/bash\nexec {shutil.which("sed")} "${{@//\\\\t/t}}"\n')  # \t is a t there
    sed.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    listed = subprocess.check_output(["make", "-s", "help"], cwd=PROJECT / folder, env=environment, text=True)
    assert "\nenvironment Make or update .venv\n" in listed
    assert [line for line in listed.splitlines() if not re.match(r"[a-z0-9-]+ +\S", line)] == []


def test_every_decision_record_says_status_context_decision_and_consequences() -> None:
    records = [path for path in tracked("docs/adr/*.md") if path.name != "README.md"]
    assert records
    for path in records:
        assert re.match(r"\d{4}-[a-z0-9-]+\.md$", path.name), path
        headings = re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE)
        assert headings == ["Status", "Context", "Decision", "Consequences"], path


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in tracked("*.md", "**/*.md"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(PROJECT)}: {target}")
    assert broken == []


def test_the_digits_trainjob_runs_the_function_that_the_sdk_ships() -> None:
    folder = PROJECT / "examples" / "digits"
    source = (folder / "train.py").read_text()
    function = source[source.index("def train_digits") :]
    script = yaml.safe_load((folder / "trainjob.yaml").read_text())["spec"]["trainer"]["command"][-1]
    assert script == f"{function}\n\ntrain_digits()\n"


@pytest.mark.parametrize(
    "example",
    [
        *("checkpoint", "data-cache", "deepspeed", "fsdp", "lightgbm", "lightning"),
        *("mlx", "paddle", "tensorflow", "tensorflow-ps"),
    ],
)
def test_the_trainjob_of_an_example_runs_the_script_beside_it(example: str) -> None:
    folder = PROJECT / "examples" / example
    *_, trainjob = yaml.safe_load_all((folder / "trainjob.yaml").read_text())
    assert trainjob["spec"]["trainer"]["command"][-1] == (folder / "train.py").read_text()


XGBOOST = {
    "__init__.py": "",
    "collective.py": "def CommunicatorContext(**options): raise SystemExit(options['dmlc_tracker_uri'])",
    "tracker.py": "class RabitTracker:\n"
    "    def __init__(self, **options): print(options['host_ip'])\n"
    "    def start(self): pass\n",
}
"""Of XGBoost, what the workers have to do with before they meet."""


@pytest.mark.parametrize(
    ("uri", "address", "tracker"),
    [
        ("::1", "::1", "::1\n"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1\n"),
        ("no such host", "no such host, where the tracker is, has no address", ""),
    ],
)
def test_the_workers_of_xgboost_meet_over_ipv6_too_and_do_not_look_for_each_other_forever(
    tmp_path: Path, uri: str, address: str, tracker: str
) -> None:
    (tmp_path / "xgboost").mkdir()
    for name, text in XGBOOST.items():
        (tmp_path / "xgboost" / name).write_text(text)
    (tmp_path / "numpy.py").write_text("")
    manifest = yaml.safe_load((PROJECT / "examples" / "xgboost" / "trainjob.yaml").read_text())
    script = manifest["spec"]["trainer"]["command"][-1].replace("time.sleep(0.5)", "pass")
    (tmp_path / "script.py").write_text(script)
    workers = {"DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": "0", "DMLC_NUM_WORKER": "2"}
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**workers, "DMLC_TRACKER_URI": uri},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, tracker, f"{address}\n")


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo"])
def test_the_trainjobs_of_post_training_make_what_the_script_beside_them_makes(method: str) -> None:
    folder = PROJECT / "examples" / "post-training"
    trainjob = yaml.safe_load((folder / f"{method}.yaml").read_text())
    assert trainjob["spec"]["trainer"]["command"][-1] == (folder / "make.py").read_text()


def test_no_cloud_is_in_the_environment_in_which_pulumi_looks_for_plugins() -> None:
    """Pulumi downloads the plugin of every package that it finds there (docs/adr/0010)."""
    locked = (PROJECT / "requirements" / "dev.txt").read_text()
    assert re.findall(r"^pulumi-[a-z-]+", locked, re.MULTILINE) == ["pulumi-kubernetes", "pulumi-policy"]
    for cloud, package in (("eks", "aws"), ("gke", "gcp"), ("aks", "azure")):
        alone = (PROJECT / "requirements" / f"{cloud}.txt").read_text()
        assert re.findall(r"^[a-z]\S*==", alone, re.MULTILINE) == [f"pulumi-{package}=="]


def test_what_folders_of_tests_share_is_in_support() -> None:
    found = {}
    for file in tracked("tests/*.py"):
        path = file.relative_to(PROJECT)
        statements = [one for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.ImportFrom)]
        names = [f"{one.module}.{name.name}" for one in statements if not one.level for name in one.names]
        rooms = {name.split(".")[1] for name in names if name.startswith("tests.")}
        if others := rooms - {"support", "harness", path.parts[1]}:
            found[str(path)] = others
    assert found == {}


def test_no_test_imports_a_test_module() -> None:
    imports = re.compile(r"^from (?:\.|tests\b)\S*\btest_\w+ import .*|^from \S+ import .*\btest_\w+.*", re.M)
    found = {
        str(file.relative_to(PROJECT)): imports.findall(file.read_text()) for file in tracked("tests/*.py")
    }
    assert {file: lines for file, lines in found.items() if lines} == {}
