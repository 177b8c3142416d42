"""What we use of a library without its leave: docs/adr/0026 names it, and a test fails once it is gone.

The linter refuses private attributes (SLF001); here are its exceptions, and
what it does not see.
"""

import ast
import importlib
import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import pytest

from trainyard_operator import logs

ROOT = Path(__file__).resolve().parents[1]
ADR = ROOT / "docs/adr/0026-what-kopf-does-and-what-not.md"
ROOMS = (
    "api",
    "assist",
    "cli",
    "delivery",
    "initializers",
    "kube",
    "operator",
    "platform",
    "policies",
    "sandbox",
)


def sources() -> list[Path]:
    found = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    assert len(found) > 300
    return found


@lru_cache(maxsize=1)
def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


@cache
def seen() -> Mapping[str, tuple[list[str], list[str]]]:
    """Of each module its doors, and its ways around the linter: together, for to parse all takes a second."""
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in sources()}
    return {file: (list(doors(text)), list(around(text))) for file, text in texts.items()}


def doors(text: str) -> Iterator[str]:
    """The private names of libraries: those that are imported, and those in lines that the linter skips."""
    for node in nodes_of(text):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = [of + name.name for name in node.names]
            yield from (name for name in names if re.search(r"(^|\.)_(?!_)", name))
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        if "SLF001" in comment:
            yield from re.findall(r"\w+\._\w+", code)


def around(text: str) -> Iterator[str]:
    """Attributes with a mangled name, changed classes, and replaced attributes of what was imported."""
    nodes = nodes_of(text)
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {name.asname or name.name.partition(".")[0] for node in imports for name in node.names}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            of_an_import = isinstance(node.value, ast.Name) and node.value.id in imported
            replaced = isinstance(node.ctx, ast.Store) and (of_an_import or node.attr == "__class__")
            if replaced or re.match("_[A-Z][A-Za-z]*__", node.attr):
                yield ast.unparse(node)


def test_the_adr_names_every_door_and_no_other() -> None:
    named = re.findall(r"^\| `([\w.]*\b_\w+[\w.]*)`", ADR.read_text(), flags=re.MULTILINE)
    used = [door for doors_of_it, _ in seen().values() for door in doors_of_it]
    assert len(named) == len(used)
    assert [door for door in used if not any(name.endswith(door) for name in named)] == []


def test_no_module_goes_around_the_linter() -> None:
    assert {file: ways for file, (_, ways) in seen().items() if ways} == {
        # Python offers this hook to be replaced, and has none for what exits without an exception.
        "platform/trainyard_platform/catalog/in_pods/sitecustomize.py": [
            "sys.excepthook",
            "os._exit",
            "sys.exit",
        ],
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from lib._inner import Server", ["lib._inner.Server"]),
        ("from lib import Other, _Server", ["lib._Server"]),
        ("import lib._inner", ["lib._inner"]),
        ("from . import __version__", []),
        ("class Mine(lib._Server):  # noqa: SLF001 (a reason)\n    pass", ["lib._Server"]),
    ],
)
def test_doors_are_seen(text: str, found: list[str]) -> None:
    assert list(doors(text)) == found


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("self._Server__policies = []", ["self._Server__policies"]),
        ("def f(x):\n    return x._Server__policies", ["x._Server__policies"]),
        ("from lib import policy\npolicy.Server = Mine", ["policy.Server"]),
        ("import lib.sub\nlib.sub = 1", ["lib.sub"]),
        ("import lib as other\nother.Server: type = Mine", ["other.Server"]),
        ("x.__class__ = Mine", ["x.__class__"]),
        ("import lib\nx = lib.Server\nx.name = x.__class__", []),
        ("self._own__name = 1", []),
    ],
)
def test_ways_around_the_linter_are_seen(text: str, ways: list[str]) -> None:
    assert list(around(text)) == ways


def test_kopf_warns_about_signals_with_the_logger_that_is_silenced() -> None:
    module = importlib.import_module(logs.KOPF_SIGNALS)
    assert isinstance(module.logger, logging.Logger)
    assert module.logger.name == logs.KOPF_SIGNALS
