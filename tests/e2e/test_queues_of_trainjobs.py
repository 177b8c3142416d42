"""Where the queues hold TrainJobs: Kueue's own integration of them, with the official controller's words."""

from collections.abc import Iterator

import pytest
import yaml

from tests.support.cluster import Cluster, emptied, shows
from trainyard_sandbox.paths import PROJECT

from .queues import (
    gives_way_and_goes_on,
    moves_to_another_flavor,
    queued,
    two_flavors,
    waits_until_it_is_resumed,
)

pytestmark = pytest.mark.sandbox(area="queues")


@pytest.fixture(scope="module")
def holding_trainjobs(platform: Cluster) -> Iterator[Cluster]:
    """The platform with Kueue's integration of TrainJobs; afterwards as it was."""
    document = yaml.safe_load((PROJECT / "stacks" / "Pulumi.sandbox.yaml").read_text())
    document["config"]["trainyard:platform"]["kueue"]["integrations"] = ["trainer.kubeflow.org/trainjob"]
    stack = platform.sandbox.instance.dir / "holding-trainjobs.yaml"
    stack.write_text(yaml.safe_dump(document))
    up = ("up", "--stack", "sandbox", "--yes", "--skip-preview")
    platform.pulumi(*up, "--config-file", str(stack))
    yield platform
    platform.pulumi(*up)


@pytest.fixture
def team_a(holding_trainjobs: Cluster) -> Iterator[Cluster]:
    yield from emptied(holding_trainjobs.within("team-a"))


@pytest.fixture
def team_b(holding_trainjobs: Cluster) -> Iterator[Cluster]:
    yield from emptied(holding_trainjobs.within("team-b"))


def test_a_job_that_is_sent_suspended_waits_until_it_is_resumed(team_a: Cluster) -> None:
    waits_until_it_is_resumed(team_a, gate_on="trainjob")


def test_a_job_that_waits_is_suspended_by_kueue(team_a: Cluster) -> None:
    team_a.apply(queued("too-big", "64"))
    team_a.wait_for_condition("too-big", "Suspended")
    shows(team_a, "too-big", STATE="Queued", NODES="0/1", REASON="Suspended", QUEUE="default")


def test_a_high_priority_takes_the_quota_of_a_low_one_which_goes_on_after_it(
    team_a: Cluster, team_b: Cluster
) -> None:
    gives_way_and_goes_on(team_a, team_b, taker="TrainJob")


def test_a_job_that_moves_to_another_flavor_carries_nothing_of_the_first(holding_trainjobs: Cluster) -> None:
    with two_flavors(holding_trainjobs) as mover:
        moves_to_another_flavor(mover)
