"""`python -m trainyard_trainers`: one line and an exit code, before anything is loaded."""

import os
import sys
from pathlib import Path

import pytest

from trainyard_trainers import main

from .models import model


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (
            ["sft", "lerning_rate=1"],
            2,
            "InvalidArgument: lerning_rate: sft has no such setting; did you mean ",
        ),
        (
            ["sft", "--lerning_rate=1", "model={folder}/none"],
            2,
            "InvalidArgument: lerning_rate: sft has no such setting; did you mean ",
        ),
        (["sft", "--packing", "true"], 2, "InvalidArgument: packing: write it as packing=VALUE"),
        (
            ["sft", "max_steps=1", "--use_peft=true", "--model={folder}/none"],
            42,
            "InvalidModel: {folder}/none holds no config.json: ",
        ),
        (["sft", "model={folder}/none"], 42, "InvalidModel: {folder}/none holds no config.json: "),
        (
            ["sft", "model={folder}/model", "use_peft=true", "lora_target_modules=q_prj"],
            42,
            "InvalidModel: the model has no module q_prj for LoRA; did you mean q_proj?",
        ),
        (
            ["grpo", "model={folder}/model", "reward={folder}/none.py:digits"],
            42,
            "InvalidReward: reward={folder}/none.py:digits: ",
        ),
    ],
    ids=["argument", "option", "option without value", "model as an option", "model", "target", "reward"],
)
def test_what_is_wrong_is_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], code: int, says: str
) -> None:
    model(tmp_path / "model")
    assert main.main([argument.format(folder=tmp_path) for argument in given]) == code
    shown = capsys.readouterr()
    assert shown.err.startswith(says.format(folder=tmp_path))
    assert (shown.err.count("\n"), shown.out) == (1, "")


@pytest.mark.parametrize("given", [["--help"], ["sft", "--help"], ["sft", "--use_peft=true", "-h"]])
def test_the_help_is_printed_wherever_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main.main(given)
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("usage: python -m trainyard_trainers")


def test_a_setting_that_is_written_as_an_option_reaches_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs: list[list[str]] = []
    monkeypatch.setattr(main, "check", lambda *_: None)
    monkeypatch.setattr(os, "execv", lambda _, program: programs.append(program))
    main.main(["sft", "--use_peft=true", "max_steps=1"])
    assert [program[-3:] for program in programs] == [["sft", "--use_peft=true", "max_steps=1"]]


def test_torchrun_is_told_by_variables_or_is_alone() -> None:
    run = [sys.executable, "-m", "torch.distributed.run"]
    ours = ["-m", "trainyard_trainers.train", "sft", "max_steps=1"]
    assert main.torchrun(["sft", "max_steps=1"], {"PET_NNODES": "2"}) == [*run, *ours]
    assert main.torchrun(["sft", "max_steps=1"], {}) == [*run, "--standalone", *ours]
