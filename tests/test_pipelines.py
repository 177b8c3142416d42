"""examples/gitops: pipelines for hosts other than GitHub do what they say, as far as no server is needed."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support import site
from tests.support.site import ROOT, STACK, script
from tests.support.yaml_files import load

GITLAB: dict[str, Any] = load(ROOT / "examples/gitops/gitlab-ci.yml")
PULUMI = """#!/bin/sh
# Stands for the engine: the state of a stack with nothing in it, and what it would tell of its preview.
case "$1" in
stack) echo '{"deployment": {"resources": []}}' ;;
*) echo '{"summaryEvent": {"isPreview": true}}' ;;
esac
"""

GUIDE = (ROOT / "docs/gitops.md").read_text().partition("## Plain YAML")[2]
MANIFESTS = """#!/bin/sh
# Stands for a stack of two objects, one of which is new.
mkdir -p manifests/prod/wave-00
touch manifests/prod/wave-00/old.yaml "manifests/prod/wave-00/$NEW.yaml"
"""

NO_STACKS = """#!/bin/sh
# Stands for a checkout in which a stack's file has a wrong name.
[ "$1" != stacks ] || { echo "a wrong name" >&2; exit 2; }
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A site's clone on a branch that changes a runtime."""
    made = site.made(tmp_path / "site")
    site.edit(made / "runtimes/torch/torch-distributed.yaml", "    numNodes: 1\n", "    numNodes: 2\n")
    return made


def run(clone: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return site.run(clone, command, SINCE="main", **variables)


def of_gitlab(job: str) -> str:
    return "\n".join(GITLAB[job]["script"])


def misspell(clone: Path) -> None:
    text = (clone / STACK).read_text()
    (clone / STACK).write_text(text.replace("trainyard:platform:", "trainyard:platfrom:"))


def test_the_script_writes_the_report_of_a_change_that_can_be_rolled_out(clone: Path) -> None:
    answer = run(clone, "examples/gitops/pull-request.sh main")
    assert answer.returncode == 0, answer.stderr
    report = (clone / "results/report.md").read_text()
    assert report.startswith("## 1 change on 1 stack; nothing is refused\n")
    assert (
        "| `ClusterTrainingRuntime torch-distributed` | `numNodes`: `1` → `2` | `prod` | not asked |"
        in report
    )
    assert ElementTree.parse(clone / "results/verify.xml").getroot().attrib["failures"] == "0"


@pytest.mark.long
def test_the_script_previews_each_stack_where_there_is_a_backend(clone: Path) -> None:
    script(clone / "bin/pulumi", PULUMI)
    answer = run(
        clone,
        "examples/gitops/pull-request.sh main",
        PULUMI_BACKEND_URL="file://.",
        KUBECONFIG="/no/such/file",
    )
    assert answer.returncode == 0, answer.stderr
    report = (clone / "results/report.md").read_text()
    assert report.startswith("## TrainJobs not seen on prod\n"), report
    assert "- passes on `prod (nothing in it)`\n" in report
    assert "prod: the TrainJobs could not be seen: " in report


@pytest.mark.long
def test_the_script_fails_where_a_mistake_is_and_writes_the_report_all_the_same(clone: Path) -> None:
    misspell(clone)
    answer = run(clone, "examples/gitops/pull-request.sh main")
    assert answer.returncode == 1
    assert (clone / "results/report.md").read_text().startswith("## Refused: 1 mistake in 1 file\n")
    assert "Traceback" not in answer.stdout + answer.stderr


def test_the_script_says_what_it_needs(clone: Path) -> None:
    answer = run(clone, "examples/gitops/pull-request.sh")
    assert answer.returncode != 0
    assert "Say what the branch is merged into: examples/gitops/pull-request.sh origin/main" in answer.stderr


@pytest.mark.long
def test_gitlabs_job_verify_leaves_its_reports_and_fails_for_a_mistake_alone(clone: Path) -> None:
    assert run(clone, of_gitlab("verify")).returncode == 0
    misspell(clone)
    answer = run(clone, of_gitlab("verify"))
    assert answer.returncode != 0
    reports = GITLAB["verify"]["artifacts"]["reports"]
    found = json.loads((clone / reports["codequality"]).read_text())
    refused = [one["location"] for one in found if one["severity"] != "info"]
    assert [one["path"] for one in refused] == [STACK]
    assert ElementTree.parse(clone / reports["junit"]).getroot().attrib["failures"] == "1"


@pytest.mark.long
def test_gitlabs_jobs_preview_a_stack_that_is_touched_and_report(clone: Path) -> None:
    script(clone / "bin/pulumi", PULUMI)
    assert run(clone, of_gitlab("preview"), STACK="other", KUBECONFIG="/no/such/file").returncode == 0
    assert not (clone / "results").exists()
    answer = run(clone, of_gitlab("preview"), STACK="prod", KUBECONFIG="/no/such/file")
    assert answer.returncode == 0, answer.stderr
    backend = {"PULUMI_BACKEND_URL": "file://."}
    answer = run(clone, of_gitlab("report"), CI_PIPELINE_URL="https://gitlab.example.com/7", **backend)
    assert (answer.returncode, answer.stderr) == (0, "")
    [file] = GITLAB["report"]["artifacts"]["paths"]
    report = (clone / file).read_text()
    assert "- passes on `prod (nothing in it)`\n" in report
    assert report.endswith("[The run](https://gitlab.example.com/7)\n")


@pytest.mark.parametrize(
    ("variables", "summary"),
    [
        ({"PULUMI_BACKEND_URL": "file://."}, "No preview of prod"),
        pytest.param({}, "1 change on 1 stack; nothing is refused", marks=pytest.mark.long),
    ],
)
def test_gitlabs_report_says_that_a_preview_left_nothing_where_there_is_a_backend(
    clone: Path, variables: dict[str, str], summary: str
) -> None:
    answer = run(clone, of_gitlab("report"), CI_PIPELINE_URL="https://gitlab.example.com/7", **variables)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (clone / "report.md").read_text().startswith(f"## {summary}\n")


@pytest.mark.parametrize(
    "command",
    [f"{ROOT}/examples/gitops/pull-request.sh main", of_gitlab("preview")],
    ids=["script", "gitlab"],
)
def test_where_the_stacks_cannot_be_listed_a_pipeline_fails(tmp_path: Path, command: str) -> None:
    script(tmp_path / "bin/make", NO_STACKS)
    answer = run(tmp_path, command, PULUMI_BACKEND_URL="file://.", STACK="prod")
    assert (answer.returncode != 0, answer.stderr) == (True, "a wrong name\n")


def test_gitlabs_jobs_run_on_merge_requests_with_all_of_the_history() -> None:
    assert GITLAB["workflow"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
    assert GITLAB["variables"] == {"GIT_DEPTH": "0", "SINCE": "$CI_MERGE_REQUEST_DIFF_BASE_SHA"}
    assert [GITLAB[job]["stage"] for job in ("verify", "preview", "report")] == GITLAB["stages"]


@pytest.mark.parametrize(("new", "code"), [("old", 0), ("runtime", 1)])
def test_the_guides_commands_find_an_object_that_is_missing_in_the_committed_manifests(
    tmp_path: Path, new: str, code: int
) -> None:
    [commands] = re.findall(r"```console\n((?:\$ .*\n)+)```", GUIDE.partition("Commit the folder")[2])
    script(tmp_path / "bin/make", MANIFESTS)
    site.git(tmp_path, "init", "--quiet")
    run(tmp_path, "make manifests", NEW="old")
    site.commit(tmp_path)
    answer = run(tmp_path, commands.replace("$ ", ""), NEW=new)
    assert (answer.returncode, f"wave-00/{new}.yaml" in answer.stdout) == (code, bool(code)), answer.stderr
