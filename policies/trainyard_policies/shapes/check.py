"""Whether a manifest has the shape of its kind.

Values in, values out: findings use the words of the API server, and if a
field's name is clearly misspelled they include the right one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, Final

from trainyard_api import json_reader, names, quantity, similar
from trainyard_api.errors import ErrorType, FieldError, FieldPath
from trainyard_api.json_types import Json

from ..name_patterns import BY_NAME
from ..rule import MOST, Finding, Rename

_SURE: Final = 0.75
"""How similar a name must be to count as misspelled, of 1."""

_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "object": ((dict, Mapping), "must be an object"),
    "array": ((list, tuple), "must be a list"),
    "string": ((str,), "must be a string"),
    "boolean": ((bool,), "must be a boolean"),
    "integer": ((int,), "must be an integer"),
    "int-or-string": ((int, str), "must be an integer or a string"),
}
_NO_SUCH_FIELD: Final = "there is no such field"
_EARLIER: Final[Mapping[str, str]] = {
    "spec.annotations": "a part of spec.runtimePatches",
    "spec.datasetConfig": "spec.initializer.dataset",
    "spec.labels": "a part of spec.runtimePatches",
    "spec.modelConfig": "spec.initializer.model",
    "spec.podSpecOverrides": "spec.runtimePatches",
    "spec.podTemplateOverrides": "spec.runtimePatches",
    "spec.trainingRuntimeRef": "spec.runtimeRef",
}
"""Fields of a TrainJob in versions of Trainer's API before 2.3, and where they are now."""
_LISTS: Final = {"object": "must be a list of objects", "string": "must be a list of strings"}


def check(value: Json) -> tuple[Finding, ...]:
    """The fields that do not match the schemas, at most `MOST` and one more.

    There is none for a kind without a schema. A field that is null counts as left out, as it
    does for the API server.
    """
    kind = str(value.get("kind"))
    shape = _shapes().get(kind)
    findings = () if shape is None else tuple(islice(_walk(value, shape, FieldPath()), MOST + 1))
    return tuple(map(_of_an_earlier_version, findings)) if kind == names.TRAINJOB else findings


def _of_an_earlier_version(finding: Finding) -> Finding:
    """The finding, or what became of the field if an earlier version of Trainer's API had it."""
    became = _EARLIER.get(finding.path.text)
    if became is None or not finding.message.startswith(_NO_SUCH_FIELD):
        return finding
    message = f"{_NO_SUCH_FIELD} any more: it became {became}; trainyard migrate rewrites it"
    return Finding(finding.path, message)


@cache
def _shapes() -> Json:
    """The shape of each kind, with references resolved."""
    read = json.loads(resources.files(__package__).joinpath("shapes.json").read_text(encoding="utf-8"))
    definitions: dict[str, Any] = read.pop("$defs")

    def resolved(schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return definitions[schema["$ref"]]
        for key, below in schema.items():
            if key == "properties":
                schema[key] = {name: resolved(definition) for name, definition in below.items()}
            elif key in ("items", "values"):
                schema[key] = resolved(below)
        return schema

    for name, definition in definitions.items():
        definitions[name] = resolved(definition)
    return {kind: resolved(shape) for kind, shape in read.items()}


def _walk(value: Any, shape: Json, path: FieldPath) -> Iterator[Finding]:
    problem = _of_another_type(value, shape)
    if problem:
        yield _invalid(path, value, problem)
        return
    if isinstance(value, str):
        yield from _text(value, shape, path)
    elif isinstance(value, int | float):
        yield from _number(value, shape, path)
    elif isinstance(value, Mapping):
        yield from _object(value, shape, path)
    else:
        yield from _list(value, shape, path)


def _of_another_type(value: Any, shape: Json) -> str | None:
    """What the value must be, where it is something else."""
    if shape.get("form") == "quantity":
        if isinstance(value, float) and not value.is_integer():
            return f'must be a whole number or text, such as "{value}"'
        try:
            quantity.parse(value)
        except ValueError as error:
            return str(error)
        return None
    expected = shape.get("type")
    if expected is None:
        return None
    types, requirement = _TYPES[expected]
    whole = isinstance(value, float) and value.is_integer()  # as Pulumi sends whole numbers
    if isinstance(value, types) and (expected == "boolean" or not isinstance(value, bool)):
        return None
    if whole and int in types:
        return None
    return _LISTS.get(shape["items"].get("type"), requirement) if expected == "array" else requirement


def _object(value: Json, shape: Json, path: FieldPath) -> Iterator[Finding]:
    values = shape.get("values")
    properties = shape.get("properties")
    for name in shape.get("required", ()):
        if value.get(name) is None:
            yield Finding.of(FieldError(ErrorType.REQUIRED, path.child(name).text, None))
    for key, member in value.items():
        if not isinstance(key, str):
            yield _invalid(path, value, "must be an object")
        elif values is not None:
            if member is not None:
                yield from _walk(member, values, path.key(key))
        elif properties is not None:
            if key not in properties:
                yield _unknown(key, value, properties, path)
            elif member is not None:
                yield from _walk(member, properties[key], path.child(key))


def _unknown(key: str, value: Json, properties: Mapping[str, Json], path: FieldPath) -> Finding:
    """The finding for an unknown field, with its right name if that is certain and free."""
    at = path.child(key) if key.isidentifier() and len(key) <= similar.LONGEST else path.key(key)
    name = similar.nearest(key, properties)
    message = _NO_SUCH_FIELD
    if name is None:
        return Finding(at, message)
    is_it = (
        similar.nearest(key, [name], least=_SURE) is not None
        and value.get(name) is None
        and _of_another_type(value[key], properties[name]) is None
    )
    edits = (Rename(at, name),) if is_it else ()
    return Finding(at, f"{message}{similar.meant(name)}", edits)


def _list(value: Sequence[Any], shape: Json, path: FieldPath) -> Iterator[Finding]:
    yield from _size(value, shape, path, "Items")
    items = shape.get("items", {})
    unique = shape.get("unique")
    seen = set()
    for position, item in enumerate(value):
        at = path.index(position)
        if item is None:
            yield Finding.of(FieldError(ErrorType.REQUIRED, at.text, None))
            continue
        yield from _walk(item, items, at)
        if unique is None:
            continue
        same = item
        if isinstance(item, Mapping):
            same = {key: item.get(key, usual) for key, usual in unique.items()}
        mark = tuple(same.values()) if isinstance(same, dict) else (same,)
        if not all(isinstance(part, str | int) for part in mark):
            continue  # reported for the field that is missing or of another type
        if mark in seen:
            yield Finding.of(FieldError(ErrorType.DUPLICATE, at.text, same))
        seen.add(mark)


def _text(value: str, shape: Json, path: FieldPath) -> Iterator[Finding]:
    yield from _size(value, shape, path, "Length")
    if "enum" in shape and value and value not in shape["enum"]:
        choices = [choice for choice in shape["enum"] if choice]
        near = similar.nearest(value[: similar.LONGEST].lower(), [choice.lower() for choice in choices])
        meant = next((choice for choice in choices if choice.lower() == near), None)
        message = f"must be one of {', '.join(choices)}{similar.meant(meant)}"
        yield Finding.of(FieldError(ErrorType.NOT_SUPPORTED, path.text, json_reader.shown(value), message))
    form = BY_NAME.get(shape.get("form", ""))
    if form and value and not form.fits(value):
        yield _invalid(path, value, form.sentence)


def _number(value: float, shape: Json, path: FieldPath) -> Iterator[Finding]:
    if "minimum" in shape and value < shape["minimum"]:
        yield _invalid(path, value, f"must be at least {shape['minimum']}")
    if "maximum" in shape and value > shape["maximum"]:
        yield _invalid(path, value, f"must be at most {shape['maximum']}")


def _size(value: Sequence[Any], shape: Json, path: FieldPath, of: str) -> Iterator[Finding]:
    least, most = shape.get(f"min{of}"), shape.get(f"max{of}")
    unit = "characters" if isinstance(value, str) else "items"
    if least is not None and len(value) < least:
        yield _invalid(path, value, f"must have at least {least} {unit}")
    if most is not None and len(value) > most:
        yield _invalid(path, value, f"must have at most {most} {unit}, has {len(value)}")


def _invalid(path: FieldPath, value: Any, detail: str) -> Finding:
    return Finding.of(FieldError(ErrorType.INVALID, path.text, json_reader.shown(value), detail))
