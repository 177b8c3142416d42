"""Certificates: who is who, and that keys are private."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from trainyard_sandbox.pki import Authority, end_of, write_private


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_client_certificate_names_the_user_and_its_groups_and_serves_nothing(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").issue("kubelet", "system:node:n", groups=("system:nodes",))
    cert = read(pair.cert)
    assert cert.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"
    usage = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_serving_certificate_is_valid_for_its_hosts_and_signed_by_its_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    cert = read(authority.issue("api", "api", hosts=("localhost", "10.96.0.1")).cert)
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "10.96.0.1"]
    cert.verify_directly_issued_by(read(authority.pair.cert))


def test_an_authority_signs_certificates_and_no_other_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pairs = {"ca": authority.pair, "leaf": authority.issue("admin", "admin")}
    may = {}
    for name, pair in pairs.items():
        extensions = read(pair.cert).extensions
        constraints = extensions.get_extension_for_class(x509.BasicConstraints)
        usage = extensions.get_extension_for_class(x509.KeyUsage)
        assert constraints.critical
        assert usage.critical
        may[name] = (constraints.value.ca, constraints.value.path_length, usage.value.key_cert_sign)
    assert may == {"ca": (True, 0, True), "leaf": (False, None, False)}


def test_a_certificate_of_one_authority_is_not_of_the_other(tmp_path: Path) -> None:
    cert = read(Authority(tmp_path, "etcd-ca").issue("client", "client").cert)
    with pytest.raises(ValueError, match="does not match certificate issuer"):
        cert.verify_directly_issued_by(read(Authority(tmp_path, "ca").pair.cert))


def test_what_was_issued_is_kept(tmp_path: Path) -> None:
    first = Authority(tmp_path, "ca").issue("admin", "admin").cert.read_bytes()
    assert Authority(tmp_path, "ca").issue("admin", "admin").cert.read_bytes() == first


def test_certificates_are_valid_for_ten_years(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    for pair in (authority.pair, authority.issue("admin", "admin")):
        assert (end_of(pair.cert) - datetime.now(UTC)).days in (3649, 3650)


def test_keys_and_kubeconfigs_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("admin", "admin")
    kubeconfig = authority.kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", pair, "c")
    write_private(kubeconfig, kubeconfig.read_bytes())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (pair.key, kubeconfig)}
    assert modes == {"admin.key": 0o600, "kubeconfig": 0o600}
    assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
