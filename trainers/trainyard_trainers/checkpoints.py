"""The last checkpoint that is whole, for a pod may be killed while it writes one, and of this training."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import weights
from .failures import InvalidArgument, InvalidModel
from .settings import Settings

_log = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-(\d{1,12})")
TRAINING = "training.json"
"""The file beside checkpoints that says what they are of."""
_FREE = frozenset(
    (
        *("model", "dataset"),  # what is in these folders counts, not where they are
        *("output_dir", "logging_steps", "save_steps", "save_total_limit"),
        *("merge_adapter", "gradient_checkpointing"),
    )
)
"""Settings that may differ when a training goes on."""
_PROCESSES = "processes"
_BLOCK, _BLOCKS = 2**20, 1024
"""Of a folder with more bytes than these, as many are read, evenly spread over its files."""


def resumable(settings: Settings, processes: int) -> Path | None:
    """The newest whole checkpoint of this training in its output folder; None: it starts, which is noted.

    Args:
        settings: What to train, and how.
        processes: How many train: a step of more of them has more examples, and an epoch fewer steps.

    Raises:
        InvalidArgument: The folder holds checkpoints of another training.
    """
    folder = Path(settings.output_dir)
    training = {**_training(settings), _PROCESSES: processes}
    checkpoint = last(folder)
    if checkpoint is None:
        _note(folder, training)
        return None
    noted = _noted(folder)
    # Files of earlier versions say nothing of processes.
    known = {_PROCESSES: processes, **noted}
    differing = sorted(name for name in {*known, *training} if known.get(name) != training.get(name))
    if not differing:
        _note(folder, training)
        return checkpoint
    of = f"another training: other {', '.join(differing)}"
    if not noted:
        of = f"another training: {TRAINING} is missing"
    elif differing == [_PROCESSES]:
        of = (
            f"a training with {known[_PROCESSES]} processes, and this one has {processes}: "
            "it goes on with as many nodes and GPUs as it had"
        )
    raise InvalidArgument(
        f"output_dir={folder}: it holds checkpoints of {of}. "
        "Name another folder, or remove its checkpoint-* to start anew"
    )


def _training(settings: Settings) -> Mapping[str, Any]:
    """What tells a training from others, whenever and from wherever its files were fetched."""
    names = [field.name for field in dataclasses.fields(settings) if field.name not in _FREE]
    output = Path(settings.output_dir).resolve()
    training = {
        "method": settings.method,
        "model": _digest(Path(settings.model), output),
        "dataset": _digest(Path(settings.dataset), output),
        **{name: getattr(settings, name) for name in names},
    }
    # As it is when it is read again.
    return json.loads(json.dumps(training))  # type: ignore[no-any-return]


def _digest(folder: Path, output: Path) -> str:
    """Of names, sizes and bytes of the files in a folder, less hidden and compiled ones and the output."""
    root = folder.resolve()
    files = {
        path.relative_to(root): path.stat().st_size
        for path in sorted(root.rglob("*"))
        if path.is_file() and not (root in output.parents and output in path.parents)
    }
    files = {
        name: size
        for name, size in files.items()
        if not any(part.startswith(".") or part == "__pycache__" for part in name.parts)
    }
    digest = hashlib.sha256(json.dumps([[str(name), size] for name, size in files.items()]).encode())
    step = max(_BLOCK, sum(files.values()) // _BLOCKS)
    for name, size in files.items():
        with (root / name).open("rb") as file:
            for start in range(0, size, step):
                file.seek(start)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def _noted(folder: Path) -> Mapping[str, Any]:
    """What the checkpoints of a folder are of; empty if that is not known."""
    try:
        training = json.loads((folder / TRAINING).read_text())
    except (OSError, ValueError):
        return {}
    return training if isinstance(training, dict) else {}


def _note(folder: Path, training: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{TRAINING}"
    part.write_text(json.dumps(training, indent=2) + "\n")
    os.replace(part, folder / TRAINING)


def last(folder: Path) -> Path | None:
    """The newest whole checkpoint below a folder; None if there is none.

    Args:
        folder: Where transformers writes `checkpoint-<step>`.
    """
    for path in _newest_first(folder):
        if problem := _problem(path):
            _log.warning("%s is left aside: %s", path, problem)
        else:
            return path
    return None


def is_finished(path: Path) -> bool:
    """Whether a whole checkpoint is that of the last step."""
    state = _state(path)
    last_step = state.get("max_steps")
    return isinstance(last_step, int) and 0 < last_step <= state["global_step"]


def _newest_first(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    steps = {path: match for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))}
    yield from sorted(steps, key=lambda path: -int(steps[path][1]))


def _problem(path: Path) -> str:
    """Why a checkpoint can't be resumed from; empty if it can."""
    checks: tuple[Callable[[Path], object], ...] = (_state, _weights, _archives)
    for check in checks:
        try:
            check(path)
        except (OSError, ValueError, InvalidModel) as error:
            return str(error)
    return ""


def _state(path: Path) -> Mapping[str, Any]:
    # It is written last.
    state = json.loads((path / "trainer_state.json").read_text())
    if not isinstance(state, dict) or not isinstance(state.get("global_step"), int):
        raise ValueError("trainer_state.json is cut off")
    return state


def _weights(path: Path) -> None:
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ValueError("it has no weights")
    for file in files:
        weights.of_file(file)


def _archives(path: Path) -> None:
    # Without one of the first two, transformers takes neither. Each process writes its random numbers,
    # and a training in float16 how it scales its loss.
    others = sorted((*path.glob("rng_state*.pth"), *path.glob("scaler.pt")))
    for file in (path / "optimizer.pt", path / "scheduler.pt", *others):
        # The directory of such an archive is at its end.
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{file.name} is cut off")
