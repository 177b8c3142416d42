"""The webhook's certificate is renewed before it runs out, and jobs are judged as before."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster import Cluster, trainjob
from tests.support.patience import eventually
from trainyard_operator.serve import certificates

from .certificates import due, kept, renewed_since
from .life import accepted

pytestmark = pytest.mark.sandbox(area="operator")


def trusted(platform: Cluster) -> set[bytes]:
    """Whom the API server trusts as it calls the webhooks of TrainJobs and runtimes."""
    found = platform.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org") or {}
    return {base64.b64decode(one["clientConfig"]["caBundle"]) for one in found["webhooks"]}


@pytest.mark.holds("platform")
@pytest.mark.core
def test_a_certificate_that_is_due_is_renewed_as_the_operator_starts_and_jobs_are_judged_as_before(
    platform: Cluster,
) -> None:
    now = datetime.now(UTC)
    old = due(platform)
    renewed_since(platform, old)
    renewed = kept(platform)
    assert (renewed["ca.crt"], renewed["ca.key"]) == (old.authorities, old.authority_key)
    assert certificates.good_until(renewed["tls.crt"]) > now + certificates.LIFETIME - timedelta(hours=1)
    eventually("the API server trusts it", lambda: trusted(platform) == {old.authorities})
    eventually("jobs are let in", lambda: accepted(platform, trainjob("asks")))
    assert not accepted(platform, trainjob("asks", runtime="nowhere"))
