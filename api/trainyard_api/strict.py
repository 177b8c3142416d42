"""Strict models of settings, and sentences about mistakes in them.

Called by the platform for stack files and by the operator for its
configuration file, so that both report the same mistake in the same words. A
sentence names what is allowed and the nearest right name; the caller adds the
place.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from .similar import hint

Location = tuple[str | int, ...]
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
Quantity = Annotated[str, Field(pattern=QUANTITY, max_length=64, examples=["500m", "2Gi"])]
KEY = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
VALUE = r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$"
Key = Annotated[str, Field(pattern=KEY)]
"""Of a label, an annotation or a taint."""
LabelValue = Annotated[str, Field(pattern=VALUE)]
"""Of a label or a taint."""


class StrictModel(BaseModel):
    """Base of every part: no unknown keys, immutable, camelCase in YAML."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        # A command uses few of the parts; and one that is only part of another needs no validator of its own.
        defer_build=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _a_switch_is_true_or_false(cls, value: object, info: ValidationInfo) -> object:
        """Not a text or a number: pydantic would read `"yes"` and `1` as true, but not `"enabled"`."""
        switch = cls.model_fields[str(info.field_name)].annotation in (bool, bool | None)
        if switch and value is not None and not isinstance(value, bool):
            raise ValueError(f"must be true or false, without quotes; is {value!r}")
        return value


def sentences(
    error: ValidationError, model: type[BaseModel], patterns: Mapping[str, str] | None = None
) -> Iterator[tuple[Location, str]]:
    """For each problem, its location and a sentence.

    `model` is what was validated; `patterns` has words for regular expressions.
    """
    problems = error.errors()
    for problem in problems:
        location = problem["loc"]
        inside = [one for one in problems if len(one["loc"]) > len(location)]
        # pydantic also calls a list empty if none of its items is valid.
        if problem["type"] == "too_short" and any(one["loc"][: len(location)] == location for one in inside):
            continue
        yield location, _sentence(problem, model, patterns or {})


def path(root: str, location: Sequence[str | int]) -> str:
    """A location as people write it: `root.key[0].key`."""
    text = root
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _sentence(problem: ErrorDetails, model: type[BaseModel], patterns: Mapping[str, str]) -> str:
    location = problem["loc"]
    kind = problem["type"]
    context = problem.get("ctx", {})
    value = problem["input"]
    if kind == "extra_forbidden":
        fields = _model_at(model, location[:-1]).model_fields
        allowed = sorted(field.alias or name for name, field in fields.items())
        return f"there is no such key (allowed here: {', '.join(allowed)}){hint(str(location[-1]), allowed)}"
    if kind == "missing":
        return "is required"
    if kind in ("enum", "literal_error"):
        choices = [part.strip("'") for part in context["expected"].replace(" or ", ", ").split(", ")]
        return f"must be one of {', '.join(choices)}; is {value!r}{hint(str(value), choices)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        return f"{patterns.get(pattern, f'must match {pattern}')}; is {value!r}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters; has {len(value)}"
    if kind == "model_type":
        return f"must be a mapping; is {value!r}"
    return f"must be {problem['msg'].removeprefix('Input should be ')}; is {value!r}"


def _model_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel]:
    """The model whose keys stand at a location that pydantic reported."""
    steps = iter(location)
    for step in steps:
        field = next(f for name, f in model.model_fields.items() if step in (f.alias, name))
        annotation: Any = field.annotation
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
            next(steps, None)
        if get_origin(annotation) is tuple:
            annotation = get_args(annotation)[0]
            next(steps, None)
        if get_origin(annotation) in (Union, types.UnionType):
            annotation = next(arm for arm in get_args(annotation) if arm is not type(None))
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        model = annotation
    return model
