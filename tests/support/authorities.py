"""Authorities of clusters as others make them, and not as `trainyard_api.certificates` does."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from trainyard_api.certificates import key_pem, new_key, pem, subject

NAME = "kubernetes"


def without_key_identifiers(folder: Path, issuer: str = NAME) -> tuple[bytes, ssl.SSLContext]:
    """An authority as older EKS clusters have it, and the context of a server at 127.0.0.1.

    It is issued by itself, or by another authority, which the server does not send.
    """
    key, server_key = new_key(), new_key()
    issuer_key = key if issuer == NAME else new_key()
    authority = _signed(NAME, key, issuer, issuer_key, x509.BasicConstraints(ca=True, path_length=None))
    host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    server = _signed("kube-apiserver", server_key, NAME, key, host)
    (folder / "server.pem").write_bytes(pem([server]) + key_pem(server_key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return pem([authority]), context


def contexts_of_python_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are as strict as later Pythons make them."""
    create = ssl.create_default_context

    def strict(*arguments: Any, **options: Any) -> ssl.SSLContext:
        context = create(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject(name))
        .issuer_name(subject(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .sign(issuer_key, hashes.SHA256())
    )
