"""Manifests that are kept in a file of the user's until the API server has them.

Called by `retry`, which deletes a TrainJob before it sends the next one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainyard_api import documents
from trainyard_api.errors import UserError
from trainyard_api.json_types import Manifest
from trainyard_kube.client import is_name

_MODE: Final = 0o600
"""An environment may hold tokens."""
_FOLDER_MODE: Final = 0o700


def folder() -> Path:
    """`trainyard/unsent/` in the user's state folder (`$XDG_STATE_HOME`, `~/.local/state`)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "trainyard" / "unsent"


def keep(manifest: Manifest, key: str) -> Path:
    """Write the manifest into a file of its own, which only the user may read.

    Args:
        manifest: An object with a name and a namespace.
        key: What tells it from others of this name: one of the same key is overwritten.

    Raises:
        UserError: The file cannot be written.
    """
    metadata = manifest["metadata"]
    for name in (metadata["namespace"], metadata["name"], key):
        if not is_name(name):
            raise UserError(f"{name[:100]!r}: no object has such a name: the manifest cannot be kept")
    path = folder() / f"{metadata['namespace']}.{metadata['name']}.{key}.yaml"
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(documents.dump([manifest]))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UserError(
            f"{path}: {error.strerror}: the manifest is kept there while it is sent; name another folder "
            "with XDG_STATE_HOME"
        ) from error
    return path
