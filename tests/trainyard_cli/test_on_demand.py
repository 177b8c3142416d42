"""Commands are imported when they are asked for, and look as if they had always been there."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

from tests.support.site import git
from trainyard_cli.commands import runtimes
from trainyard_cli.main import COMMANDS, app, version
from trainyard_cli.on_demand import Listed

ROOM = "trainyard_cli"


LOADED = f"print(*sorted(m for m in sys.modules if m.startswith('{ROOM}')), file=sys.stderr)"
COMPLETION = {"_TRAINYARD_COMPLETE": "complete_bash", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--help"], {}),
        (["--version"], {}),
        ([], {**COMPLETION, "COMP_WORDS": "trainyard "}),
    ],
    ids=["help", "version", "completion"],
)
def test_what_needs_no_command_imports_none(arguments: list[str], variables: dict[str, str]):
    begin = f"import atexit, sys; sys.argv = ['trainyard', *{arguments}]; from {ROOM}.main import main; "
    run = subprocess.run(
        [sys.executable, "-c", f"{begin}atexit.register(lambda: {LOADED}); main()"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout != ""
    assert run.stderr.split() == [ROOM, f"{ROOM}.main", f"{ROOM}.on_demand"]


def test_what_data_scientists_call_all_day_imports_no_settings_of_stacks():
    commands = ("attach", "cancel", "cp", "exec", "explain", "jobs", "logs", "ports", "retry", "suspend")
    imports = "; ".join(f"import {ROOM}.commands.{command}" for command in commands)
    heavy = "{'pydantic', 'pulumi', 'kopf'} & {*sys.modules}"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {imports}; print(*{heavy})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "\n"


PACKAGE = metadata.version("trainyard")


def test_the_version_is_that_of_the_package():
    answer = CliRunner().invoke(app, ["--version"])
    assert answer.exit_code == 0
    assert re.fullmatch(rf"trainyard {re.escape(PACKAGE)}( \(\S+\))?\n", answer.stdout)


def test_the_version_of_a_wheel_is_that_of_the_package_even_inside_a_repository(tmp_path: Path):
    repository(tmp_path, "v0.0.1")
    (tmp_path / "lib").mkdir()
    assert version(tmp_path / "lib") == f"trainyard {PACKAGE}"


def test_the_version_of_a_clone_that_is_not_at_its_tag_has_the_commit(tmp_path: Path):
    commit = repository(tmp_path)
    assert version(tmp_path) == f"trainyard {PACKAGE} ({commit[:12]})"
    repository(tmp_path, "v0.0.1")
    assert version(tmp_path) == f"trainyard {PACKAGE} (v0.0.1)"
    commit = repository(tmp_path)
    assert version(tmp_path) == f"trainyard {PACKAGE} (v0.0.1-1-g{commit[:12]})"
    repository(tmp_path, f"v{PACKAGE}")
    assert version(tmp_path) == f"trainyard {PACKAGE}"


def test_the_version_needs_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    repository(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version(tmp_path) == f"trainyard {PACKAGE}"


def repository(folder: Path, tag: str = "") -> str:
    """Make the folder a repository with one commit more, and tag that; returns the commit."""
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "more")
    if tag:
        git(folder, "tag", tag)
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize(
    ("group", "name"),
    [(app, name) for name in COMMANDS] + [(runtimes.app, name) for name in runtimes.COMMANDS],
)
def test_help_has_of_each_command_its_own_first_line(group: typer.Typer, name: str):
    listed = (COMMANDS if group is app else runtimes.COMMANDS)[name].summary
    command = get_group(group).commands[name]
    assert inspect.cleandoc(command.help).splitlines()[0] == listed


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_there(name):
    answer = CliRunner().invoke(app, [name, "--help"])
    assert answer.exit_code == 0, answer.output
    assert f" {name} [OPTIONS]" in answer.stdout


@pytest.mark.parametrize(("prefix", "commands"), [("", COMMANDS), ("runtimes_", runtimes.COMMANDS)])
def test_a_command_is_called_as_its_module_is(prefix: str, commands: Mapping[str, Listed]) -> None:
    modules = {name: listed.place.partition(":")[0] for name, listed in commands.items()}
    assert modules == {name: f"{prefix}{name}" for name in commands}


def test_help_lists_the_commands_by_their_readers():
    _, *sections = re.split(r"^(For .*|To .*):$", CliRunner().invoke(app, ["--help"]).stdout, flags=re.M)
    listed = {
        heading: [line.split()[0] for line in section.splitlines() if line]
        for heading, section in zip(sections[::2], sections[1::2], strict=True)
    }
    headings = dict.fromkeys(command.heading for command in COMMANDS.values())
    assert listed == {
        heading: [name for name, command in COMMANDS.items() if command.heading == heading]
        for heading in headings
    }
    assert list(listed) == [
        "For data scientists",
        "For platform teams",
        "For pull requests and pipelines",
        "To try it out",
    ]


@pytest.mark.parametrize("group", [[], ["runtimes"], ["sandbox"], ["operator"]], ids=" ".join)
def test_no_line_of_help_is_cut_at_80_columns(group: list[str]):
    answer = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "80"})
    lines = [line for line in answer.stdout.splitlines() if line.startswith("  ")]
    assert len(lines) > 1
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []


def test_a_group_has_its_own_commands_first():
    listed = CliRunner().invoke(runtimes.app, ["--help"]).stdout
    assert [name for name in ("list", "show", "diff", "jobs", "new") if f" {name} " in listed] == [
        "list",
        "show",
        "diff",
        "jobs",
        "new",
    ]


def test_a_wrong_name_is_told_the_nearest():
    answer = CliRunner().invoke(app, ["lnt"])
    assert answer.exit_code == 2
    assert "No such command 'lnt'. Did you mean 'lint'?" in answer.output


def test_the_shell_completes_a_command():
    asked = {"_TRAINYARD_COMPLETE": "complete_bash", "COMP_WORDS": "trainyard ver", "COMP_CWORD": "1"}
    begin = f"import sys; sys.argv[0] = 'trainyard'; from {ROOM}.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", begin],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.split() == ["verify"], run.stderr


@pytest.mark.parametrize(
    "main",
    [
        "print('a' * 1_000_000)",
        "print('a')",
        "raise BrokenPipeError",
    ],
    ids=["more than a pipe takes", "a line, which is written at the end", "it is noticed by the command"],
)
def test_where_nobody_reads_the_output_the_command_ends_without_a_word(main: str) -> None:
    begin = f"import sys; sys.argv = ['trainyard', 'it']; from {ROOM} import main"
    script = f"{begin}\n@main.app.command('it')\ndef it():\n    {main}\nmain.main()"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", script], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize(
    ("encoding", "out", "err"),
    [
        ("ascii", rb"caf\xe9 \u4e2d", rb"\xe9"),
        ("latin-1", b"caf\xe9 \\u4e2d", b"\xe9"),
        ("ascii:surrogateescape", rb"caf\xe9 \u4e2d", rb"\xe9"),
        ("ascii:replace", b"caf? ?", rb"\xe9"),
        ("utf-8", "caf\xe9 \u4e2d".encode(), "\xe9".encode()),
    ],
)
def test_an_output_of_any_encoding_can_be_written_to(encoding: str, out: bytes, err: bytes) -> None:
    begin = f"import sys; sys.argv = ['trainyard', 'it']; from {ROOM} import main"
    write = r"print('caf\xe9 \u4e2d'); print('\xe9', file=sys.stderr)"
    script = f"{begin}\n@main.app.command('it')\ndef it():\n    {write}\nmain.main()"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, out + b"\n", err + b"\n")


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [("<&-", "0 '' False\n", ""), (">&-", "", ""), ("2>&-", "0 '' False\n", ""), ("<&- >&- 2>&-", "", "")],
)
def test_an_input_or_output_that_is_closed_is_empty(closed: str, out: str, err: str) -> None:
    begin = f"import sys; sys.argv = ['trainyard', 'it']; from {ROOM} import main"
    write = "print(sys.stdin.fileno(), repr(sys.stdin.read()), sys.stdin.isatty())"
    script = f"{begin}\n@main.app.command('it')\ndef it():\n    {write}\nmain.main()"
    ended = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, out, err)
