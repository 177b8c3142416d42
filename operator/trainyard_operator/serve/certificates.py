"""The webhook's certificates: an authority of our own and what it signs. Values in, values out.

Called by `certificate_keeper`, which keeps them in a Secret. Times are
arguments. Nothing here is logged or written anywhere.

A new authority is signed by the one before it too, and that cross-signed
certificate is served after the serving one. So a client that trusts only the old authority still accepts
certificates of the new one, and nothing has to happen in a
certain order, or on all replicas at once, when the authority changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from trainyard_api import certificates
from trainyard_api.names import OPERATOR

COMMON_NAME: Final = OPERATOR
AUTHORITY_NAME: Final = f"{OPERATOR}-ca"
LIFETIME: Final = timedelta(days=90)
"""Of the serving certificate."""
RENEW_BEFORE: Final = timedelta(days=30)
AUTHORITY_LIFETIME: Final = timedelta(days=3 * 365)
RENEW_AUTHORITY_BEFORE: Final = timedelta(days=365)
SKEW: Final = timedelta(hours=1)
"""How far an API server's clock may be behind ours."""


@dataclass(frozen=True, slots=True)
class Issued:
    """Everything that the replicas share; all of it PEM."""

    authorities: bytes
    """Whom to trust: the present authority, then those before it that have not expired."""
    authority_key: bytes
    certificate: bytes
    """What is served: the serving certificate, then the cross-signed authority if there is one."""
    key: bytes

    def __repr__(self) -> str:
        return "Issued(...)"  # a traceback must not log a key


class UnusableError(ValueError):
    """What was stored is not a set of certificates that belong together."""


def issue(names: Sequence[str], now: datetime) -> Issued:
    """A new authority, and a serving certificate of these DNS names and addresses."""
    key, authority = _authority(now)
    return _serving(key, [authority], (), names, now)


def renewed(issued: Issued, names: Iterable[str], now: datetime) -> Issued | None:
    """What replaces `issued`; None while it is valid for these names and for some time.

    Names that it has but that are not asked for are kept: replicas that know
    different names would otherwise renew it in turn forever.

    Raises `UnusableError` for what cannot be renewed.
    """
    try:
        return _renewed(issued, names, now)
    except (ValueError, IndexError, TypeError, x509.ExtensionNotFound) as error:
        # Their messages may quote what they could not read.
        raise UnusableError(f"the certificates cannot be read ({type(error).__name__})") from None


def signed_again(issued: Issued, names: Sequence[str], now: datetime) -> Issued:
    """A new serving certificate of the authority in `issued`, whose serving certificate is unusable.

    A cross-signed authority after the old serving certificate is kept if it
    can be read. Raises `UnusableError` if the authority is unusable too.
    """
    try:
        key, authorities = _authorities(issued, now)
    except (ValueError, IndexError, TypeError) as error:
        raise UnusableError(f"the authority cannot be used ({type(error).__name__})") from None
    crosses = _crosses(issued.certificate, authorities[0], now)
    return _serving(key, _alive(authorities, now), crosses, names, now)


def _authorities(
    issued: Issued, now: datetime
) -> tuple[ec.EllipticCurvePrivateKey, Sequence[x509.Certificate]]:
    """The key of the present authority, and all authorities. Raises several errors if it is unusable."""
    authorities = x509.load_pem_x509_certificates(issued.authorities)
    key = certificates.key_of(issued.authority_key)
    if key.public_key() != authorities[0].public_key():
        raise ValueError("the authority's key does not match")
    if not authorities[0].not_valid_before_utc <= now < authorities[0].not_valid_after_utc:
        raise ValueError("the authority is not valid now")
    return key, authorities


def _alive(chain: Sequence[x509.Certificate], now: datetime) -> Sequence[x509.Certificate]:
    return [certificate for certificate in chain if certificate.not_valid_after_utc > now]


def _crosses(chain: bytes, authority: x509.Certificate, now: datetime) -> list[x509.Certificate]:
    """The authority as others have signed it, wherever it is in what is left of a chain."""
    end = b"-----END CERTIFICATE-----\n"
    crosses = []
    for part in chain.split(end):
        try:
            certificate = x509.load_pem_x509_certificate(part + end)
        except ValueError:
            continue
        if certificate.subject == authority.subject and certificate.not_valid_after_utc > now:
            crosses.append(certificate)
    return crosses


def good_until(chain: bytes) -> datetime:
    """When the first certificate of a PEM chain expires. Raises `UnusableError`."""
    try:
        return x509.load_pem_x509_certificates(chain)[0].not_valid_after_utc
    except (ValueError, IndexError) as error:
        raise UnusableError(f"the certificate cannot be read ({type(error).__name__})") from None


def _renewed(issued: Issued, names: Iterable[str], now: datetime) -> Issued | None:
    authority_key, authorities = _authorities(issued, now)
    chain = x509.load_pem_x509_certificates(issued.certificate)
    if certificates.key_of(issued.key).public_key() != chain[0].public_key():
        raise ValueError("the serving key does not match")
    served = _names(chain[0])
    all_names = sorted({*names, *served})
    if authorities[0].not_valid_after_utc - now < RENEW_AUTHORITY_BEFORE:
        key, authority = _authority(now)
        valid = (now - SKEW, authorities[0].not_valid_after_utc)
        crossed = certificates.authority(
            authority.subject, key.public_key(), authorities[0].subject, authority_key, valid
        )
        return _serving(key, [authority, *authorities], (crossed,), all_names, now)
    alive, crosses = _alive(authorities, now), _alive(chain[1:], now)
    current = (
        chain[0].not_valid_after_utc - now > RENEW_BEFORE
        and chain[0].not_valid_before_utc <= now
        and set(all_names) == set(served)
        and chain[0].issuer == authorities[0].subject
        and [*alive, *crosses] == [*authorities, *chain[1:]]
    )
    return None if current else _serving(authority_key, alive, crosses, all_names, now)


def _serving(
    authority_key: ec.EllipticCurvePrivateKey,
    authorities: Sequence[x509.Certificate],
    cross: Sequence[x509.Certificate],
    names: Sequence[str],
    now: datetime,
) -> Issued:
    key = certificates.new_key()
    certificate = certificates.leaf(
        certificates.subject(COMMON_NAME),
        key.public_key(),
        authorities[0].subject,
        authority_key,
        (now - SKEW, now + LIFETIME),
        usages=[certificates.SERVER],
        hosts=names,
    )
    return Issued(
        authorities=certificates.pem(authorities),
        authority_key=certificates.key_pem(authority_key),
        certificate=certificates.pem([certificate, *cross]),
        key=certificates.key_pem(key),
    )


def _authority(now: datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = certificates.new_key()
    # Each authority has a name of its own: a verifier looks issuers up by name.
    subject = certificates.subject(f"{AUTHORITY_NAME}-{now:%Y%m%d}-{x509.random_serial_number() % 16**8:08x}")
    valid = (now - SKEW, now + AUTHORITY_LIFETIME)
    return key, certificates.authority(subject, key.public_key(), subject, key, valid)


def _names(certificate: x509.Certificate) -> list[str]:
    alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *alternative_names.get_values_for_type(x509.DNSName),
        *(str(address) for address in alternative_names.get_values_for_type(x509.IPAddress)),
    ]
