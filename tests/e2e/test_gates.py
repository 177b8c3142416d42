"""A gate that fails closed: without the operator TrainJobs are refused, and nobody is locked out."""

import pytest
import yaml

from tests.support.cluster import Cluster, scaled_down, trainjob
from tests.support.patience import STARTED

pytestmark = pytest.mark.sandbox(area="policies")

TENANT = "gone"


def test_with_nobody_to_ask_jobs_are_refused_and_what_is_to_go_goes(platform: Cluster) -> None:
    place = platform.within(TENANT)
    platform.kubectl("create", "namespace", TENANT)
    place.apply(trainjob("one", suspend=True), trainjob("other", suspend=True))
    with scaled_down(platform, "trainyard-system", "trainyard-operator"):
        create = ("kubectl", "--namespace", TENANT, "create", "-f", "-")
        refused = place.run(*create, check=False, stdin=yaml.safe_dump(trainjob("new")))
        assert "failed calling webhook" in refused.stderr
        # In the foreground, the garbage collector has a finalizer to take away before a job is gone.
        place.kubectl("delete", "trainjob", "one", "--cascade=foreground", f"--timeout={STARTED}")
        place.kubectl("annotate", "namespace", TENANT, "in=vain")
        platform.kubectl("delete", "namespace", TENANT, f"--timeout={STARTED}")
        for namespace in ("kube-system", "default"):
            pod = ("run", "probe", "--image=docker.io/library/busybox:latest", "--dry-run=server")
            platform.within(namespace).kubectl(*pod)
    # And up again: the operator's own pods are nobody's to refuse.
