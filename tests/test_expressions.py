"""No regular expression of the operator's takes long, whatever text a tenant gives it.

`re` keeps all threads waiting while it works, those of the webhooks, the probes and the Lease too.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, Final, NamedTuple

import trainyard_api
import trainyard_kube
import trainyard_operator
import trainyard_policies

ROOMS: Final = (trainyard_api, trainyard_kube, trainyard_operator, trainyard_policies)
SIZES: Final = (20, 2_000, 16_000, 64_000, 256_000)
"""Characters. Whatever is not linear ends at one of the first."""
SLACK: Final = 0.01
SECONDS: Final = 2e-6
"""CPU time of a call, and of each character: fifty times what most expressions need."""
SEARCHES: Final = frozenset({"search", "finditer", "findall", "sub", "split"})
OF_RE: Final = SEARCHES | {"match", "fullmatch", "subn"}
REPEATS: Final = (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)
USUAL: Final = "aA0 -_.,:;/\"'[]{}()<>=\\\n\0"
"""Characters that many expressions know, and one that none does."""

_PLACES: Final[Mapping[Any, str]] = {
    constants.CATEGORY_DIGIT: "0",
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_WORD: "a",
    constants.CATEGORY_NOT_DIGIT: "a",
    constants.CATEGORY_NOT_SPACE: "a",
    constants.CATEGORY_NOT_WORD: " ",
}


class Shape(NamedTuple):
    """How a text begins, what it repeats, and how it ends."""

    before: str
    unit: str
    end: str

    def text(self, size: int) -> str:
        """The text of so many characters."""
        return self.before + self.unit * (size // len(self.unit)) + self.end


@cache
def modules() -> tuple[ModuleType, ...]:
    found = [
        importlib.import_module(one.name)
        for room in ROOMS
        for one in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
        if not one.name.endswith("__main__")
    ]
    assert len(found) > 150
    return tuple(found)


def patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        for one in (*value.keys(), *value.values()):
            yield from patterns_in(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from patterns_in(one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from patterns_in(getattr(value, field.name))


@cache
def called() -> set[tuple[str, str]]:
    """Name and method of each call of a method of `re.Pattern`, in all modules."""
    return {
        (node.func.value.id, node.func.attr)
        for module in modules()
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in OF_RE
    }


@cache
def patterns() -> Mapping[tuple[re.Pattern[str], bool], str]:
    """Each expression, and whether it is looked for anywhere in a text, with its place."""
    calls = called()
    return {
        (pattern, any((name, method) in calls for method in SEARCHES)): f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        for pattern in patterns_in(value)
    }


def shortest(tree: Any) -> str:
    """A text that a parsed expression accepts, as far as it can be told."""
    text = ""
    for kind, value in tree:
        if kind is constants.LITERAL:
            text += chr(value)
        elif kind is constants.NOT_LITERAL or kind is constants.ANY:
            text += "a"
        elif kind is constants.IN:
            text += members(value)[0]
        elif kind in REPEATS:
            text += shortest(value[2]) * value[0]
        elif kind is constants.SUBPATTERN:
            text += shortest(value[3])
        elif kind is constants.BRANCH:
            text += shortest(value[1][0])
    return text


def members(of: Any) -> str:
    """Some members of a set of characters; of an inverted one, a usual character that is none."""
    text = ""
    for kind, value in of:
        if kind is constants.LITERAL:
            text += chr(value)
        elif kind is constants.RANGE:
            text += chr(value[0])
        elif kind is constants.CATEGORY:
            text += _PLACES[value]
    if of and of[0][0] is constants.NEGATE:
        return next(one for one in USUAL if one not in text)
    return text


def literals(tree: Any) -> str:
    text = ""
    for kind, value in tree:
        if kind in (constants.LITERAL, constants.NOT_LITERAL):
            text += chr(value)
        elif kind is constants.IN:
            text += members(value)
        elif kind in REPEATS:
            text += literals(value[2])
        elif kind in (constants.SUBPATTERN, constants.ATOMIC_GROUP):
            text += literals(value[3] if kind is constants.SUBPATTERN else value)
        elif kind is constants.BRANCH:
            text += "".join(literals(branch) for branch in value[1])
    return text


def repeats(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """For each repetition in a parsed expression: what leads to it, and once what it repeats."""
    for position, (kind, value) in enumerate(tree):
        above = before + shortest(tree[:position])
        if kind in REPEATS:
            yield above, shortest(value[2])
            yield from repeats(value[2], above)
        elif kind is constants.SUBPATTERN:
            yield from repeats(value[3], above)
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, above)


def shapes(pattern: re.Pattern[str]) -> list[Shape]:
    """Texts that may be bad for an expression: what it repeats, many times, and an end that does not fit."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    characters = sorted(set(literals(tree)) | set(USUAL))
    return [
        Shape(before, unit, end)
        for before, once in {("", ""), *repeats(tree)}
        for unit in dict.fromkeys((once, before + once, *characters))
        if unit
        for end in ("\0", "")
    ]


def seconds(pattern: re.Pattern[str], text: str, searched: bool) -> float:
    """CPU time of the call that the product makes."""
    start = time.thread_time()
    if searched:
        for _ in pattern.finditer(text):
            pass
    else:
        pattern.match(text)
        pattern.fullmatch(text)
    return time.thread_time() - start


def test_an_expression_is_a_global_of_its_module_where_the_test_below_finds_it() -> None:
    assert {name for name, _ in called() if name == "re"} == set()


def slow(pattern: re.Pattern[str], searched: bool) -> str:
    """What of the texts takes too long; empty if none does."""
    candidates = shapes(pattern)
    for size in SIZES:
        cost = {shape: seconds(pattern, shape.text(size), searched) for shape in candidates}
        worst = max(cost, key=lambda shape: cost[shape])
        text = worst.text(size)
        if cost[worst] > SLACK + SECONDS * size and seconds(pattern, text, searched) > SLACK:
            return f"{cost[worst]:.3f} s for {size} characters {text[:20]!r}...{text[-5:]!r}"
        if size == SIZES[1]:
            candidates = [worst]
    return ""


def test_an_expression_takes_time_in_proportion_to_its_text() -> None:
    assert len(patterns()) > 30
    found = {
        (place, pattern.pattern): slow(pattern, searched) for (pattern, searched), place in patterns().items()
    }
    assert {place: said for place, said in found.items() if said} == {}
