"""Changes of a TrainJob's trainer to a container that runs its program.

Called by the plugins whose containers do: the trainer's step, and further steps that take part.
"""

from __future__ import annotations

from typing import Any, Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath

from ...model import Json
from .. import templates

_TRAINER: Final = FieldPath("spec.trainer")


def edit(trainer: Json) -> templates.Edit:
    """Image, command, arguments and variables, as far as the trainer names them."""
    set_fields: dict[str, Any] = {}
    image = json_reader.text(trainer.get("image"), _TRAINER.child("image"))
    if image is not None:
        set_fields["image"] = image
    for name in ("command", "args"):
        words = json_reader.texts(trainer.get(name), _TRAINER.child(name))
        if words:
            set_fields[name] = list(words)
    env = templates.environment(trainer.get("env"), _TRAINER.child("env"))
    return lambda container: templates.with_env({**container, **set_fields}, env)
