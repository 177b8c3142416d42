"""Changes of a TrainJob's trainer to a container that runs its program.

Called by the plugins whose containers do: the trainer's step, and further steps that take part.
"""

from __future__ import annotations

from typing import Any, Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath

from ...model import Json
from .. import templates
from ..info import Info

_TRAINER: Final = FieldPath("spec.trainer")


def edit(info: Info) -> templates.Edit:
    """Image, command, arguments and variables, as far as the trainer names them.

    An empty command or list of arguments takes the runtime's away, so that the image's own runs.
    """
    trainer = info.trainer or {}
    set_fields: dict[str, Any] = {}
    emptied: set[str] = set()
    image = json_reader.text(trainer.get("image"), _TRAINER.child("image"))
    if image is not None:
        set_fields["image"] = image
    for name in ("command", "args"):
        words = json_reader.texts(trainer.get(name), _TRAINER.child(name))
        if words:
            set_fields[name] = list(words)
        elif trainer.get(name) is not None and not info.settings.keeps_emptied_words:
            emptied.add(name)
    env = info.env

    def edited(container: Json) -> Json:
        kept = {name: value for name, value in container.items() if name not in emptied}
        return templates.with_env({**kept, **set_fields}, env)

    return edited
