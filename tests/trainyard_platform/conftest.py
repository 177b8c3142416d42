"""The registered resources of the stacks, once for all tests."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.support import program
from tests.support.program import Registered
from trainyard_platform import artifacts
from trainyard_platform.artifacts import ArtifactPin


@pytest.fixture
def pins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`artifacts.yaml` replaced by pins of small files."""
    small = TypeAdapter(dict[str, ArtifactPin]).validate_python(program.pinned())
    monkeypatch.setattr(artifacts, "pins", lambda: small)


@pytest.fixture(scope="session")
def artifacts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small stand-ins for upstream's files."""
    return program.artifacts_folder(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="session")
def graph_of(artifacts_folder: Path) -> Callable[[str], dict[str, Registered]]:
    """What the program registers for a stack file, by type and name."""
    small = TypeAdapter(dict[str, ArtifactPin]).validate_python(program.pinned())

    @functools.cache
    def graph(name: str) -> dict[str, Registered]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(artifacts, "pins", lambda: small)
            registered = program.run(program.stack(name, artifacts_folder))
        return {one.key: one for one in registered}

    return graph


@pytest.fixture
def graph(graph_of: Callable[[str], dict[str, Registered]]) -> dict[str, Registered]:
    """What the program registers for stacks/Pulumi.sandbox.yaml."""
    return graph_of("sandbox")


@pytest.fixture
def catalog_folder(tmp_path: Path) -> Path:
    """A copy of the real catalog, to break."""
    for source in sorted((program.ROOT / "runtimes").glob("*/*.yaml")):
        target = tmp_path / "runtimes" / source.parent.name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    return tmp_path / "runtimes"
