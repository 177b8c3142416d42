"""The webhook's certificates: who trusts them, for how long, and what happens when they are replaced."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from trainyard_operator.kube.credentials import as_file
from trainyard_operator.serve import certificates
from trainyard_operator.serve.certificates import (
    AUTHORITY_LIFETIME,
    LIFETIME,
    RENEW_AUTHORITY_BEFORE,
    RENEW_BEFORE,
    Issued,
    UnusableError,
)

NAME = "trainyard-operator.trainyard-system.svc"
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def trusts(authorities: bytes, issued: Issued, name: str = NAME) -> bool:
    """Whether OpenSSL, trusting these authorities alone, completes a handshake with the server."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with as_file(issued.certificate) as chain, as_file(issued.key) as key:
        server.load_cert_chain(chain, key)
    client = ssl.create_default_context(cadata=authorities.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return not ends


def parsed(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def test_it_is_trusted_under_its_names_alone() -> None:
    issued = certificates.issue([NAME, "127.0.0.1"], NOW)
    assert trusts(issued.authorities, issued)
    assert trusts(issued.authorities, issued, "127.0.0.1")
    assert not trusts(issued.authorities, issued, "other.trainyard-system.svc")
    assert not trusts(certificates.issue([NAME], NOW).authorities, issued)


def test_a_namespace_may_have_the_longest_name() -> None:
    name = f"trainyard-operator.{'n' * 63}.svc"
    issued = certificates.issue([name], NOW)
    assert trusts(issued.authorities, issued, name)


def test_a_good_one_stays() -> None:
    issued = certificates.issue([NAME], NOW)
    for age in (timedelta(), DAY, LIFETIME - RENEW_BEFORE - DAY):
        assert certificates.renewed(issued, [NAME], NOW + age) is None


def test_the_serving_certificate_is_renewed_in_time_by_the_same_authority() -> None:
    issued = certificates.issue([NAME], NOW - (LIFETIME - RENEW_BEFORE))
    fresh = certificates.renewed(issued, [NAME], NOW)
    assert fresh is not None
    assert fresh.authorities == issued.authorities
    assert fresh.key != issued.key
    assert certificates.good_until(fresh.certificate) == NOW + LIFETIME
    assert trusts(issued.authorities, fresh)


def test_one_that_has_run_out_is_renewed_too() -> None:
    issued = certificates.issue([NAME], NOW - LIFETIME - DAY)
    assert not trusts(issued.authorities, issued)
    fresh = certificates.renewed(issued, [NAME], NOW)
    assert fresh is not None
    assert trusts(issued.authorities, fresh)


def test_a_new_authority_is_trusted_by_those_who_know_only_the_old_and_the_other_way_round() -> None:
    old = certificates.issue([NAME], NOW - (AUTHORITY_LIFETIME - RENEW_AUTHORITY_BEFORE) - DAY)
    old = certificates.renewed(old, [NAME], NOW - 2 * DAY) or old
    new = certificates.renewed(old, [NAME], NOW)
    assert new is not None
    assert len(parsed(new.authorities)) == 2
    assert new.authority_key != old.authority_key
    (newest, *_) = parsed(new.authorities)
    only_new = newest.public_bytes(certificates.serialization.Encoding.PEM)
    assert trusts(old.authorities, new), "a caBundle that is not written yet"
    assert trusts(only_new, new), "a caBundle from which the old one has gone"
    assert trusts(new.authorities, old), "a replica that has not read the Secret yet"
    assert certificates.renewed(new, [NAME], NOW) is None, "one rotation, not one a look"


def test_over_ten_years_every_look_finds_something_that_is_trusted() -> None:
    """One look a fortnight, each verified by the dates in the certificates."""
    at = NOW
    issued = certificates.issue([NAME], at)
    authorities = {issued.authorities}
    while at < NOW + 3650 * DAY:
        at += 14 * DAY
        before = {one.subject for one in parsed(issued.authorities) if one.not_valid_after_utc > at}
        issued = certificates.renewed(issued, [NAME], at) or issued
        authorities.add(issued.authorities)
        serving, *cross = parsed(issued.certificate)
        assert serving.not_valid_after_utc - at > 2 * 7 * DAY
        assert {one.subject for one in parsed(issued.authorities)} >= before
        assert all(one.not_valid_after_utc > at for one in [*parsed(issued.authorities), *cross])
    assert len(authorities) >= 4, "authorities came and went"


def test_names_are_added_and_never_taken_turns_with() -> None:
    issued = certificates.issue([NAME], NOW)
    both = certificates.renewed(issued, [NAME, "127.0.0.1"], NOW)
    assert both is not None
    assert both.authorities == issued.authorities
    assert trusts(issued.authorities, both, "127.0.0.1")
    assert certificates.renewed(both, [NAME], NOW) is None
    assert certificates.renewed(both, ["127.0.0.1"], NOW) is None


@pytest.mark.parametrize(
    "broken",
    [
        {"authorities": b""},
        {"authorities": b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"},
        {"certificate": b"nothing"},
        {"key": b"nothing"},
        {"authority_key": b""},
        {"key": certificates.issue([NAME], NOW).key},
        {"authority_key": certificates.issue([NAME], NOW).authority_key},
    ],
)
def test_what_does_not_belong_together_is_unusable_and_not_quoted(broken: dict[str, bytes]) -> None:
    with pytest.raises(UnusableError) as caught:
        certificates.renewed(replace(certificates.issue([NAME], NOW), **broken), [NAME], NOW)
    assert "BEGIN" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_authority_that_has_run_out_is_unusable() -> None:
    issued = certificates.issue([NAME], NOW - AUTHORITY_LIFETIME - DAY)
    with pytest.raises(UnusableError):
        certificates.renewed(issued, [NAME], NOW)


def test_keys_do_not_show_in_a_traceback() -> None:
    assert repr(certificates.issue([NAME], NOW)) == "Issued(...)"


def test_what_is_no_certificate_has_no_end() -> None:
    with pytest.raises(UnusableError):
        certificates.good_until(b"")
