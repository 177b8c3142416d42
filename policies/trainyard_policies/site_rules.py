"""A site's own rules: the modules in the folder `site`, each with a `RULE`.

Called by `rules`, once. An error in one of them ends the program: a gate that
has lost a rule lets through what it should not.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from . import site
from .rule import Rule, StackRule

_PARAMETERS: Final = "parameters"
_OF_A_CLONE: Final = "policies/trainyard_policies/site"
_OF_ANOTHER: Final = "policies/site"
"""The folder, in a clone and in another site."""


def load(taken: Collection[str]) -> tuple[Rule | StackRule, ...]:
    """The rules, by the names of their files; raises `SystemExit` with `file:line: ...`.

    Args:
        taken: Ids of Trainyard's own rules.
    """
    loaded: dict[str, Rule | StackRule] = {}
    folders = {module.name: module.module_finder.path for module in pkgutil.iter_modules(site.__path__)}  # type: ignore[union-attr]
    for name, folder in sorted(folders.items()):
        if name == _PARAMETERS:
            continue
        file = f"{_OF_A_CLONE if folder.endswith('trainyard_policies/site') else _OF_ANOTHER}/{name}.py"
        rule = _rule(name, file)
        if rule.id in taken or rule.id in loaded:
            raise SystemExit(f"{file}:1: there is already a rule {rule.id}: give this one another id")
        loaded[rule.id] = replace(rule, page=file)
    return tuple(loaded.values())


def _rule(name: str, file: str) -> Rule | StackRule:
    try:
        rule = getattr(importlib.import_module(f"{site.__name__}.{name}"), "RULE", None)
    except Exception as error:
        raise SystemExit(f"{file}:{line(error, file)}: {type(error).__name__}: {error}") from error
    if not isinstance(rule, Rule | StackRule):
        raise SystemExit(f"{file}:1: must have RULE, a Rule or a StackRule (docs/write-a-policy.md)")
    return rule


def line(error: Exception, file: str) -> int:
    """The line of a rule's file at which an exception has come out of it; 1 if it has not passed there."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    # An installed package has no folder `policies`.
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame.lineno or 1 for frame in frames if _end(frame.filename) == _end(file)), 1)


def _end(file: str) -> list[str]:
    """Its folder and its name."""
    return file.replace("\\", "/").split("/")[-2:]
