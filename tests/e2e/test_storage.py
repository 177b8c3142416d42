"""A claim of the catalog is made of the StorageClass that the stack has for its role."""

import pytest

from tests.support.cluster import Cluster, trainjob

pytestmark = pytest.mark.sandbox(area="runtimes")


@pytest.mark.core
def test_a_shared_claim_is_of_the_platforms_class(platform: Cluster) -> None:
    platform.apply(trainjob("stores", "echo kept > /checkpoints/here", runtime="torch-checkpointed"))
    platform.wait_for_condition("stores", "Complete")
    claim = platform.get("pvc", "checkpoints-stores")
    assert claim is not None
    assert claim["spec"]["storageClassName"] == "trainyard-shared"
    assert claim["status"]["phase"] == "Bound"
