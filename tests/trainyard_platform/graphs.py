"""What the program registers for a stack that says little."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support import program
from tests.support.program import Registered
from trainyard_platform import artifacts
from trainyard_platform.artifacts import ArtifactPin

Graph = dict[str, Registered]


MINIMAL = {"operator": {"image": "docker.io/trainyard/operator:1", "metricsAuthentication": False}}


def stack(folder: Any, settings: dict[str, Any]) -> Graph:
    source = {"source": "folder", "folder": str(program.artifacts_folder(folder / "artifacts"))}
    return {one.key: one for one in program.run({**settings, "artifacts": source})}


@contextmanager
def small_pins() -> Iterator[None]:
    """`artifacts.yaml` replaced by pins of small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "pins", _small)
        yield


@cache
def _small() -> dict[str, ArtifactPin]:
    return TypeAdapter(dict[str, ArtifactPin]).validate_python(program.pinned())
