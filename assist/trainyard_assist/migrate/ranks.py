"""Environments and commands for processes that address each other by number.

Called by the modules of the kinds. The number of a pod is its index in the
Job, which Kubernetes puts into an annotation and into JOB_COMPLETION_INDEX.
"""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.errors import required
from trainyard_api.json_types import Json

from .source import Role

UNBUFFERED: Final[Json] = {"name": "PYTHONUNBUFFERED", "value": "1"}


def variable(name: str, value: str | int) -> Json:
    """A variable with a value."""
    return {"name": name, "value": str(value)}


def index(name: str) -> Json:
    """A variable that holds the number of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": names.JOB_COMPLETION_INDEX_PATH}}}


def after(script: str, role: Role) -> dict[str, list[str]]:
    """Command and arguments that run the role's own after a line of shell.

    Raises:
        InvalidFieldError: It has no command, so what the image runs is unknown.
    """
    if not role.container.get("command"):
        message = (
            "the command of the image must be written out here: "
            "a line of shell that numbers the pod has to run before it"
        )
        raise required(role.container_path.child("command"), message)
    return {"command": ["sh", "-c", f'{script}; exec "$0" "$@"'], "args": list(role.words)}
