"""`make docs`: the pages of this repository as a site, built strictly by Zensical.

Run as `python -m tests.harness.docs`. Zensical renders another Markdown than GitHub
does, so each page is staged first and then reads the same in both places: links to
what is no page lead to the repository, and lists and tables are written as Zensical
reads them. Nobody edits a staged page.

`stage` reads and writes files, `build` starts Zensical; the rest is pure.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.checked_in import ROOT

CONFIGURATION: Final = "mkdocs.yml"
FRONT: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
}
"""Pages of the top folder, and their names on the site."""
PAGES: Final = "pages"
SITE: Final = "site"
"""Where the staged pages and the site are in the folder of a build."""

_FENCE: Final = re.compile(r" *(`{3,}|~{3,})")
_ITEM: Final = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)]) ")
_CODE: Final = re.compile(r"(`[^`]+`|``.+?``)")
_TARGET: Final = re.compile(r'(?<=\]\()[^)\s]+(?=\))|(?<=src=")[^"]+(?=")|(?<=href=")[^"]+(?=")')
_COMMENT: Final = re.compile(r"<!--.*?-->")
_SCHEME: Final = re.compile(r"[a-z]+:")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_PROBLEM: Final = re.compile(r"Warning: (.+)\n.*\[ (\S+):(\d+):\d+ \]")
_IMAGES: Final = (".gif", ".jpg", ".png", ".svg", ".webp")


@dataclass(frozen=True)
class Address:
    """Where the repository is, for links to what is no page."""

    repository: str = "https://github.com/example/trainyard"
    """As a browser opens it."""
    revision: str = "main"
    """A branch, a tag or a commit."""

    def of(self, path: str, *, folder: bool) -> str:
        """The address of a file or a folder; an image's is one that a page can show."""
        kind = "tree" if folder else "raw" if path.endswith(_IMAGES) else "blob"
        return f"{self.repository}/{kind}/{self.revision}/{path}"


def place(path: str) -> str | None:
    """Where a file of the repository is on the site; None for what is not on it.

    Args:
        path: From the root of the repository.
    """
    if path in FRONT:
        return FRONT[path]
    folder, _, below = path.partition("/")
    if folder != "docs" or not below.endswith((".md", *_IMAGES)):
        return None
    return re.sub(r"(^|/)README\.md$", r"\1index.md", below)


def staged(text: str, path: str, root: Path, address: Address) -> str:
    """A page as Zensical reads it.

    Args:
        text: The page.
        path: Where it is, from the root of the repository.
        root: The repository.
        address: Where links lead to what is no page.
    """

    def link(match: re.Match[str]) -> str:
        return _link(match[0], path, root, address)

    lines = [line if code else _prose(line, link) for line, code in marked(text.splitlines())]
    return "\n".join(_lists(lines)) + "\n"


def navigation(entries: Sequence[Any], pages: Sequence[str]) -> list[Any]:
    """The navigation with each pattern, such as `adr/0*.md`, replaced by the pages that it matches."""
    return [entry for item in entries for entry in _entries(item, pages)]


def places(entries: Sequence[Any]) -> Iterator[str]:
    """Every page of a navigation, in its order."""
    for item in entries:
        match item:
            case str():
                yield item
            case dict() as named:
                for below in named.values():
                    yield from places([below] if isinstance(below, str) else below)


def marked(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is of a block of code."""
    fence = ""
    for line in lines:
        match = _FENCE.match(line)
        yield line, bool(fence or match)
        if fence and line.strip().startswith(fence):
            fence = ""
        elif match and not fence:
            fence = match[1]


def stage(root: Path, folder: Path, address: Address, site: str | None = None) -> None:
    """Write the staged pages, and the configuration that Zensical reads, into a folder.

    Args:
        root: The repository.
        folder: Where to; `pages` in it is replaced.
        address: Where links lead to what is no page.
        site: The site's own address, if it has one.
    """
    pages = folder / PAGES
    shutil.rmtree(pages, ignore_errors=True)
    sources = [*(root / name for name in FRONT), *sorted((root / "docs").rglob("*.*"))]
    for source in sources:
        path = source.relative_to(root).as_posix()
        if (target := place(path)) and source.is_file():
            (pages / target).parent.mkdir(parents=True, exist_ok=True)
            if target.endswith(".md"):
                (pages / target).write_text(staged(source.read_text("utf-8"), path, root, address), "utf-8")
            else:
                shutil.copy(source, pages / target)
    settings = yaml.safe_load((root / CONFIGURATION).read_text("utf-8"))
    names = sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md"))
    around: Mapping[str, Any] = {
        "docs_dir": PAGES,
        "site_dir": SITE,
        "repo_url": address.repository,
        **({"site_url": site} if site else {}),
        "nav": navigation(settings["nav"], names),
    }
    (folder / CONFIGURATION).write_text(yaml.safe_dump({**settings, **around}, sort_keys=False), "utf-8")


def build(folder: Path) -> str:
    """Build the site from what `stage` has written.

    Returns:
        What is wrong, one problem a line with its file and about its line; nothing if the site is built.
    """
    shutil.rmtree(folder / SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file"]
    answer = subprocess.run(
        [*command, CONFIGURATION], cwd=folder, capture_output=True, text=True, check=False
    )
    if answer.returncode == 0:
        return ""
    output = _COLOUR.sub("", answer.stdout + answer.stderr)
    problems = [f"{_source(page)}:{line}: {words}\n" for words, page, line in _PROBLEM.findall(output)]
    return "".join(problems) or output


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.docs", description="Build the site.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--repository", default=Address.repository, metavar="ADDRESS")
    parser.add_argument("--revision", default=Address.revision, metavar="REF")
    parser.add_argument("--site", metavar="ADDRESS", help="the site's own")
    options = parser.parse_args(arguments)
    stage(ROOT, options.output, Address(options.repository, options.revision), options.site)
    problems = build(options.output)
    if problems:
        print(problems, end="", file=sys.stderr)
        return 1
    print(f"Built: {options.output / SITE / 'index.html'}")
    return 0


def _source(page: str) -> str:
    """The file of a page of the site."""
    front = {target: file for file, target in FRONT.items()}
    return front.get(page) or "docs/" + re.sub(r"(^|/)index\.md$", r"\1README.md", page)


def _entries(item: Any, pages: Sequence[str]) -> Iterator[Any]:
    match item:
        case str() if "*" in item:
            yield from (page for page in pages if Path(page).match(item))
        case dict() as named:
            yield {
                title: below if isinstance(below, str) else navigation(below, pages)
                for title, below in named.items()
            }
        case _:
            yield item


def _prose(line: str, link: Callable[[re.Match[str]], str]) -> str:
    """A line of no block of code, with its links; in a table Zensical takes a pipe in code as it is."""
    parts = _CODE.split(line)
    if line.lstrip().startswith("|"):
        parts[1::2] = [code.replace(r"\|", "|") for code in parts[1::2]]
    parts[::2] = [_COMMENT.sub("", _TARGET.sub(link, words)) for words in parts[::2]]
    return "".join(parts)


def _link(target: str, path: str, root: Path, address: Address) -> str:
    """Where a link of a page leads on the site."""
    if _SCHEME.match(target) or target.startswith("#"):
        return target
    file, hash_, anchor = target.partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
    if (root / there / "README.md").is_file() and place(f"{there}/README.md"):
        there = f"{there}/README.md"
    if page := place(there):
        here = posixpath.dirname(place(path) or "")
        return posixpath.relpath(page, here or ".") + hash_ + anchor
    return address.of(there, folder=(root / there).is_dir()) + hash_ + anchor


def _lists(lines: Sequence[str]) -> Iterator[str]:
    """The lines, with what belongs to an item of a list four columns to the right of it.

    GitHub takes it where the words of the item begin, Zensical only there; and where an item has
    several paragraphs, Zensical finds the next item only after an empty line.
    """
    pairs, position = list(marked(lines)), 0
    while position < len(lines):
        line, code = pairs[position]
        item = None if code else _ITEM.match(line)
        position += 1
        if item is None:
            yield line
            continue
        width, below = item.end(), []
        while position < len(lines) and (not lines[position] or lines[position].startswith(" " * width)):
            below.append(lines[position][width:])
            position += 1
        first, *rest = _lists([line[width:], *below])
        yield item[0] + first
        yield from (f"    {words}" if words else "" for words in rest)
        if "" in below[:-1] and below[-1]:
            yield ""


if __name__ == "__main__":
    sys.exit(main())
