"""A command of one clone that is called in another works on the other, and says so first."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.clones import clone_at
from trainyard_api.places import DATA
from trainyard_cli import main


def first_line(*arguments: str) -> str:
    answer = CliRunner().invoke(main.app, arguments)
    assert answer.exit_code == 0, answer.output
    return answer.stderr.partition("\n")[0]


def test_another_clone_is_named_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = clone_at(tmp_path)
    monkeypatch.chdir(site.stacks)
    (site.stacks / "Pulumi.theirs.yaml").touch()
    answer = CliRunner().invoke(main.app, ["stacks"])
    assert (answer.stdout, answer.stderr) == (
        '["theirs"]\n',
        f"Working on {tmp_path}, with the Trainyard of {DATA}\n",
    )


def test_its_own_clone_is_not_named_and_neither_is_a_folder_that_is_no_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DATA / "stacks")
    assert first_line("stacks") == ""
    monkeypatch.chdir(tmp_path)
    assert first_line("runtimes", "list") == ""


def test_a_package_that_only_some_commands_need_is_named_with_the_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> int:
        raise ModuleNotFoundError("No module named 'kopf'", name="kopf.engines")

    assert main.exit_code(command) == 2
    assert capsys.readouterr().err == (
        "The Python package kopf is missing, which only some commands need: "
        "pip install 'trainyard[site,operator]'\n"
    )
