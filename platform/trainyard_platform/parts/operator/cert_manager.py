"""The operator's certificate, if cert-manager creates it: an authority of its own, and what it signs.

cert-manager itself belongs to the cluster. It keeps the Secret fresh that the
operator's pods mount, and writes the caBundle of the webhooks
(`INJECT_FROM`), so that the operator needs no permission for either. Pure.
"""

from collections.abc import Mapping

from trainyard_api.json_types import Manifest

API_VERSION = "cert-manager.io/v1"
INJECT_FROM = "cert-manager.io/inject-ca-from"
"""Annotation of a webhook configuration: the Certificate whose authority is to be trusted."""
YEAR = 365 * 24


def certificate(name: str, namespace: str, labels: Mapping[str, str]) -> list[Manifest]:
    """Has a certificate created for the Service `name`, in the Secret `secret(name)`."""
    authority = f"{name}-ca"

    def manifest(kind: str, object_name: str, spec: Manifest) -> Manifest:
        metadata = {"name": object_name, "namespace": namespace, "labels": dict(labels)}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

    return [
        manifest("Issuer", f"{name}-selfsigned", {"selfSigned": {}}),
        manifest(
            "Certificate",
            authority,
            {
                "isCA": True,
                "commonName": authority,
                "secretName": authority,
                "duration": f"{3 * YEAR}h",
                "renewBefore": f"{YEAR}h",
                "privateKey": {"algorithm": "ECDSA", "size": 256},
                "issuerRef": {"kind": "Issuer", "name": f"{name}-selfsigned"},
            },
        ),
        manifest("Issuer", authority, {"ca": {"secretName": authority}}),
        manifest(
            "Certificate",
            name,
            {
                "secretName": secret(name),
                "dnsNames": [f"{name}.{namespace}.svc"],
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "issuerRef": {"kind": "Issuer", "name": authority},
            },
        ),
    ]


def secret(name: str) -> str:
    """The Secret with tls.crt, tls.key and ca.crt."""
    return f"{name}-certificate"
