"""The last whole checkpoint, whatever a killed pod has left behind it."""

import zipfile
from pathlib import Path

import pytest

from trainyard_trainers import checkpoints

from .models import safetensors


def checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(safetensors({"a.weight": (4, 4)}))
    with zipfile.ZipFile(path / "optimizer.pt", "w") as archive:
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


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "optimizer.pt", "trainer_state.json"])
@pytest.mark.parametrize("left", ["nothing", "a part", "all but the end"])
def test_one_that_was_being_written_is_left_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, left: str
) -> None:
    checkpoint(tmp_path, 10)
    file = checkpoint(tmp_path, 20) / name
    content = file.read_bytes()
    if left == "nothing":
        file.unlink()
    else:
        file.write_bytes(content[: len(content) // 2 if left == "a part" else -1])
    assert checkpoints.last(tmp_path) == tmp_path / "checkpoint-10"
    assert f"{tmp_path}/checkpoint-20 is left aside: " in caplog.text
