"""Certificates of one sandbox: real TLS everywhere, a client certificate for everyone.

Separate authorities, so that a client certificate for the API server does not
work for etcd. Files are made once and kept; keys are readable only by their owner.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)


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
            key = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            cert = (
                _builder(subject, subject, key.public_key())
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(_ca_usage(), critical=True)
                .sign(key, hashes.SHA256())
            )
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
        ca_key = serialization.load_pem_private_key(self.pair.key.read_bytes(), password=None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self.pair.key}: not an elliptic-curve key")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(subject, ca.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_san(host) for host in hosts]), critical=False
            )
        _write(pair, key, builder.sign(ca_key, hashes.SHA256()))
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
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(
            pair.cert,
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        )
        write_private(pair.key, _pem(key))
    return pair


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path`, whole or not at all, readable only by the owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _san(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(pair: KeyPair, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> None:
    write_private(pair.key, _pem(key))
    write_private(pair.cert, cert.public_bytes(serialization.Encoding.PEM))


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
