"""The operator's certificate in a cluster."""

import base64
import json
from datetime import UTC, datetime, timedelta

from cryptography import x509

from tests.support.cluster import Cluster
from tests.support.patience import eventually
from trainyard_api.names import WEBHOOK_CERTIFICATE
from trainyard_operator.serve import certificates


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
