"""Files that look like secrets, by their name or by what they hold.

Called by `workspace`, to ask about them before a folder is sent. A
look, no proof: it knows the usual names, and reads the beginning of a file.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Final

from trainyard_policies.rules.secrets_by_reference import SECRET_VALUE

_LOOK: Final = 64 * 1024
"""Bytes of a file that are looked at."""
_NAMES: Final = (
    *(".env", ".env.*", "*.env", ".envrc"),
    *("id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_rsa"),
    *("*.jks", "*.kdbx", "*.key", "*.keystore", "*.p12", "*.pem", "*.pfx"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig"),
    *(".dockercfg", ".dockerconfigjson", ".git-credentials", ".netrc", ".pgpass", ".pypirc", ".s3cfg"),
    "kaggle.json",
    *("*accesskeys.csv", "client_secret*.json", "service-account*.json", "service_account*.json"),
    *("credentials", "credentials.*", "*_credentials.json", "*-credentials.json", "rclone.conf", "secrets.*"),
)
_PATHS: Final = (".docker/config.json", ".kube/config")
_TEMPLATES: Final = (".dist", ".example", ".sample", ".template", ".tmpl")
"""Ends of the names of files that show which secrets are needed, and hold none."""
_SOURCES: Final = (".go", ".ipynb", ".md", ".py", ".sh")
_NAME: Final = re.compile("|".join(map(fnmatch.translate, _NAMES)))
_ASSIGNED: Final = re.compile(
    r"client-key-data: {0,4}[A-Za-z0-9+/]"
    r"|aws_secret_access_key[\"']?\s{0,4}[=:]\s{0,4}[\"']?[A-Za-z0-9+/]{40}",
    re.IGNORECASE,
)
"""As a kubeconfig has a key, and the files of AWS have one."""


def reason(path: str, content: bytes) -> str:
    """Why the file looks like a secret, as the end of a sentence about it; empty if it does not.

    Args:
        path: Relative to the folder.
        content: All of it; only the beginning is looked at.
    """
    name = posixpath.basename(path).lower()
    named = _NAME.match(name) is not None and not name.endswith((*_TEMPLATES, *_SOURCES))
    if named or any(f"/{path}".endswith(f"/{end}") for end in _PATHS):
        return "has the name of a file with secrets"
    text = content[:_LOOK].decode("latin-1")
    if SECRET_VALUE.search(text) or _ASSIGNED.search(text):
        return "holds what looks like a key or a token"
    return ""
