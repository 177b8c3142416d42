"""The pages of the documentation: each has its place on the site, and reads there as it does on GitHub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.harness import docs
from tests.support.checked_in import ROOT, hold
from tests.support.yaml_files import load

FILES = [*docs.FRONT, *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))]
TEXTS = {file: (ROOT / file).read_text("utf-8") for file in FILES}
GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NAVIGATION: list[dict[str, Any]] = load(ROOT / docs.CONFIGURATION)["nav"]
GROUPS = [
    "Start",
    "Train",
    "Run a platform",
    "Catalog and policies",
    "Operate",
    "Reference",
    "Decisions",
]
HTML = {"a", "br", "details", "img", "p", "picture", "source", "summary"}
"""Elements that a page may use; any other tag is a word that nobody gets to read."""
_STRUCTURE = {"h1", "h2", "h3", "h4", "li", "ol", "ul", "table", "tr", "strong", "em", "blockquote", "img"}
_TAG = re.compile(r"<!--.*?-->|</?([a-z_-]+)", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")
_MARKUP = re.compile(r"[`*]|\]\([^)]*\)|\[")
_ARROW = re.compile(r"^  (\w+) --> (\w+)$", re.MULTILINE)
_IMPORT = re.compile(r"^\s*(?:from|import) trainyard_(\w+)", re.MULTILINE)
_STATUS = re.compile(r"\n## Status\n\nAccepted, (\d{4}-\d{2}-\d{2})\. ?(.*)\n")
DECISIONS = """\
# Decisions

<!-- Made from the pages of this folder by `make generate`; do not edit. -->

Each page describes a decision that would surprise a reader of the code, with reasons and consequences.

| number | decided | decision | since then |
|---|---|---|---|
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, from a build that ends at the first link or heading that is not there."""
    folder = tmp_path_factory.mktemp("docs")
    docs.stage(ROOT, folder, docs.Address())
    assert docs.build(folder) == ""
    return folder / docs.SITE


class Words(HTMLParser):
    """What a page says and how it is built up, without the spaces."""

    def __init__(self, html: str, *, inside: str | None = None) -> None:
        super().__init__()
        self.inside, self.reads, self.parts = inside, inside is None, list[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == self.inside:
            self.reads = True
        elif self.reads and ("class", "headerlink") in attrs:
            self.reads = False
        elif self.reads and tag in _STRUCTURE:
            self.parts.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.inside:
            self.reads = False
        elif tag in ("h1", "h2", "h3", "h4"):
            self.reads = True

    def handle_data(self, data: str) -> None:
        if self.reads:
            self.parts.extend(data.split())

    def __str__(self) -> str:
        return "".join(self.parts)


def built(site: Path, file: str) -> str:
    """The HTML of a page."""
    page = Path(docs.place(file) or "")
    folder = page.parent if page.name == "index.md" else page.with_suffix("")
    return (site / folder / "index.html").read_text("utf-8")


def difference(first: str, second: str) -> tuple[str, str] | None:
    """Where two texts part; None where they do not."""
    if first == second:
        return None
    places = enumerate(zip(first, second, strict=False))
    at = next((at for at, (one, other) in places if one != other), min(len(first), len(second)))
    return first[max(0, at - 40) : at + 40], second[max(0, at - 40) : at + 40]


def headings(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    lines = (line for line, code in docs.marked(text.splitlines()) if not code and line.startswith("#"))
    titles = (_MARKUP.sub("", line.lstrip("#")).strip().lower() for line in lines)
    names = [re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in titles]
    return {
        f"{name}-{number}" if number else name
        for name, times in Counter(names).items()
        for number in range(times)
    }


def test_each_page_has_its_place_in_the_navigation() -> None:
    pages = sorted(docs.place(file) or "" for file in FILES)
    listed = list(docs.places(docs.navigation(NAVIGATION, pages)))
    missing = sorted(set(pages) - set(listed))
    assert missing == [], f"mkdocs.yml, nav: name the pages {missing}, each in its group"
    assert sorted(listed) == pages, "mkdocs.yml, nav: name each page once, and only pages that are there"


def test_the_navigation_has_seven_groups() -> None:
    assert [title for group in NAVIGATION for title in group] == GROUPS


def test_a_page_reads_on_the_site_as_on_github(site: Path) -> None:
    differences = {
        file: difference(str(Words(GITHUB.render(text))), str(Words(built(site, file), inside="article")))
        for file, text in TEXTS.items()
    }
    assert {file: parted for file, parted in differences.items() if parted} == {}


def test_the_pictures_are_drawn(site: Path) -> None:
    drawn = {file: built(site, file).count('<pre class="mermaid">') for file in FILES}
    assert drawn == {file: text.count("\n```mermaid\n") for file, text in TEXTS.items()}
    assert drawn["docs/architecture.md"] == 3


def test_no_word_of_a_page_is_lost_as_a_tag() -> None:
    tags = {
        file: {tag for part in parts(text) for tag in _TAG.findall(part) if tag} - HTML
        for file, text in TEXTS.items()
    }
    assert {file: lost for file, lost in tags.items() if lost} == {}


def parts(text: str) -> Iterator[str]:
    """What GitHub takes for HTML in a page."""
    for token in GITHUB.parse(text):
        for part in (token, *(token.children or ())):
            if part.type in ("html_block", "html_inline"):
                yield part.content


def test_a_link_to_a_heading_leads_there_on_github_too() -> None:
    broken = [
        f"{file}: {target}#{anchor}"
        for file, text in TEXTS.items()
        for target, anchor in _LINK.findall(text)
        if (path := (ROOT / file).parent / target if target else ROOT / file).suffix == ".md"
        if anchor not in headings(path.read_text("utf-8"))
    ]
    assert broken == []


def test_the_index_of_the_decisions_is_current() -> None:
    rows = []
    for file in sorted(ROOT.glob("docs/adr/[0-9]*.md")):
        text = file.read_text("utf-8")
        number, title = re.match(r"# (\d+)\. (.+)", text).groups()
        status = _STATUS.search(text)
        assert status, f"{file.name}: the section Status must begin with: Accepted, YYYY-MM-DD."
        rows.append(f"| {number} | {status[1]} | [{title}]({file.name}) | {status[2]} |\n")
    hold(ROOT / "docs/adr/README.md", DECISIONS + "".join(rows))


def test_the_picture_of_the_house_shows_what_imports_what() -> None:
    picture = TEXTS["docs/architecture.md"].split("```")[1]
    arrows = set(_ARROW.findall(picture))
    imports = {
        (file.parent.relative_to(ROOT).parts[1].removeprefix("trainyard_"), name)
        for file in ROOT.glob("*/trainyard_*/**/*.py")
        if file.relative_to(ROOT).parts[0] != "tests"
        for name in _IMPORT.findall(file.read_text("utf-8"))
    }
    imports -= {(package, package) for package, _ in imports}
    assert arrows - imports == set(), "arrows of the picture that no import has"
    reached = set(arrows)
    while further := {(a, d) for a, b in reached for c, d in arrows if b == c} - reached:
        reached |= further
    assert imports - reached == set(), "imports that no arrow of the picture leads to"
    packages = {
        path.parent.name.removeprefix("trainyard_") for path in ROOT.glob("*/trainyard_*/__init__.py")
    }
    assert packages == set(re.findall(r"^    (\w+)\[", picture, re.MULTILINE))
