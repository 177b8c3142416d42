"""One sandbox and one platform for all end-to-end tests of a process; each test names its own objects."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, down, emptied, up


@pytest.fixture(scope="session")
def bare(worker_id: str) -> Iterator[Cluster]:
    """A sandbox with nothing installed, named after the process that runs the tests: `test-gw0`."""
    cluster = Cluster(f"test-{worker_id}")
    try:
        up(cluster.name)
        yield cluster
    finally:
        down(cluster.name)


@pytest.fixture(scope="session")
def platform(bare: Cluster) -> Cluster:
    """The sandbox with the platform that `pulumi up` makes of stacks/Pulumi.sandbox.yaml."""
    bare.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")
    return bare


@pytest.fixture
def team_a(platform: Cluster) -> Iterator[Cluster]:
    """A tenant's namespace, with a share of the quota."""
    yield from emptied(platform.within("team-a"))


@pytest.fixture
def team_b(platform: Cluster) -> Iterator[Cluster]:
    """Another one, of the same cohort."""
    yield from emptied(platform.within("team-b"))
