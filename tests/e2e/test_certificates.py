"""The webhook's certificate is renewed before it runs out, and jobs are judged as before."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from tests.patience import eventually
from trainyard_api.names import WEBHOOK_CERTIFICATE
from trainyard_operator.serve import certificates

from .cluster import Cluster, trainjob
from .test_life import accepted

pytestmark = pytest.mark.sandbox(area="operator")


def kept(platform: Cluster) -> dict[str, bytes]:
    """What the Secret holds that all replicas share."""
    found = platform.within("trainyard-system").get("secret", WEBHOOK_CERTIFICATE)
    assert found is not None
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


def names_of(certificate: bytes) -> list[str]:
    """The DNS names that it is for."""
    first = x509.load_pem_x509_certificates(certificate)[0]
    alternative = first.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return alternative.value.get_values_for_type(x509.DNSName)


def trusted(platform: Cluster) -> set[bytes]:
    """Whom the API server trusts as it calls the webhooks of TrainJobs and runtimes."""
    found = platform.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org") or {}
    return {base64.b64decode(one["clientConfig"]["caBundle"]) for one in found["webhooks"]}


def due(platform: Cluster) -> certificates.Issued:
    """The certificate is one that is to be renewed, and the operator starts anew; returns the old one."""
    age = certificates.LIFETIME - certificates.RENEW_BEFORE + timedelta(days=1)
    old = certificates.issue(names_of(kept(platform)["tls.crt"]), datetime.now(UTC) - age)
    put = {
        "ca.crt": old.authorities,
        "ca.key": old.authority_key,
        "tls.crt": old.certificate,
        "tls.key": old.key,
    }
    patch = {"data": {key: base64.b64encode(value).decode() for key, value in put.items()}}
    place = (
        "patch",
        "secret",
        WEBHOOK_CERTIFICATE,
        "-n",
        "trainyard-system",
        "--type=merge",
        "--patch-file=/dev/stdin",
    )
    platform.kubectl(*place, stdin=json.dumps(patch))
    platform.kubectl("delete", "pods", "--all", "-n", "trainyard-system", "--wait=false")
    return old


def renewed_since(platform: Cluster, old: certificates.Issued) -> None:
    """Returns when there is another certificate."""
    eventually("it is another one", lambda: kept(platform)["tls.crt"] != old.certificate)


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
