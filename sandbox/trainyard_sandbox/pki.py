"""Certificates of one sandbox: real TLS everywhere, a client certificate for everyone.

Separate authorities, so that a client certificate for the API server does not
work for etcd. Files are made once and kept; keys are readable only by their owner.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trainyard_api import certificates

_LIFETIME = timedelta(days=3650)
"""Longer than anybody keeps a sandbox: nothing renews them."""
_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority kept in `folder` as `<name>.crt` and `<name>.key`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        if not self.pair.cert.exists():
            key, subject = certificates.new_key(), certificates.subject(name)
            cert = certificates.authority(subject, key.public_key(), subject, key, _valid(), path_length=0)
            _write(self.pair, key, cert)

    def issue(
        self, name: str, common_name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> KeyPair:
        """A certificate for `common_name`, made on first use.

        Args:
            name: The file's name, without the extension.
            common_name: The user that the API server sees.
            groups: The groups that the API server sees (organisations).
            hosts: DNS names and IP addresses to serve as; without any it is only for clients.
        """
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        if pair.cert.exists():
            return pair
        ca = x509.load_pem_x509_certificate(self.pair.cert.read_bytes())
        key = certificates.new_key()
        cert = certificates.leaf(
            certificates.subject(common_name, groups),
            key.public_key(),
            ca.subject,
            certificates.key_of(self.pair.key.read_bytes()),
            _valid(),
            usages=[certificates.CLIENT, *([certificates.SERVER] if hosts else [])],
            hosts=hosts,
        )
        _write(pair, key, cert)
        return pair

    def kubeconfig(
        self, path: Path, server: str, client: KeyPair, cluster: str, namespace: str = "default"
    ) -> Path:
        """Write a kubeconfig for `client` at `path`, with everything inside the file."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": server, "certificate-authority-data": _base64(self.pair.cert)},
                }
            ],
            "users": [
                {
                    "name": cluster,
                    "user": {
                        "client-certificate-data": _base64(client.cert),
                        "client-key-data": _base64(client.key),
                    },
                }
            ],
            "contexts": [
                {"name": cluster, "context": {"cluster": cluster, "user": cluster, "namespace": namespace}}
            ],
            "current-context": cluster,
        }
        write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
        return path


def signing_key(folder: Path, name: str) -> KeyPair:
    """An elliptic-curve signing key for service-account tokens: `<name>.pub` and `<name>.key`."""
    pair = KeyPair(folder / f"{name}.pub", folder / f"{name}.key")
    if not pair.key.exists():
        key = certificates.new_key()
        write_private(
            pair.cert,
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        )
        write_private(pair.key, certificates.key_pem(key))
    return pair


def end_of(cert: Path) -> datetime:
    """When a certificate ends."""
    return x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path`, whole or not at all, readable only by the owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def _valid() -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - _SKEW, now + _LIFETIME


def _write(pair: KeyPair, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> None:
    write_private(pair.key, certificates.key_pem(key))
    write_private(pair.cert, certificates.pem([cert]))


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
