"""The last whole checkpoint of a training, whatever a killed pod or another training has left behind it."""

import dataclasses
import itertools
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trainyard_trainers import checkpoints
from trainyard_trainers.failures import InvalidArgument
from trainyard_trainers.settings import Dpo, Settings, Sft

from .models import model, safetensors


def checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(safetensors({"a.weight": (4, 4)}))
    for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "scaler.pt"):
        with zipfile.ZipFile(path / name, "w") as archive:
            archive.writestr("data", bytes(100))
    (path / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
    return path


def test_the_newest_is_that_of_the_most_steps(tmp_path: Path) -> None:
    for step in (90, 100, 20):
        checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-later").mkdir()
    (tmp_path / "adapter").mkdir()
    assert checkpoints.last(tmp_path) == tmp_path / "checkpoint-100"


def test_there_may_be_none(tmp_path: Path) -> None:
    assert checkpoints.last(tmp_path) is None
    assert checkpoints.last(tmp_path / "output") is None


@pytest.mark.parametrize(
    ("name", "left"),
    [
        *itertools.product(
            ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"),
            ("nothing", "a part", "all but the end"),
        ),
        # Without random numbers of a process, or the scale of a loss, transformers goes on.
        *itertools.product(("rng_state_1.pth", "scaler.pt"), ("an empty file", "a part", "all but the end")),
    ],
)
def test_one_that_was_being_written_is_left_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, left: str
) -> None:
    checkpoint(tmp_path, 10)
    file = checkpoint(tmp_path, 20) / name
    content = file.read_bytes()
    if left == "nothing":
        file.unlink()
    else:
        ends = {"an empty file": 0, "a part": len(content) // 2, "all but the end": -1}
        file.write_bytes(content[: ends[left]])
    assert checkpoints.last(tmp_path) == tmp_path / "checkpoint-10"
    assert f"{tmp_path}/checkpoint-20 is left aside: " in caplog.text


@pytest.mark.parametrize(
    ("state", "is_finished"),
    [
        ({"global_step": 60, "max_steps": 60}, True),
        ({"global_step": 61, "max_steps": 60}, True),
        ({"global_step": 50, "max_steps": 60}, False),
        ({"global_step": 60, "max_steps": 0}, False),
        ({"global_step": 60}, False),
    ],
    ids=["at its end", "behind it", "before it", "without steps", "unknown"],
)
def test_a_training_is_finished_at_its_last_step(
    tmp_path: Path, state: dict[str, int], is_finished: bool
) -> None:
    path = checkpoint(tmp_path, 60)
    (path / "trainer_state.json").write_text(json.dumps(state))
    assert checkpoints.is_finished(path) == is_finished


def fetch(folder: Path) -> Sft:
    """A training whose model and dataset initializers have just put in place."""
    folder.mkdir(exist_ok=True)
    model(folder / "model")
    for place in ("model", "dataset"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / ".marker.json").write_text(str(os.urandom(8)))
    (folder / "dataset" / "train.jsonl").write_text('{"text": "a"}\n')
    return Sft(
        model=str(folder / "model"), dataset=str(folder / "dataset"), output_dir=str(folder / "output")
    )


def test_a_training_starts_and_then_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    settings = fetch(tmp_path)
    assert checkpoints.resumable(settings, 2) is None
    newest = checkpoint(tmp_path / "output", 20)
    assert checkpoints.resumable(settings, 2) == newest


def test_the_same_training_goes_on_from_other_folders_that_were_filled_anew(tmp_path: Path) -> None:
    settings = fetch(tmp_path)
    checkpoints.resumable(settings, 2)
    newest = checkpoint(tmp_path / "output", 20)
    again = fetch(tmp_path / "again")
    assert checkpoints.resumable(dataclasses.replace(again, output_dir=settings.output_dir), 2) == newest


def test_what_changes_no_weight_may_differ(tmp_path: Path) -> None:
    settings = fetch(tmp_path)
    checkpoints.resumable(settings, 2)
    newest = checkpoint(tmp_path / "output", 20)
    (tmp_path / "dataset" / "__pycache__").mkdir()
    (tmp_path / "dataset" / "__pycache__" / "rewards.pyc").write_text("compiled")
    again = dataclasses.replace(settings, save_steps=7, logging_steps=1, gradient_checkpointing=False)
    assert checkpoints.resumable(again, 2) == newest


@pytest.mark.parametrize("output", [".", "dataset/output"], ids=["around them", "in one of them"])
def test_a_training_goes_on_whose_output_is_near_its_files(tmp_path: Path, output: str) -> None:
    settings = dataclasses.replace(fetch(tmp_path), output_dir=str(tmp_path / output))
    checkpoints.resumable(settings, 2)
    newest = checkpoint(tmp_path / output, 20)
    assert checkpoints.resumable(settings, 2) == newest
    with pytest.raises(InvalidArgument, match="another training: other dataset"):
        checkpoints.resumable(other_dataset(settings), 2)


def other_model(settings: Settings) -> Settings:
    config = Path(settings.model) / "config.json"
    config.write_text(config.read_text() + " ")
    return settings


def other_dataset(settings: Settings) -> Settings:
    (Path(settings.dataset) / "train.jsonl").write_text('{"text": "b"}\n')
    return settings


def other_settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, lora_r=8, use_peft=True)


def other_method(settings: Settings) -> Settings:
    return Dpo(
        model=settings.model,
        dataset=settings.dataset,
        output_dir=settings.output_dir,
        learning_rate=settings.learning_rate,
    )


def unknown(settings: Settings) -> Settings:
    (Path(settings.output_dir) / "training.json").unlink()
    return settings


def cut_off(settings: Settings) -> Settings:
    (Path(settings.output_dir) / "training.json").write_text("{")
    return settings


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (other_model, "other model"),
        (other_dataset, "other dataset"),
        (other_settings, "other lora_r, use_peft"),
        (other_method, "other assistant_only_loss, beta, label_smoothing, method, packing"),
        (unknown, "training.json is missing"),
        (cut_off, "training.json is missing"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_checkpoints_of_another_training_are_refused(
    tmp_path: Path, other: Callable[[Settings], Settings], says: str
) -> None:
    settings = fetch(tmp_path)
    checkpoints.resumable(settings, 2)
    checkpoint(tmp_path / "output", 20)
    with pytest.raises(InvalidArgument) as refused:
        checkpoints.resumable(other(settings), 2)
    assert str(refused.value) == (
        f"InvalidArgument: output_dir={tmp_path}/output: it holds checkpoints of another training: {says}. "
        "Name another folder, or remove its checkpoint-* to start anew"
    )


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    settings = fetch(tmp_path)
    checkpoints.resumable(settings, 2)
    checkpoint(tmp_path / "output", 500)
    with pytest.raises(InvalidArgument) as refused:
        checkpoints.resumable(settings, 4)
    assert str(refused.value) == (
        f"InvalidArgument: output_dir={tmp_path}/output: it holds checkpoints of a training with 2 "
        "processes, and this one has 4: it goes on with as many nodes and GPUs as it had. "
        "Name another folder, or remove its checkpoint-* to start anew"
    )


def test_a_training_whose_file_says_no_number_of_processes_goes_on_and_notes_it(tmp_path: Path) -> None:
    settings = fetch(tmp_path)
    checkpoints.resumable(settings, 2)
    newest = checkpoint(tmp_path / "output", 20)
    file = tmp_path / "output" / "training.json"
    training = json.loads(file.read_text())
    file.write_text(json.dumps({name: training[name] for name in training if name != "processes"}))
    assert checkpoints.resumable(settings, 4) == newest
    assert json.loads(file.read_text()) == {**training, "processes": 4}


def test_another_training_starts_in_a_folder_without_a_whole_checkpoint(tmp_path: Path) -> None:
    settings = fetch(tmp_path)
    checkpoints.resumable(settings, 2)
    (checkpoint(tmp_path / "output", 20) / "trainer_state.json").unlink()
    assert checkpoints.resumable(other_settings(settings), 2) is None
    assert json.loads((tmp_path / "output" / "training.json").read_text())["lora_r"] == 8


def test_of_a_large_folder_bytes_throughout_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_BLOCK", 16)
    monkeypatch.setattr(checkpoints, "_BLOCKS", 4)
    settings = fetch(tmp_path)
    file = tmp_path / "model" / "model.safetensors"
    file.write_bytes(bytes(10_000))
    checkpoints.resumable(settings, 2)
    checkpoint(tmp_path / "output", 20)
    file.write_bytes(bytes(2_000) + b"1" * 6_000 + bytes(2_000))
    with pytest.raises(InvalidArgument, match="another training: other model"):
        checkpoints.resumable(settings, 2)
