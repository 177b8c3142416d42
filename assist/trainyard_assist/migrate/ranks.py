"""Environments and commands for processes that address each other by number.

Called by the modules of the kinds. The number of a pod is its index in the
Job, which Kubernetes puts into an annotation and into JOB_COMPLETION_INDEX.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import required
from trainyard_api.json_types import Json

from .notes import Notes
from .source import Role

UNBUFFERED: Final[Json] = {"name": "PYTHONUNBUFFERED", "value": "1"}


def variable(name: str, value: str | int) -> Json:
    """A variable with a value."""
    return {"name": name, "value": str(value)}


def index(name: str) -> Json:
    """A variable that holds the number of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": names.JOB_COMPLETION_INDEX_PATH}}}


def after(script: str, role: Role, variables: Sequence[str], notes: Notes) -> dict[str, list[str]]:
    """Command and arguments that run the role's own after a line of shell.

    Args:
        script: The line.
        role: Whose command it is.
        variables: What the line sets.
        notes: Gets a note on each word that Kubernetes completes with such a variable, before the line runs.

    Raises:
        InvalidFieldError: It has no command, so what the image runs is unknown.
    """
    if not role.container.get("command"):
        message = (
            "the command of the image must be written out here: "
            "a line of shell that numbers the pod has to run before it"
        )
        raise required(role.container_path.child("command"), message)
    reference = re.compile(rf"(?<!\$)(?:\$\$)*\$\(({'|'.join(map(re.escape, variables))})\)")
    for key in ("command", "args"):
        path = role.container_path.child(key)
        for position, word in enumerate(json_reader.texts(role.container.get(key), path)):
            for name in dict.fromkeys(reference.findall(word)):
                message = f"Kubernetes reads $({name}) before a line of shell in the container sets {name}: "
                notes.lost(path.index(position), f"{message}let a shell or the program read the variable")
    return {"command": ["sh", "-c", f'{script}; exec "$0" "$@"'], "args": list(role.words)}
