"""CONTRIBUTING's "Where things go": its steps, followed in a clone, are enough, for `make check` too."""

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support import site
from tests.support.site import ROOT, SOURCES, edit, git

CORE = "operator/trainyard_operator/core/build/plugins"
RULES = "policies/trainyard_policies/rules"
PLATFORM = "platform/trainyard_platform"
COMMAND = "cli/trainyard_cli"
CATALOG = "runtimes/torch"
NOTICING = (
    "tests/runtimes",
    "tests/test_add_a_runtime.py",
    "tests/test_docs.py",
    "tests/test_names.py",
    "tests/test_private_doors.py",
    "tests/test_repository.py",
    "tests/trainyard_operator/test_docs.py",
    "tests/trainyard_operator/test_plugins.py",
    "tests/trainyard_platform/test_settings.py",
    "tests/trainyard_policies/test_cluster.py",
    "tests/trainyard_policies/test_reference.py",
    "tests/trainyard_policies/test_repair.py",
    "tests/trainyard_policies/test_rules.py",
)
"""Tests about all plugins, rules, parts, commands and runtimes that there are; `make generate` runs more."""


CONTAINER = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0]"


@dataclass(frozen=True)
class Step:
    """What somebody adds who follows a line of CONTRIBUTING."""

    line: str
    """How the line begins."""
    new: Mapping[str, str]
    """Files, with their text."""
    changed: Mapping[str, tuple[tuple[str, str], ...]]
    """Files that are there, with what is put in front of what."""

    @property
    def files(self) -> set[str]:
        return {*self.new, *self.changed}


PLUGIN = Step(
    "- A new ML framework:",
    {
        f"{CORE}/example.py": '''"""Example: tells its processes how many they are."""

from __future__ import annotations

from trainyard_api import names

from ..info import Info


class Example:
    """Sets the variable that an example reads."""

    name = "example"
    implements = frozenset[str]()

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the number of processes, for runtimes of this framework."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        if pods is None or info.runtime.labels.get(names.FRAMEWORK_LABEL) != self.name:
            return info
        return info.with_env(pods.name, [{"name": "EXAMPLE_NODES", "value": str(pods.count)}])
'''
    },
    {
        f"{CORE}/__init__.py": (
            ("from .jax ", "from .example import Example\n"),
            ("        JAX(),", "        Example(),\n"),
        )
    },
)
RULE = Step(
    "- A new policy:",
    {
        f"{RULES}/working_directory.py": '''"""Training containers work in a folder from the root."""

from __future__ import annotations

from collections.abc import Iterator

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """No training container works in a folder that depends on its image."""
    for container in workload.training_containers():
        if not str(container.value.get("workingDir", "/")).startswith("/"):
            yield Finding(container.path.child("workingDir"), "must begin with /")


RULE = Rule(
    id="working-directory",
    title="Training containers work in a folder from the root",
    why="Where another folder is depends on the image.",
    remedy="Begin workingDir with /.",
    severity=Severity.LOW,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    check=check,
)
''',
        "tests/trainyard_policies/examples/working-directory.yaml": f"""- name: a folder from the root
  manifest: runtime
  set:
    {CONTAINER}.workingDir: /workspace
- name: a folder that depends on the image
  manifest: runtime
  set:
    {CONTAINER}.workingDir: workspace
  findings:
    - path: {CONTAINER}.workingDir
      message: must begin with /
""",
    },
    {
        f"{RULES}/__init__.py": (
            (")\n\n_CHECKS", "    working_directory,\n"),
            ("    reserved_env.RULE,", "    working_directory.RULE,\n"),
        )
    },
)
PART = Step(
    "- A new part of the platform:",
    {
        f"{PLATFORM}/parts/example/__init__.py": '"""A greeting."""\n',
        f"{PLATFORM}/stack/example.py": '''"""Settings of the greeting."""

from trainyard_api.strict import StrictModel


class Example(StrictModel):
    """A greeting in a ConfigMap."""

    greeting: str | None = None
    """Its words; without them there is none."""
''',
        f"{PLATFORM}/parts/example/manifests.py": '''"""The greeting's ConfigMap: pure."""

from trainyard_api import names
from trainyard_api.json_types import Manifest


def greeting(words: str) -> Manifest:
    """The ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "greeting", "namespace": names.SYSTEM_NAMESPACE},
        "data": {"greeting": words},
    }
''',
        f"{PLATFORM}/parts/example/component.py": '''"""The greeting."""

import pulumi

from ...assembly import Assembly
from ...objects.declare import declare
from ..system.component import System
from . import manifests


def install(assembly: Assembly) -> None:
    """Declare the greeting, if the stack has one."""
    if words := assembly.stack.example.greeting:
        after = pulumi.ResourceOptions.merge(
            assembly.options, pulumi.ResourceOptions(depends_on=assembly.after(System))
        )
        declare(manifests.greeting(words), after)
''',
    },
    {
        f"{PLATFORM}/stack/settings.py": (
            ("from .external_secrets ", "from .example import Example\n"),
            (
                "    observability: Observability ",
                '    example: Example = Example()\n    """A greeting."""\n',
            ),
        ),
        f"{PLATFORM}/program.py": (
            ("from .parts.external_secrets ", "from .parts.example import component as example\n"),
            ("    policies,\n", "    example,\n"),
        ),
    },
)
NEW_COMMAND = Step(
    "- A new command:",
    {
        f"{COMMAND}/commands/greet.py": '''"""`trainyard greet`: a greeting."""

from __future__ import annotations


def command() -> None:
    """Greet."""
    print("good day")
'''
    },
    {
        f"{COMMAND}/main.py": (
            ('    "impact": ', '    "greet": Listed("greet:command", "Greet.", _PULL_REQUESTS),\n'),
        )
    },
)
RUNTIME = Step(
    "- A new training runtime:",
    {
        f"{CATALOG}/torch-example.yaml": (ROOT / CATALOG / "torch-distributed.yaml")
        .read_text()
        .replace("torch-distributed", "torch-example")
    },
    {},
)
STEPS = (PLUGIN, RUNTIME, RULE, PART, NEW_COMMAND)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which all the steps have been followed."""
    made = site.copied(tmp_path_factory.mktemp("contributing") / "clone")
    git(made, "init", "--quiet")
    site.commit(made)
    site.equip(made)
    (made / ".venv/clouds").symlink_to(ROOT / ".venv/clouds")
    for step in STEPS:
        for file, text in step.new.items():
            (made / file).parent.mkdir(exist_ok=True)
            (made / file).write_text(text)
        for file, places in step.changed.items():
            for before, text in places:
                edit(made / file, before, text + before)
    return made


def run(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a Python that has the clone's packages says."""
    around = {**site.around(), "PYTHONPATH": ":".join(str(clone / name) for name in SOURCES)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=clone, env=around, capture_output=True, text=True, check=False
    )


def trainyard(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(clone, "-c", "from trainyard_cli.main import main; main()", *arguments)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.line)
def test_the_line_names_every_file_that_is_touched(step: Step) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    [line] = [one for one in text.splitlines() if one.startswith(step.line)]
    named = re.findall(r"`([^`]+)`", line)
    unnamed = [file for file in step.files if not any(file == one or _is_in(file, one) for one in named)]
    assert unnamed == []


def _is_in(file: str, folder: str) -> bool:
    return folder.endswith("/") and file.startswith(folder)


def test_the_steps_touch_those_files_and_no_others(clone: Path) -> None:
    touched = git(clone, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert sorted(line[3:] for line in touched) == sorted(file for step in STEPS for file in step.files)


def test_a_new_framework_is_rendered(clone: Path) -> None:
    runtime = yaml.safe_load((clone / "runtimes/plain/plain.yaml").read_text())
    runtime["metadata"] = {"name": "example", "labels": {"trainer.kubeflow.org/framework": "example"}}
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "three"},
        "spec": {"runtimeRef": {"name": "example"}, "trainer": {"numNodes": 3}},
    }
    (clone / "job.yaml").write_text(yaml.safe_dump_all([runtime, job]))
    answer = trainyard(clone, "render", "--file", "job.yaml")
    (clone / "job.yaml").unlink()
    assert answer.returncode == 0, answer.stderr
    [jobset] = [one for one in yaml.safe_load_all(answer.stdout) if one["kind"] == "JobSet"]
    [node] = jobset["spec"]["replicatedJobs"]
    [container] = node["template"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "EXAMPLE_NODES", "value": "3"} in container["env"]


@pytest.mark.long
def test_a_new_rule_is_held_to(clone: Path) -> None:
    runtime = (clone / "runtimes/plain/plain.yaml").read_text()
    changed = re.sub(r"^( +)image: .*\n", r"\g<0>\1workingDir: workspace\n", runtime, count=1, flags=re.M)
    (clone / "job.yaml").write_text(changed)
    answer = trainyard(clone, "lint", "job.yaml")
    (clone / "job.yaml").unlink()
    assert answer.returncode == 1, answer.stderr
    assert "containers[0].workingDir: must begin with / [working-directory]" in answer.stdout


@pytest.mark.long
def test_a_new_part_is_installed(clone: Path) -> None:
    (clone / "tests/trainyard_platform/test_greeting.py").write_text("""
import pytest
from tests.trainyard_platform.graphs import MINIMAL, stack


@pytest.mark.usefixtures("pins")
def test_the_greeting(tmp_path):
    graph = stack(tmp_path, {**MINIMAL, "example": {"greeting": "good day"}})
    key = "kubernetes:core/v1:ConfigMap configmap-trainyard-system/greeting"
    assert graph[key].inputs["data"] == {"greeting": "good day"}
""")
    answer = run(
        clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/trainyard_platform/test_greeting.py"
    )
    (clone / "tests/trainyard_platform/test_greeting.py").unlink()
    assert answer.returncode == 0, answer.stdout
    assert "1 passed" in answer.stdout


@pytest.mark.long
def test_a_new_command_is_there(clone: Path) -> None:
    assert trainyard(clone, "greet").stdout == "good day\n"
    assert "  greet      Greet." in trainyard(clone, "--help").stdout


@pytest.mark.long
def test_what_was_added_keeps_the_floors_and_the_style(clone: Path) -> None:
    contracts = run(clone, "-m", "importlinter.cli", "--no-cache")
    assert contracts.returncode == 0, contracts.stdout
    linted = run(clone, "-m", "ruff", "check", "--no-cache", *SOURCES)
    assert linted.returncode == 0, linted.stdout


@pytest.mark.long
def test_after_make_generate_the_tests_that_look_at_all_there_is_pass(clone: Path) -> None:
    generated = run(clone, "-m", "tests.harness.generate")
    assert generated.returncode == 0, generated.stdout
    written = re.findall(r"^written: (.*)$", generated.stdout, re.M)
    assert written == [
        "docs/gitops.md",
        "docs/policies/rules.md",
        "docs/reference/command.md",
        "docs/reference/stack.md",
        "docs/what-ran-where.md",
        "stacks/schema.json",
    ]
    noticing = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long and not sandbox", *NOTICING)
    checked = run(clone, *noticing)
    assert checked.returncode == 0, checked.stdout
