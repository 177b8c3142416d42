"""What `.github` promises: least rights, no stranger's words in a shell, only targets that run here too.

That the workflows are well formed is actionlint's to say (tests/e2e/test_delivery.py).
"""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.yaml_files import load

PROJECT = Path(__file__).parents[2]
GITHUB = PROJECT / ".github"
WORKFLOWS = {path.name: load(path) for path in (GITHUB / "workflows").glob("*")}
ACTIONS = {path.parent.name: load(path) for path in GITHUB.glob("actions/*/action.yml")}
# YAML 1.1 reads the key `on` as true.
ON: Any = True


def jobs() -> dict[str, dict[str, Any]]:
    """Every job, by workflow and name."""
    return {f"{file}:{name}": job for file, flow in WORKFLOWS.items() for name, job in flow["jobs"].items()}


def steps() -> Iterator[dict[str, Any]]:
    """Every step of every job and action."""
    for job in jobs().values():
        yield from job["steps"]
    for action in ACTIONS.values():
        yield from action["runs"]["steps"]


def test_there_is_a_workflow_for_each_event() -> None:
    assert {name: set(flow[ON]) for name, flow in WORKFLOWS.items()} == {
        "pull-request.yml": {"pull_request"},
        "deploy.yml": {"push", "workflow_dispatch"},
        "docs.yml": {"push", "workflow_dispatch"},
        "drift.yml": {"schedule", "workflow_dispatch"},
        "night.yml": {"schedule", "workflow_dispatch"},
        "release.yml": {"push"},
    }


def test_no_script_holds_an_expression_whose_value_a_shell_would_read() -> None:
    assert [step["run"] for step in steps() if "${{" in step.get("run", "")] == []


def called_by(step: dict[str, Any]) -> list[str]:
    """The make targets of a step."""
    return [
        name for line in re.findall(r"\bmake ([a-z0-9 -]+)", step.get("run", "")) for name in line.split()
    ]


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    called = {name for step in steps() for name in called_by(step)}
    assert called == {
        "audit",
        "check",
        "context",
        "dist",
        "docs",
        "drift",
        "e2e",
        "environment",
        "impact",
        "preview",
        "report",
        "sbom",
        "stacks",
        "up",
        "verify",
    }
    assert called <= targets


def test_every_script_exists_and_can_be_run() -> None:
    called = {p for step in steps() for p in re.findall(r"\.github/scripts/\S+", step.get("run", ""))}
    assert called == {f".github/scripts/{name}" for name in ("keep", "release.py", "report.py")}
    assert (GITHUB / "scripts" / "keep").stat().st_mode & 0o111
    assert [name for name in called if not (PROJECT / name).is_file()] == []


def test_a_job_has_the_least_rights() -> None:
    assert {name: flow["permissions"] for name, flow in WORKFLOWS.items()} == {name: {} for name in WORKFLOWS}
    read = {"contents": "read"}
    more = {
        "pull-request.yml:verify": {**read, "actions": "read", "security-events": "write"},
        "pull-request.yml:comment": {**read, "pull-requests": "write"},
        "docs.yml:site": {**read, "pages": "write", "id-token": "write"},
        "drift.yml:issue": {**read, "issues": "write"},
        "release.yml:image": {**read, "packages": "write", "id-token": "write"},
        "release.yml:release": {"contents": "write", "id-token": "write"},
    }
    assert {name: job["permissions"] for name, job in jobs().items()} == {
        **dict.fromkeys(jobs(), read),
        **more,
    }


def test_only_jobs_of_a_stacks_environment_get_secrets() -> None:
    with_secrets = {name: job["environment"] for name, job in jobs().items() if "secrets." in str(job)}
    assert with_secrets == {
        "pull-request.yml:preview": "${{ matrix.stack }}-preview",
        "deploy.yml:up": "${{ matrix.stack }}",
        "drift.yml:drift": "${{ matrix.stack }}-drift",
    }
    for name in with_secrets:  # not the whole job: only the step that needs them
        assert "secrets." not in str(jobs()[name]["env"])


def test_a_fork_gets_no_further_than_the_rules() -> None:
    pull_request = WORKFLOWS["pull-request.yml"]["jobs"]
    same = "github.event.pull_request.head.repo.full_name == github.repository"
    assert same in pull_request["stacks"]["if"]
    assert {name for name, job in pull_request.items() if "needs" not in job} == {"check", "stacks", "verify"}
    assert pull_request["check"]["if"] == "${{ vars.TRAINYARD_TESTS != '' }}", "no site's affair"
    [upload] = [step for step in pull_request["verify"]["steps"] if "upload-sarif" in step.get("uses", "")]
    assert same in upload["if"]


def test_the_required_check_does_not_fail_where_there_is_no_code_scanning() -> None:
    verify = WORKFLOWS["pull-request.yml"]["jobs"]["verify"]
    assert [
        (step.get("uses"), step.get("run")) for step in verify["steps"] if "continue-on-error" in step
    ] == [("github/codeql-action/upload-sarif@v3", None)]


def test_nothing_is_asked_of_pulumi_before_a_backend_is_set() -> None:
    for name in WORKFLOWS.keys() - {"docs.yml", "release.yml", "night.yml"}:
        assert "vars.PULUMI_BACKEND_URL != ''" in WORKFLOWS[name]["jobs"]["stacks"]["if"]


def test_a_stack_is_rolled_out_by_one_job_at_a_time_that_is_never_interrupted() -> None:
    assert WORKFLOWS["deploy.yml"]["jobs"]["up"]["concurrency"] == {
        "group": "stack-${{ matrix.stack }}",
        "cancel-in-progress": False,
    }
    assert "concurrency" not in WORKFLOWS["deploy.yml"]


def test_a_roll_out_has_the_newest_commit_also_if_its_run_is_an_old_one() -> None:
    checkout = WORKFLOWS["deploy.yml"]["jobs"]["up"]["steps"][0]
    assert checkout == {
        "uses": "actions/checkout@v4",
        "with": {"ref": "${{ github.ref }}", "persist-credentials": False},
    }


@pytest.mark.parametrize(("name", "job"), jobs().items(), ids=jobs())
def test_a_job_ends_and_leaves_no_token_in_its_checkout(name: str, job: dict[str, Any]) -> None:
    # All that the tests need is built from nothing there, and nobody waits for it.
    longest = {"night.yml": 350, "release.yml:bundle": 180}
    assert job["timeout-minutes"] <= longest.get(name, longest.get(name.partition(":")[0], 60))
    [checkout] = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert checkout["with"]["persist-credentials"] is False


def test_an_action_is_ours_or_named_by_version_or_by_digest() -> None:
    allowed = re.compile(r"\./\.github/actions/[a-z-]+|[\w.-]+/[\w./-]+@(v\d+(\.\d+)*|[0-9a-f]{40})")
    used = {step["uses"] for step in steps() if "uses" in step}
    assert {name for name in used if not allowed.fullmatch(name)} == set()
    ours = {name.rsplit("/", 1)[1] for name in used if name.startswith("./")}
    assert ours == set(ACTIONS)


def test_the_pulumi_command_has_the_version_of_its_sdk() -> None:
    [install] = [step for step in ACTIONS["pulumi"]["runs"]["steps"] if "uses" in step]
    groups = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"pulumi=={install['with']['pulumi-version']}" in groups["platform"]


def test_the_name_of_an_image_is_in_lower_case_whatever_the_owner_is_called() -> None:
    text = (GITHUB / "workflows" / "release.yml").read_text()
    assert "ghcr.io/${{" not in text
    assert re.findall('ghcr.io/[^"\\n]+', text) == ["ghcr.io/${GITHUB_REPOSITORY,,}/$NAME"]


def test_a_release_is_audited_before_and_verified_after_it_is_signed() -> None:
    steps = WORKFLOWS["release.yml"]["jobs"]["image"]["steps"]
    done = [step.get("uses", step.get("run", "")).partition("@")[0] for step in steps]
    assert done.index("make audit sbom") < done.index("docker/build-push-action")
    lines = [step["run"] for step in steps if "run" in step][-1].splitlines()
    assert [line.split()[1] for line in lines if line.startswith("cosign")] == [
        "sign",
        "attest",
        "verify",
        "verify-attestation",
    ]
    assert all("$IMAGE@$DIGEST" in line for line in lines if line.startswith("cosign"))


@pytest.mark.long
def test_the_bill_of_each_image_of_a_release_lists_all_that_it_is_locked_to() -> None:
    subprocess.run(["make", "sbom"], cwd=PROJECT, check=True)
    for image in WORKFLOWS["release.yml"]["jobs"]["image"]["strategy"]["matrix"]["name"]:
        lock = (PROJECT / "requirements" / f"{image}.txt").read_text()
        bill = json.loads((PROJECT / "dist" / f"{image}.cdx.json").read_text())
        assert [component["name"] for component in bill["components"]] == re.findall(
            r"^([a-z0-9.-]+)==", lock, re.MULTILINE
        ), image
