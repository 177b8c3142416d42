"""The registered resources of the stacks, once for all tests."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import program

from .graphs import MINIMAL, Graph, small_pins


@pytest.fixture
def pins() -> Iterator[None]:
    """`artifacts.yaml` replaced by pins of small files."""
    with small_pins():
        yield


@pytest.fixture(scope="session")
def artifacts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small stand-ins for upstream's files."""
    return program.artifacts_folder(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="session")
def graph_of(artifacts_folder: Path) -> Callable[[str], Graph]:
    """What the program registers for a stack file, by type and name."""

    @functools.cache
    def graph(name: str) -> Graph:
        with small_pins():
            registered = program.run(program.stack(name, artifacts_folder))
        return {resource.key: resource for resource in registered}

    return graph


@pytest.fixture
def graph(graph_of: Callable[[str], Graph]) -> Graph:
    """What the program registers for stacks/Pulumi.sandbox.yaml."""
    return graph_of("sandbox")


@pytest.fixture(scope="session")
def minimal(artifacts_folder: Path) -> Graph:
    """What the program registers for `MINIMAL`."""
    source = {"source": "folder", "folder": str(artifacts_folder)}
    with small_pins():
        registered = program.run({**MINIMAL, "artifacts": source})
    return {resource.key: resource for resource in registered}


@pytest.fixture
def catalog_folder(tmp_path: Path) -> Path:
    """A copy of the real catalog, to break."""
    for source in sorted((program.ROOT / "runtimes").glob("*/*.yaml")):
        target = tmp_path / "runtimes" / source.parent.name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    return tmp_path / "runtimes"
