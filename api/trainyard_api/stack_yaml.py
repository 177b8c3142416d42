"""YAML of stack files as Pulumi reads it: `yes` and `off` are strings, not booleans.

Called by whoever reads a stack file without Pulumi, so that all see the same
values. Reads no files itself.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml


class Loader(yaml.CSafeLoader):
    """PyYAML's loader in C, but for booleans, and with the place of a value that it cannot construct."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; raises `yaml.YAMLError` with its place if it has none."""
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # PyYAML's own, for a date, a number or a boolean that is none.
            problem = f"not a valid {node.tag.rpartition(':')[2]}: quote it if it is a text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


_BOOL: Final = "tag:yaml.org,2002:bool"
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(_BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))


def load(text: str) -> Any:
    """The value of a stack file. Raises `yaml.YAMLError` if the text is no YAML."""
    return yaml.load(text, Loader=Loader)  # noqa: S506 (a safe loader)
