"""The SSH keys by which an MPI launcher reaches its workers.

Called by `apply` when it creates the Secret that holds one. A key is generated
once, kept nowhere else, and appears in no log and no error.
"""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ..core.model import Json


def drawn(secret: Json) -> Json:
    """The manifest of the Secret with a new key in place of its placeholders."""
    key = ec.generate_private_key(ec.SECP521R1())
    # The old PEM form, `EC PRIVATE KEY`, is what Trainer writes and any sshd reads.
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    data = {"ssh-privatekey": _text(private), "ssh-publickey": _text(public)}
    return {**secret, "data": {**secret["data"], **data}}


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
