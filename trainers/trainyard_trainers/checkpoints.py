"""The last checkpoint that is whole: a pod may be killed while it writes one."""

from __future__ import annotations

import json
import logging
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from . import weights
from .failures import InvalidModel

_log = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-(\d{1,12})")


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


def _newest_first(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    steps = {path: match for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))}
    yield from sorted(steps, key=lambda path: -int(steps[path][1]))


def _problem(path: Path) -> str:
    """Why a checkpoint can't be resumed from; empty if it can."""
    checks: tuple[Callable[[Path], object], ...] = (_state, _weights, _optimizer)
    for check in checks:
        try:
            check(path)
        except (OSError, ValueError, InvalidModel) as error:
            return str(error)
    return ""


def _state(path: Path) -> None:
    # It is written last.
    state = json.loads((path / "trainer_state.json").read_text())
    if not isinstance(state, dict) or not isinstance(state.get("global_step"), int):
        raise ValueError("trainer_state.json is cut off")


def _weights(path: Path) -> None:
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ValueError("it has no weights")
    for file in files:
        weights.of_file(file)


def _optimizer(path: Path) -> None:
    # The directory of this archive is at its end.
    if not zipfile.is_zipfile(path / "optimizer.pt"):
        raise ValueError("optimizer.pt is cut off")
