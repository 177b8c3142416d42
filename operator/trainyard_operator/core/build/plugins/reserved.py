"""Variables that belong to a framework, and that a TrainJob must therefore not set.

Called by the plugins' `validate`; refuses nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ...model import Json
from ..info import Info

ENV_PATH: Final = FieldPath("spec.trainer.env")

_FIELDS: Final = ("name", "value", "valueFrom")


def variables(info: Info) -> tuple[Json, ...]:
    """The variables that the TrainJob sets for its trainer."""
    return tuple(json_reader.named_objects((info.trainer or {}).get("env"), ENV_PATH))


def errors(info: Info, reserved: frozenset[str]) -> Iterator[FieldError]:
    """One error for all of `reserved` that the TrainJob sets, in the words of Trainer v2.3."""
    env = variables(info)
    conflicts = sorted({variable["name"] for variable in env} & reserved)
    if conflicts:
        shown = [{field: item[field] for field in _FIELDS if item.get(field)} for item in env]
        detail = f"must not have reserved envs, invalid envs configured: [{' '.join(conflicts)}]"
        yield FieldError(ErrorType.INVALID, str(ENV_PATH), shown, detail)
