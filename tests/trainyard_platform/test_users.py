"""Runtimes for a cluster that assigns users: groups are left to it, a fixed user is refused."""

import pytest

from tests.support.program import ROOT
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import users
from trainyard_platform.errors import PlatformError


def test_groups_are_left_to_the_cluster_and_nothing_else_changes() -> None:
    runtimes = [one for one in catalog.load(ROOT / "runtimes", {}) if "runAsUser" not in str(one.manifest)]
    assert len(runtimes) > 5
    adapted = users.left_to_the_cluster(runtimes)
    assert [one.name for one in adapted] == [one.name for one in runtimes]
    for before, after in zip(runtimes, adapted, strict=True):
        for job in before.manifest["spec"]["template"]["spec"]["replicatedJobs"]:
            context = job["template"]["spec"]["template"]["spec"].get("securityContext", {})
            context.pop("fsGroup", None)
        assert after.manifest == before.manifest, after.name


def test_a_runtime_that_needs_a_user_is_refused_with_its_name() -> None:
    with pytest.raises(PlatformError) as stopped:
        users.left_to_the_cluster(
            one for one in catalog.load(ROOT / "runtimes", {}) if one.name in ("mpi-distributed", "plain")
        )
    assert str(stopped.value) == (
        "runtimes that do not run on this cluster:\n"
        "  trainyard:platform.runtimes.mpi-distributed: it needs the user 1000, "
        "and cluster.distribution openshift assigns users: leave it out with `enabled: false`"
    )
