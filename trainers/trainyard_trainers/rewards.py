"""The user's own functions that reward, of a file or of a package."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .failures import InvalidReward, nearest

Reward = Callable[..., list[float]]

_ANY = frozenset({"*", "__getattr__"})
"""With one of these a file may have any name, which only running it shows."""


def check(name: str) -> None:
    """Whether there is such a function, as far as it can be known without running its file.

    Args:
        name: `FILE.py:FUNCTION` or `MODULE:FUNCTION`.

    Raises:
        InvalidReward: There is none.
    """
    place, function = _parts(name)
    if not place.endswith(".py"):
        return
    try:
        tree = ast.parse(Path(place).read_bytes(), place)
    except OSError as error:
        raise InvalidReward(f"reward={name}: {place}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise InvalidReward(f"reward={name}: {error}") from None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    bound = {name for node in ast.walk(tree) for name in _bound(node)}
    if not bound & {function, *_ANY}:
        raise InvalidReward(f"reward={name}: {place} has no such function; {nearest(function, functions)}")


def load(name: str) -> Reward:
    """The function of a name.

    Raises:
        InvalidReward: There is none.
    """
    place, function = _parts(name)
    module = _of_file(Path(place)) if place.endswith(".py") else _of_package(name, place)
    reward: Any = getattr(module, function, None)
    if not callable(reward):
        raise InvalidReward(f"reward={name}: {place} has no function {function}")
    return reward  # type: ignore[no-any-return]


def _parts(name: str) -> tuple[str, str]:
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        raise InvalidReward(f"reward={name}: write it as FILE.py:FUNCTION or MODULE:FUNCTION")
    return place, function


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a node of a file binds, in whatever scope: `load` says whether the module has one."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case ast.Name(ctx=ast.Store()):
            yield node.id


def _of_file(path: Path) -> ModuleType:
    name = f"reward_{path.stem}"  # not that of a package, such as torch.py
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidReward(f"reward={path}: no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _of_package(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidReward(f"reward={name}: {error}") from None
