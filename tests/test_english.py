"""Prose avoids the words and turns of phrase that readers stumble over (docs/style.md, Words)."""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = (
    "platform/trainyard_platform/stack",
    "api/trainyard_api/configuration.py",
    "api/trainyard_api/pools.py",
    "policies/trainyard_policies/parameters.py",
    "policies/trainyard_policies/settings.py",
)
"""Modules whose strings below fields editors show, and the reference pages contain."""
PACKAGES: Final = ("api", "assist", "cli", "delivery", "kube", "operator", "platform", "policies")
_PHRASES: Final = (
    r"anew",
    r"all the same",
    r"(?:is|are|was|were|be) (?:asked|said|told)\b(?! to)",
    r"(?:is|are) (?:already )?there already",
    r"(?<!let )(?<!leave )(?<!Let )(?<!left )alone",
    r"beside",
    r"become?s? of (?:a|an|each|it|the|them)",
    r"for ever",
    r"for want of",
    r"go(?:es|ing)? on",
    r"in (?:its|their|the) own words",
    r"in (?:\w+'s?|the cloud's|Kubernetes') words",
    r"mostly",
    r"one (?:claim|container|file|folder|line|page|pod|process|row|test) an? \w+",
    r"(?<!here )is no (?:archive|directory|duration|file|folder|name|number|port|terminal)",
    r"(?:file|git|header|line|page|runtime|settings?|stack|table) (?:itself )?says?",
    r"what (?:there )?is (?:asked|there|no|wanted)",
    r"whoever",
    r"win over",
)
REFUSED: Final = re.compile(rf"\b(?:{'|'.join(_PHRASES)})\b", re.IGNORECASE)
"""Words that docs/style.md refuses, and turns of phrase in place of a noun or a verb."""
GOAL: Final = 5
"""Ceiling of all prose in the end, in 10,000 words."""
CEILINGS: Final[Mapping[str, int]] = {
    "decisions": GOAL,
    "docstrings": GOAL,
    "guides": GOAL,
    "messages": GOAL,
    "settings": GOAL,
}
"""The most refused phrases in 10,000 words of a kind of prose. A ceiling only falls."""
_CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)\n]*\)", re.MULTILINE | re.DOTALL)
_UNWRITTEN: Final = ("compatibility.md", "performance.md", "style.md")
"""Pages that are data, or lists of words to avoid."""

Text = tuple[str, str]
"""Where a text begins, and the text."""


def page(file: Path) -> Text:
    """The prose of a page: no code, no targets of links."""
    return file.relative_to(ROOT).as_posix(), _CODE.sub(" ", file.read_text(encoding="utf-8"))


@cache
def strings(file: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The strings that stand alone in a module, with their lines, and the others: read once for all kinds."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    lone = {id(node.value): node.lineno for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return (
        [(lone[id(node)], str(node.value)) for node in constants if id(node) in lone],
        [(node.lineno, str(node.value)) for node in constants if id(node) not in lone],
    )


def docstrings(file: Path) -> list[tuple[int, str]]:
    """The docstrings of a module, and the strings below its fields and constants."""
    return strings(file)[0]


def messages(file: Path) -> list[tuple[int, str]]:
    """The other texts of a module that have several words."""
    return [(line, text) for line, text in strings(file)[1] if text.count(" ") > 2]


def modules(*places: str) -> list[Path]:
    paths = [ROOT / place for place in places]
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]


def texts(kind: str) -> Iterator[Text]:
    match kind:
        case "guides":
            yield from (
                page(file) for file in sorted((ROOT / "docs").glob("*.md")) if file.name not in _UNWRITTEN
            )
        case "decisions":
            yield from map(page, sorted((ROOT / "docs" / "adr").glob("*.md")))
        case "settings" | "docstrings" | "messages":
            places = SETTINGS if kind == "settings" else PACKAGES
            read = messages if kind == "messages" else docstrings
            for file in modules(*places):
                name = file.relative_to(ROOT).as_posix()
                yield from ((f"{name}:{line}", text) for line, text in read(file))


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        ("The job starts anew, and goes on.", ["anew", "goes on"]),
        ("Whoever may read it is told.", ["Whoever", "is told"]),
        ("Pods alone wait for ever beside it.", ["alone", "for ever", "beside"]),
        (
            "A stack says what is wanted: one file a platform.",
            ["stack says", "what is wanted", "one file a platform"],
        ),
        ("What becomes of the job is told to run.", ["becomes of the"]),
        ("Leave it: there is no file. The path is no file.", ["is no file"]),
        ("The standalone job restarts once a minute, besides the other.", []),
    ],
)
def test_a_phrase_is_refused_as_a_whole(sentence: str, phrases: list[str]) -> None:
    assert REFUSED.findall(sentence) == phrases


@pytest.mark.parametrize("kind", CEILINGS)
def test_prose_reads_as_on_kubernetes_io(kind: str) -> None:
    places, words = [], 0
    for place, text in texts(kind):
        words += len(text.split())
        places += [f"{place}: {match[0]}" for match in REFUSED.finditer(text)]
    assert words > 1000
    figure, ceiling = 10_000 * len(places) / words, CEILINGS[kind]
    assert figure <= ceiling, (
        f"{kind} have {figure:.1f} refused phrases in 10,000 words, and their ceiling is {ceiling}. Name who "
        "does what, in the words of Kubernetes (docs/style.md, Words). The first are:\n"
        + "\n".join(places[:40])
    )
    lower = max(GOAL, math.ceil(figure))
    assert ceiling <= lower + 1, (
        f"{kind} have only {figure:.1f} refused phrases in 10,000 words: lower their ceiling in "
        f"tests/test_english.py from {ceiling} to {lower}"
    )
