"""The command `pulumi` of a sandbox: of one stack, and nothing outlives it."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.patience import eventually
from trainyard_sandbox import pulumi_launcher
from trainyard_sandbox.pulumi_launcher import refusal

OWN = "/sandbox/pulumi/Pulumi.sandbox.yaml"
HERE = {"PULUMI_OPTION_CONFIG_FILE": OWN}


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--stack", "prod"],
        ["up", "--stack=prod"],
        ["up", "-s", "prod"],
        ["up", "-sprod"],
        ["up", "--stack", "organization/trainyard/prod"],
        ["stack", "select", "prod"],
        ["stack", "init", "--non-interactive", "prod"],
        ["--cwd", "platform", "stack", "init", "prod"],
    ],
)
def test_another_stack_does_not_get_the_stack_file_of_the_sandbox(arguments: list[str]) -> None:
    assert refusal(arguments, HERE, OWN) == (
        "This sandbox has only the stack 'sandbox', and Pulumi would use its file for 'prod' too. "
        "To try the other one on a sandbox of its own: trainyard sandbox up --name prod, then "
        "trainyard sandbox exec --name prod --stack prod -- make preview STACK=prod"
    )


def test_nor_does_one_that_a_variable_names() -> None:
    assert "'prod'" in refusal(["up"], {**HERE, "PULUMI_OPTION_STACK": "prod"}, OWN)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["up", "--stack", "sandbox"], HERE),
        (["up", "--stack", "organization/trainyard/sandbox"], HERE),
        (["stack", "init", "sandbox"], HERE),
        (["version"], HERE),
        (["stack", "export"], HERE),
        (["up", "--stack", "prod", "--config-file", "prod.yaml"], HERE),
        (["up", "--stack", "prod", "--config-file=prod.yaml"], HERE),
        (["up", "--stack", "prod"], {"PULUMI_OPTION_CONFIG_FILE": "prod.yaml"}),
        (["up", "--stack", "prod"], {}),
    ],
)
def test_its_own_stack_and_a_stack_with_a_file_of_its_own_are_pulumis(
    arguments: list[str], environment: dict[str, str]
) -> None:
    assert refusal(arguments, environment, OWN) == ""


def start(folder: Path, script: str, *arguments: str, mark: str = "") -> "subprocess.Popen[str]":
    """The launcher with this shell script in Pulumi's place."""
    pulumi = folder / "pulumi"
    pulumi.write_text(f"#!/bin/sh\n{script}\n")
    pulumi.chmod(0o755)
    command = [sys.executable, "-m", "trainyard_sandbox.pulumi_launcher", str(pulumi), OWN, *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **HERE, "OF_THE_TEST": mark}, stdout=subprocess.PIPE, text=True
    )


def test_it_is_pulumi_that_runs_with_its_arguments_and_its_exit_code(tmp_path: Path) -> None:
    with start(tmp_path, 'echo "$@"; exit 7', "up", "--stack", "sandbox") as process:
        said, _ = process.communicate()
    assert (process.returncode, said) == (7, "up --stack sandbox\n")


def test_what_is_refused_is_not_run(tmp_path: Path) -> None:
    with start(tmp_path, "echo ran", "up", "--stack", "prod") as process:
        said, _ = process.communicate()
    assert (process.returncode, said) == (2, "")


@pytest.mark.parametrize("session", ["", "setsid "], ids=["same session", "session of its own"])
def test_what_a_killed_pulumi_had_started_ends_with_it(tmp_path: Path, session: str) -> None:
    script = f"{session}sleep 3600 > /dev/null & echo begun; wait; sleep 3600"
    with start(tmp_path, script, "up", mark=(mark := uuid.uuid4().hex)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        eventually("its provider runs", lambda: "sleep" in names(mark))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        eventually("nothing of it is left", lambda: names(mark) == [])


def names(mark: str) -> list[str]:
    """The commands of the processes that a test has started, but for the guard."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"OF_THE_TEST={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append((folder / "comm").read_text().strip() if "launcher" not in command else "")
        except OSError:
            continue
    return [name for name in found if name]


def test_a_guard_of_what_has_ended_already_has_nothing_to_do() -> None:
    ended = subprocess.Popen(["true"])
    process = os.pidfd_open(ended.pid)
    ended.wait()
    pulumi_launcher.guard(process, "no-mark-of-anybody")
    os.close(process)
