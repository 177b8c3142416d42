"""Pages are staged so that Zensical shows what GitHub shows, and a site is built of whole pages only."""

from pathlib import Path

import pytest

from tests.harness import docs
from tests.harness.docs import Address, build, navigation, place, stage, staged

HERE = Address("https://git.example.com/team/yard", "v1")
CONFIGURATION = (
    "site_name: Yard\ntheme: {name: material}\nnav: [index.md, {Decisions: [adr/index.md, adr/0*.md]}]\n"
)
PAGES = {
    "README.md": "# Yard\n\nSee [stacks](docs/stacks.md).\n",
    "docs/stacks.md": "# Stacks\n\n## Add one\n",
    "docs/adr/README.md": "# Decisions\n",
    "docs/adr/0001-a.md": "# 1. A\n",
    "docs/adr/0002-b.md": "# 2. B\n",
    "docs/figure.svg": "<svg/>",
    "docs/notes.txt": "of nobody",
    "examples/job.yaml": "kind: TrainJob\n",
    "mkdocs.yml": CONFIGURATION,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a few pages."""
    for path, text in PAGES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "expected"),
    {
        "README.md": "index.md",
        "SECURITY.md": "security-policy.md",
        "docs/stacks.md": "stacks.md",
        "docs/adr/README.md": "adr/index.md",
        "docs/adr/0001-a.md": "adr/0001-a.md",
        "docs/performance/burst.svg": "performance/burst.svg",
        "docs/notes.txt": None,
        "examples/README.md": None,
        "stacks": None,
    }.items(),
)
def test_a_page_is_on_the_site_without_its_folder(path: str, expected: str | None) -> None:
    assert place(path) == expected


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        pytest.param(
            "README.md", "docs/stacks.md#add-one", "stacks.md#add-one", id="from the front to a guide"
        ),
        pytest.param("docs/stacks.md", "../README.md#try", "index.md#try", id="from a guide to the front"),
        pytest.param("docs/stacks.md", "adr", "adr/index.md", id="to a folder with an index"),
        pytest.param("docs/adr/0001-a.md", "../stacks.md", "../stacks.md", id="between folders"),
        pytest.param("docs/stacks.md", "figure.svg", "figure.svg", id="to a picture of the pages"),
        pytest.param("docs/stacks.md", "#add-one", "#add-one", id="within a page"),
        pytest.param("docs/stacks.md", "https://example.com/a#b", "https://example.com/a#b", id="elsewhere"),
        pytest.param(
            "docs/stacks.md",
            "../examples/job.yaml",
            "https://git.example.com/team/yard/blob/v1/examples/job.yaml",
            id="to a file",
        ),
        pytest.param(
            "docs/adr/0001-a.md",
            "../../examples",
            "https://git.example.com/team/yard/tree/v1/examples",
            id="to a folder",
        ),
        pytest.param(
            "README.md",
            "examples/plot.png",
            "https://git.example.com/team/yard/raw/v1/examples/plot.png",
            id="to a picture elsewhere",
        ),
    ],
)
def test_a_link_leads_to_a_page_or_to_the_repository(root: Path, page: str, link: str, expected: str) -> None:
    assert staged(f"[`a`]({link}), `[b]({link})`", page, root, HERE) == f"[`a`]({expected}), `[b]({link})`\n"


def test_lists_and_tables_are_written_as_zensical_reads_them(root: Path) -> None:
    page = """\
<!-- made -->
1. First:

   ```console
   - no item | <!-- no comment -->
   ```
2. Second
   - with `a` below
     it

| a |
|---|
| `x \\| y` \\| z <!-- note --> |

```text
- [no](link.md)
  item
```
"""
    assert (
        staged(page, "docs/stacks.md", root, HERE)
        == """\

1. First:

    ```console
    - no item | <!-- no comment -->
    ```

2. Second
    - with `a` below
        it

| a |
|---|
| `x | y` \\| z  |

```text
- [no](link.md)
  item
```
"""
    )


def test_a_pattern_of_the_navigation_stands_for_the_pages_that_it_matches() -> None:
    pages = ["adr/0001-a.md", "adr/0002-b.md", "adr/index.md", "stacks.md"]
    entries = ["stacks.md", {"Decisions": ["adr/index.md", "adr/0*.md", {"First": "adr/0001-a.md"}]}]
    expanded = navigation(entries, pages)
    assert expanded == [
        "stacks.md",
        {"Decisions": ["adr/index.md", "adr/0001-a.md", "adr/0002-b.md", {"First": "adr/0001-a.md"}]},
    ]
    assert list(docs.places(expanded)) == [
        "stacks.md",
        "adr/index.md",
        "adr/0001-a.md",
        "adr/0002-b.md",
        "adr/0001-a.md",
    ]


def test_a_link_to_what_is_not_there_ends_the_build_and_is_named_with_its_place(root: Path) -> None:
    (root / "docs/stacks.md").write_text("# Stacks\n\n[a](sites.md)\n\n[b](../README.md#no)\n\n[c](#no)\n")
    folder = root / "dist"
    stage(root, folder, HERE)
    assert build(folder) == (
        "docs/stacks.md:3: page does not exist\n"
        "docs/stacks.md:5: anchor does not exist\n"
        "docs/stacks.md:7: anchor does not exist\n"
    )


def test_a_build_takes_the_place_of_the_one_before(root: Path) -> None:
    folder = root / "dist"
    stage(root, folder, HERE, "https://docs.example.com/")
    assert build(folder) == ""
    (root / "docs/stacks.md").rename(root / "docs/sites.md")
    (root / "README.md").write_text("# Yard\n\nSee [sites](docs/sites.md).\n")
    stage(root, folder, HERE, "https://docs.example.com/")
    assert build(folder) == ""
    site = folder / docs.SITE
    assert sorted(page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")) == [
        ".",
        "adr",
        "adr/0001-a",
        "adr/0002-b",
        "sites",
    ]
