"""The webhook's certificates: who trusts them, for how long, and what happens when they are replaced."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from trainyard_kube.credentials import as_file
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
    only_new = newest.public_bytes(serialization.Encoding.PEM)
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


@pytest.fixture(scope="module")
def rotated() -> Issued:
    """An authority that its predecessor, which has a year less a day to live, has cross-signed."""
    old = certificates.issue([NAME], NOW - (AUTHORITY_LIFETIME - RENEW_AUTHORITY_BEFORE) - DAY)
    new = certificates.renewed(old, [NAME], NOW)
    assert new is not None
    return new


OLD_ENDS = NOW + RENEW_AUTHORITY_BEFORE - DAY


def of_another_kind() -> dict[str, bytes]:
    """An authority, good by its dates, whose key is not on an elliptic curve as ours are."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - DAY, NOW + 1000 * DAY)
    return {
        "authorities": builder.sign(key, None).public_bytes(serialization.Encoding.PEM),
        "authority_key": key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }


def test_what_is_made_is_good_from_an_hour_ago_for_clocks_that_are_behind(rotated: Issued) -> None:
    serving, cross = parsed(rotated.certificate)
    authority, old = parsed(rotated.authorities)
    dates = [(one.not_valid_before_utc, one.not_valid_after_utc) for one in (serving, cross, authority)]
    begin = NOW - timedelta(hours=1)
    assert dates == [(begin, NOW + LIFETIME), (begin, OLD_ENDS), (begin, NOW + AUTHORITY_LIFETIME)]
    assert old.not_valid_after_utc == OLD_ENDS


def test_a_certificate_is_good_for_what_it_is_for_and_nothing_else(rotated: Issued) -> None:
    serving, cross = parsed(rotated.certificate)
    authority, _ = parsed(rotated.authorities)

    def said(certificate: x509.Certificate) -> tuple[bool, set[str], list[str]]:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
        assert constraints.critical
        assert usage.critical
        names = "digital_signature content_commitment key_encipherment data_encipherment key_agreement"
        names += " key_cert_sign crl_sign"
        extended = [
            purpose.dotted_string
            for one in certificate.extensions
            if isinstance(one.value, x509.ExtendedKeyUsage)
            for purpose in one.value
        ]
        return constraints.value.ca, {n for n in names.split() if getattr(usage.value, n)}, extended

    assert said(serving) == (False, {"digital_signature"}, ["1.3.6.1.5.5.7.3.1"])
    for one in (authority, cross):
        assert said(one) == (True, {"digital_signature", "key_cert_sign", "crl_sign"}, [])


def test_no_two_authorities_have_the_same_name_for_verifiers_look_them_up_by_it() -> None:
    names = {parsed(certificates.issue([NAME], NOW).authorities)[0].subject for _ in range(3)}
    assert len(names) == 3


def test_an_authority_and_a_cross_signed_one_are_kept_until_they_have_run_out(rotated: Issued) -> None:
    at = OLD_ENDS - timedelta(seconds=1)
    before = certificates.renewed(rotated, [NAME], at)
    assert before is not None
    assert before.authorities == rotated.authorities
    assert parsed(before.certificate)[1:] == parsed(rotated.certificate)[1:]
    assert certificates.renewed(before, [NAME], at) is None
    after = certificates.renewed(before, [NAME], OLD_ENDS)
    assert after is not None
    assert parsed(after.authorities) == parsed(rotated.authorities)[:1]
    assert len(parsed(after.certificate)) == 1
    assert after.authority_key == rotated.authority_key
    parsed(after.certificate)[0].verify_directly_issued_by(parsed(after.authorities)[0])


def test_an_authority_that_has_run_out_goes_even_if_no_certificate_is_due(rotated: Issued) -> None:
    without_cross = certificates.signed_again(replace(rotated, certificate=b""), [NAME], OLD_ENDS - DAY)
    assert len(parsed(without_cross.certificate)) == 1
    after = certificates.renewed(without_cross, [NAME], OLD_ENDS)
    assert after is not None
    assert parsed(after.authorities) == parsed(rotated.authorities)[:1]


def test_a_serving_certificate_that_is_not_good_yet_or_that_another_has_signed_is_replaced() -> None:
    issued, other = (certificates.issue([NAME], NOW) for _ in range(2))
    of_the_future = certificates.renewed(issued, [NAME], NOW + LIFETIME)
    assert of_the_future is not None
    of_another = replace(issued, certificate=other.certificate, key=other.key)
    for wrong in (of_the_future, of_another):
        fresh = certificates.renewed(wrong, [NAME], NOW)
        assert fresh is not None
        assert fresh.authorities == issued.authorities
        assert trusts(issued.authorities, fresh)


@pytest.mark.parametrize("left", [b"", b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_an_authority_signs_again_when_its_serving_certificate_is_unusable(left: bytes) -> None:
    issued = certificates.issue([NAME], NOW)
    for at in (NOW - timedelta(hours=1), NOW, NOW + AUTHORITY_LIFETIME - timedelta(seconds=1)):
        fresh = certificates.signed_again(replace(issued, certificate=left, key=b""), [NAME], at)
        assert fresh.authorities == issued.authorities
        assert fresh.authority_key == issued.authority_key
        assert certificates.good_until(fresh.certificate) == at + LIFETIME
        (serving,) = parsed(fresh.certificate)
        serving.verify_directly_issued_by(parsed(issued.authorities)[0])


def test_an_authority_that_signs_again_keeps_what_its_predecessor_signed_while_that_is_good(
    rotated: Issued,
) -> None:
    (_, cross), (newest, _) = parsed(rotated.certificate), parsed(rotated.authorities)
    before = certificates.signed_again(rotated, [NAME], OLD_ENDS - timedelta(seconds=1))
    assert before.authorities == rotated.authorities
    assert parsed(before.certificate)[1:] == [cross]
    after = certificates.signed_again(rotated, [NAME], OLD_ENDS)
    assert parsed(after.authorities) == [newest]
    assert len(parsed(after.certificate)) == 1


@pytest.mark.parametrize(
    ("broken", "at"),
    [
        ({"authorities": b""}, NOW),
        ({"authorities": b"nothing"}, NOW),
        ({"authority_key": b""}, NOW),
        ({"authority_key": certificates.issue([NAME], NOW).authority_key}, NOW),
        (of_another_kind(), NOW),
        ({}, NOW - timedelta(hours=1, seconds=1)),
        ({}, NOW + AUTHORITY_LIFETIME),
    ],
)
def test_an_authority_that_is_unusable_or_not_good_now_does_not_sign_again(
    broken: dict[str, bytes], at: datetime
) -> None:
    issued = replace(certificates.issue([NAME], NOW), **broken)
    with pytest.raises(UnusableError, match="the authority cannot be used") as caught:
        certificates.signed_again(issued, [NAME], at)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("at", [NOW - timedelta(hours=1, seconds=1), NOW + AUTHORITY_LIFETIME])
def test_an_authority_that_is_not_good_now_cannot_be_renewed(at: datetime) -> None:
    with pytest.raises(UnusableError):
        certificates.renewed(certificates.issue([NAME], NOW), [NAME], at)


def test_keys_do_not_show_in_a_traceback() -> None:
    assert repr(certificates.issue([NAME], NOW)) == "Issued(...)"


def test_what_is_no_certificate_has_no_end() -> None:
    with pytest.raises(UnusableError):
        certificates.good_until(b"")
