"""Keys and X.509 certificates, for the operator's own authority and for those of a sandbox.

The two share no other package, so this is here. Times are arguments, and
nothing is read, logged or written; only keys and serial numbers are random.
All keys are elliptic-curve keys (P-256).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """The key in a PEM text. Raises `ValueError` or `TypeError` if it is not an elliptic-curve key."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an elliptic-curve key")
    return key


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def pem(certificates: Sequence[x509.Certificate]) -> bytes:
    """Certificates as PEM, one after the other."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def subject(common_name: str, groups: Sequence[str] = ()) -> x509.Name:
    """A subject; the API server sees `common_name` as the user, and the organisations as its groups."""
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def authority(
    name: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    valid: tuple[datetime, datetime],
    *,
    path_length: int | None = None,
) -> x509.Certificate:
    """The certificate of an authority; signs itself if it is its own issuer.

    Args:
        name: The subject.
        public_key: Its key.
        issuer: The subject of the signer.
        issuer_key: The key of the signer.
        valid: Start and end of the validity.
        path_length: How many authorities may follow below it; None: any number.
    """
    builder = _builder(name, public_key, issuer, issuer_key, valid=valid, is_authority=True)
    constraints = x509.BasicConstraints(ca=True, path_length=path_length)
    return builder.add_extension(constraints, critical=True).sign(issuer_key, hashes.SHA256())


def leaf(
    name: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    valid: tuple[datetime, datetime],
    *,
    usages: Sequence[x509.ObjectIdentifier],
    hosts: Sequence[str] = (),
) -> x509.Certificate:
    """The certificate of a server, a client or both, which signs no other; see `authority`.

    Args:
        name: The subject.
        public_key: Its key.
        issuer: The subject of the signer.
        issuer_key: The key of the signer.
        valid: Start and end of the validity.
        usages: `SERVER`, `CLIENT` or both.
        hosts: DNS names and IP addresses of the server.
    """
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    builder = (
        _builder(name, public_key, issuer, issuer_key, valid=valid, is_authority=False)
        .add_extension(constraints, critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _builder(
    name: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    valid: tuple[datetime, datetime],
    is_authority: bool,
) -> x509.CertificateBuilder:
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(issuer_id, critical=False)
        .add_extension(_usage(is_authority=is_authority), critical=True)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
