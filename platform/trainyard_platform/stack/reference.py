"""The reference of stack files, made from the schema of the settings.

`make generate` writes the page that is checked in; a test fails when the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard_api.markdown import code, prose, table
from trainyard_api.strict import QUANTITY

from . import schema
from .release_images import PINNED
from .settings import CONFIG_KEY
from .value_types import DURATION, IMAGE

_HEAD: Final = f"""\
# The stack file

<!-- Made from the settings by `make generate`; do not edit. -->

What `stacks/Pulumi.<stack>.yaml` may say below `config` and `{CONFIG_KEY}`. [Stacks](../stacks.md) leads \
from an example to a platform. Editors complete the file from \
[stacks/schema.json](../../stacks/schema.json), and `pulumi preview` refuses an unknown \
key or an invalid value with its path.

`<name>` stands for a key of your own, and `[]` for each entry of a list. What has no default is left out, \
unless it is *required*.
"""
_KINDS: Final = {QUANTITY: "quantity", DURATION: "duration", IMAGE: "image", PINNED: "image"}
"""Strings with a form of their own, by their patterns."""
_REQUIRED: Final = "*required*"


def page() -> str:
    """The whole page."""
    document = schema.document()
    definitions = document["$defs"]
    sections = []
    stack = definitions["StackSettings"]
    for key, field in stack["properties"].items():
        required = key in stack.get("required", ())
        rows = list(_rows(key, field, field.get("default"), definitions, required=required))
        # The first row is the part itself, which has the section.
        below = rows[1:] or rows
        sections += [f"## {key}", "", prose(field["description"]), ""]
        sections += table(("key", "type", "default", "what it is"), below)
    return "\n".join((_HEAD, *sections))


def _rows(
    path: str, field: Mapping[str, Any], default: Any, definitions: Mapping[str, Any], *, required: bool
) -> Iterator[tuple[str, str, str, str]]:
    """A row for a key, and one for each key below it.

    Args:
        path: Of the key.
        field: Its schema.
        default: Its value if it is left out; a part above it may have another one than its own.
        definitions: What schemas refer to.
        required: Whether it may not be left out.
    """
    kind = _resolved(field, definitions)
    shown = _REQUIRED if required else _value(default)
    yield code(path), _type(kind, definitions), shown, prose(field["description"])
    below, place = kind, path
    while (element := _element(below, definitions)) is not None:
        place += "[]" if below["type"] == "array" else ".<name>"
        below, default = element, None
    inherited = default if isinstance(default, Mapping) else {}
    for key, part in below.get("properties", {}).items():
        given = inherited.get(key, part.get("default"))
        needed = key in below.get("required", ()) and key not in inherited
        yield from _rows(f"{place}.{key}", part, given, definitions, required=needed)


def _resolved(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a value that is there."""
    arms = [arm for arm in field.get("anyOf", ()) if arm.get("type") != "null"]
    if arms:
        return _resolved(arms[0], definitions)
    reference = field.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else field


def _element(kind: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of an entry of a list, or of a mapping whose keys are its user's own."""
    entries = kind.get("items") or kind.get("additionalProperties")
    for pattern in kind.get("patternProperties", {}).values():
        entries = pattern
    return _resolved(entries, definitions) if isinstance(entries, Mapping) else None


def _type(kind: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "enum" in kind:
        return ", ".join(code(value) for value in kind["enum"])
    element = _element(kind, definitions)
    if element is not None:
        return f"{'list' if kind['type'] == 'array' else 'map'} of {_type(element, definitions)}"
    name: str = _KINDS.get(kind.get("pattern", ""), kind.get("type", "any"))
    bounds = [f"{word} {kind[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in kind]
    return " ".join((name, *bounds))


def _value(default: Any) -> str:
    """A default as YAML has it; none for a part, whose keys have their own."""
    if default in (None, "", [], {}) or (isinstance(default, Mapping)):
        return ""
    return code(default if isinstance(default, str) else json.dumps(default))
