"""A name that crosses a border is written once, in `trainyard_api.names`; a variable is a noun."""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from trainyard_api import names

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("api", "assist", "cli", "delivery", "kube", "operator", "platform", "policies", "trainers")
PLURALS = {names.TRAINJOBS, names.TRAINING_RUNTIMES, names.CLUSTER_TRAINING_RUNTIMES, names.JOBSETS}


def written_once() -> set[str]:
    """Names that mean one thing wherever they stand; plain words are left out."""
    marked = {text for text in vars(names).values() if isinstance(text, str) and set(text) & set(".-/")}
    return {text for text in marked if " " not in text} | PLURALS | {names.UNANSWERED}


def texts(file: Path) -> list[str]:
    tree = ast.parse(file.read_text())
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_no_other_module_spells_a_name() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py") if file.name != "names.py"]
    assert len(files) > 300
    once = written_once()
    assert {"trainyard-system", "trainer.kubeflow.org", "trainjobs"} <= once
    spelt = {str(file.relative_to(ROOT)): sorted(once & set(texts(file))) for file in files}
    assert {file: spellings for file, spellings in spelt.items() if spellings} == {}


def test_the_types_of_json_are_defined_once() -> None:
    definition = re.compile(r"^(Json|JsonValue|Manifest)\b[^=\n]*= ", re.MULTILINE)
    files = [
        file for room in (*ROOMS, "sandbox", "benchmarks", "tests") for file in (ROOT / room).rglob("*.py")
    ]
    defining = [file.relative_to(ROOT).as_posix() for file in files if definition.search(file.read_text())]
    assert defining == ["api/trainyard_api/json_types.py"]


REFUSED: Final = {"asked", "found", "known", "o", "one", "said", "told", "wanted", "what"}
"""Variables that do not tell what they hold."""
GOAL: Final = 5
"""Ceiling of every package in the end, in 1,000 bindings."""
CEILINGS: Final[Mapping[str, int]] = {
    ".github/scripts": GOAL,
    "api": GOAL,
    "assist": GOAL,
    "benchmarks": GOAL,
    "cache": GOAL,
    "cli": GOAL,
    "delivery": GOAL,
    "examples": GOAL,
    "initializers": GOAL,
    "kube": GOAL,
    "operator": GOAL,
    "platform": GOAL,
    "policies": GOAL,
    "sandbox": GOAL,
    "trainers": GOAL,
}
"""The most refused names in 1,000 bindings of a package. A ceiling only falls."""
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bindings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name that is bound, with its line; not the targets of a comprehension of one line."""
    short = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _COMPREHENSIONS) and node.lineno == node.end_lineno
    ]
    targets = {id(name) for node in short for part in node.generators for name in ast.walk(part.target)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in targets:
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield name, node.lineno


def refused(tree: ast.AST) -> list[str]:
    return sorted(name for name, _ in bindings(tree) if name in REFUSED)


@pytest.mark.parametrize(
    ("source", "names_refused"),
    [
        ("found = 1", ["found"]),
        ("found: int = 1", ["found"]),
        ("self.said = 1", ["said"]),
        ("one, (*o, rest) = pair", ["o", "one"]),
        ("for one in pods: ...", ["one"]),
        ("with lock as told: ...", ["told"]),
        ("try: ...\nexcept OSError as what: ...", ["what"]),
        ("def look(asked, *known, wanted=None, **said): ...", ["asked", "known", "said", "wanted"]),
        ("look = lambda one: one.name", ["one"]),
        ("match value:\n    case [one, *found]: ...", ["found", "one"]),
        ("{one.name for one in pods}", []),
        ("any((found := one) for one in pods)", ["found"]),
        ("[\n    one\n    for one in pods\n]", ["one"]),
        ("look(found=pods.found, said=None)", []),
    ],
)
def test_a_refused_name_counts_wherever_it_is_bound_except_in_a_comprehension_of_one_line(
    source: str, names_refused: list[str]
) -> None:
    assert refused(ast.parse(source)) == names_refused


@pytest.mark.parametrize("package", CEILINGS)
def test_variables_are_nouns_of_what_they_hold(package: str) -> None:
    places, count = [], 0
    for file in sorted((ROOT / package).rglob("*.py")):
        for name, line in bindings(ast.parse(file.read_text())):
            count += 1
            if name in REFUSED:
                places.append(f"{file.relative_to(ROOT)}:{line}: {name}")
    figure, ceiling = 1000 * len(places) / count, CEILINGS[package]
    assert figure <= ceiling, (
        f"{package} has {figure:.1f} refused names in 1,000 bindings, and its ceiling is {ceiling}. Call a "
        "variable by the noun of its value (docs/style.md, Names). The first are:\n" + "\n".join(places[:30])
    )
    lower = max(GOAL, math.ceil(figure))
    assert ceiling <= lower + 1, (
        f"{package} has only {figure:.1f} refused names in 1,000 bindings: lower its ceiling in "
        f"tests/test_names.py from {ceiling} to {lower}"
    )


def test_every_package_has_a_ceiling() -> None:
    packages = {file.relative_to(ROOT).parts[0] for file in ROOT.glob("*/*/__init__.py")}
    assert packages - {"tests"} <= CEILINGS.keys()
