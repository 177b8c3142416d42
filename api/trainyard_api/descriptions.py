"""Descriptions of the fields of settings: the strings below them.

pydantic can take these as descriptions, but then reads the source of every
model at each import, which was a quarter of the start of a command. Only the
documentation and the schema for editors need them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue


@cache
def of(model: type[BaseModel]) -> Mapping[str, str]:
    """By the name of the attribute, the description of each field that has one."""
    texts: dict[str, str] = {}
    for ancestor in reversed(model.__mro__):
        if issubclass(ancestor, BaseModel) and ancestor is not BaseModel:
            texts |= _below_fields(ancestor)
    declared = {name: field.description for name, field in model.model_fields.items() if field.description}
    return MappingProxyType(
        {**{name: texts[name] for name in model.model_fields if name in texts}, **declared}
    )


def _below_fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    [definition] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for field, text in pairwise(definition.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(description))),
            ):
                yield name, inspect.cleandoc(description)


class Schema(GenerateJsonSchema):
    """A JSON Schema with the descriptions, for `model_json_schema(schema_generator=...)`."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """The schema of one model."""
        value = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        for name, text in of(model).items():
            key = model.model_fields[name].alias or name if self.by_alias else name
            value["properties"][key].setdefault("description", text)
        return value
