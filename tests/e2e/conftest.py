"""One sandbox and one platform for all end-to-end tests of a process; each test names its own objects.

With `--together` it is one for all processes, in which tests take turns
(`tests/support/together.py`).
"""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, down, emptied, up
from tests.support.together import shared, turn
from trainyard_sandbox.paths import PROJECT

HERE = Path(__file__).parent
TENANTS = {"team_a", "team_b"}
"""Fixtures whose namespaces and quota a test has for itself."""


def of_the_run(config: pytest.Config) -> Path | None:
    """The folder by which the processes of a run agree; None if each has a sandbox of its own."""
    worker = getattr(config, "workerinput", None)
    if worker is None or not config.getoption("together"):
        return None
    return PROJECT / ".reports" / "together" / str(worker["testrunuid"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs no cluster is elsewhere: `make check` does not look here."""
    for item in items:
        needs_one = any(item.get_closest_marker(name) for name in ("sandbox", "soak"))
        assert needs_one or not item.path.is_relative_to(HERE), f"{item.nodeid} needs no cluster"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Function) -> Generator[None, object, object]:
    """A test of this folder, its set-up and its tear-down, when it is its turn."""
    folder = of_the_run(item.config)
    if folder is None or not item.path.is_relative_to(HERE):  # pytest asks about all tests
        return (yield)
    held = {name for mark in item.iter_markers("holds") for name in mark.args}
    if TENANTS & {*item.fixturenames}:
        held.add("tenants")
    with turn(folder, held):
        return (yield)


@pytest.fixture(scope="session")
def bare(request: pytest.FixtureRequest, worker_id: str) -> Iterator[Cluster]:
    """A sandbox with nothing installed, named after the process that runs the tests: `test-gw0`."""
    folder = of_the_run(request.config)
    cluster = Cluster("test" if folder else f"test-{worker_id}")
    if folder is None:
        try:
            up(cluster.name)
            yield cluster
        finally:
            down(cluster.name)
        return
    with shared(folder, "sandbox", lambda: up(cluster.name), lambda: down(cluster.name)):
        yield cluster


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest, bare: Cluster) -> Iterator[Cluster]:
    """The sandbox with the platform that `pulumi up` makes of stacks/Pulumi.sandbox.yaml."""

    def roll_out() -> None:
        bare.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")

    folder = of_the_run(request.config)
    if folder is None:
        roll_out()
        yield bare
        return
    with shared(folder, "platform-rolled-out", roll_out, lambda: None):
        yield bare


@pytest.fixture
def team_a(platform: Cluster) -> Iterator[Cluster]:
    """A tenant's namespace, with a share of the quota."""
    yield from emptied(platform.within("team-a"))


@pytest.fixture
def team_b(platform: Cluster) -> Iterator[Cluster]:
    """Another one, of the same cohort."""
    yield from emptied(platform.within("team-b"))
