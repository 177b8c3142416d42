"""The key pair of an MPI job, as Trainer writes it and as sshd reads it."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)

from trainyard_operator.work import ssh_keys

MANIFEST = {
    "kind": "Secret",
    "immutable": True,
    "data": {"ssh-privatekey": "(generated)", "ssh-publickey": "(generated)", "other": "kept"},
}


def parts() -> tuple[bytes, bytes]:
    data = ssh_keys.drawn(MANIFEST)["data"]
    return base64.b64decode(data["ssh-privatekey"]), base64.b64decode(data["ssh-publickey"])


def test_the_private_key_is_p521_in_the_old_pem_form() -> None:
    private, _ = parts()
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    key = load_pem_private_key(private, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp521r1"


def test_the_public_key_is_its_line_for_authorized_keys() -> None:
    private, public = parts()
    assert public.startswith(b"ecdsa-sha2-nistp521 ")
    assert public.count(b"\n") == 1
    assert public.endswith(b"\n")
    wanted = load_pem_private_key(private, None).public_key()
    form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert load_ssh_public_key(public).public_bytes(*form) == wanted.public_bytes(*form)


def test_every_secret_gets_its_own_and_keeps_all_else() -> None:
    first, second = ssh_keys.drawn(MANIFEST), ssh_keys.drawn(MANIFEST)
    assert first["data"]["ssh-privatekey"] != second["data"]["ssh-privatekey"]
    assert first["data"]["other"] == "kept"
    assert {**first, "data": MANIFEST["data"]} == MANIFEST
