"""changes/: one file for each change that users notice, which a release joins to the changelog."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOWNCRIER = PROJECT["tool"]["towncrier"]
KINDS = {kind["directory"]: kind["name"] for kind in TOWNCRIER["type"]}
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name not in TOWNCRIER["ignore"])
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
MOST_WORDS = 60


def complaint(name: str, text: str) -> str:
    """What is wrong with a fragment; empty if nothing is."""
    match = re.fullmatch(r"[a-z0-9-]+\.([a-z]+)\.md", name)
    if not match or match[1] not in KINDS:
        return f"{name}: must be called NAME.KIND.md, with one of the kinds {', '.join(KINDS)}"
    if len(paragraphs := text.strip().split("\n\n")) != 1 or not paragraphs[0]:
        return f"{name}: must be one paragraph"
    if re.match(r"[-*#>|]", paragraphs[0]):
        return f"{name}: must be plain text, without a mark at its start"
    if (words := len(text.split())) > MOST_WORDS:
        return f"{name}: has {words} words, of at most {MOST_WORDS}"
    return ""


def joined(folder: Path, *options: str) -> str:
    """What `make changelog` prints in a project that has this folder's fragments."""
    command = [sys.executable, "-m", "towncrier", "build", "--version", "9.9.9", "--date", "2030-01-02"]
    answer = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our settings and no fragment."""
    (tmp_path / "changes").mkdir()
    for file in ("pyproject.toml", "changes/template.md", "changes/README.md"):
        (tmp_path / file).write_text((ROOT / file).read_text())
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n<!-- releases -->\n\n## 9.9.8 (2030-01-01)\n\n- Old.\n"
    )
    return tmp_path


def test_each_fragment_has_a_known_kind_and_a_single_short_paragraph() -> None:
    assert [text for path in FRAGMENTS if (text := complaint(path.name, path.read_text()))] == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("quick-queue.train.md", "`trainyard queue` answers\nsooner.\n", ""),
        (
            "quick-queue.feature.md",
            "It does.",
            "quick-queue.feature.md: must be called NAME.KIND.md, with one of the kinds breaking, train, "
            "platform, operate",
        ),
        (
            "Queue.md",
            "It does.",
            "Queue.md: must be called NAME.KIND.md, with one of the kinds breaking, train, platform, operate",
        ),
        ("queue.train.md", "", "queue.train.md: must be one paragraph"),
        ("queue.train.md", "It does.\n\nAlways.\n", "queue.train.md: must be one paragraph"),
        ("queue.train.md", "- It does.\n", "queue.train.md: must be plain text, without a mark at its start"),
        ("queue.train.md", "word " * 61, "queue.train.md: has 61 words, of at most 60"),
    ],
)
def test_a_fragment_that_would_not_read_well_is_named_with_the_reason(
    name: str, text: str, message: str
) -> None:
    assert complaint(name, text) == message


def test_a_release_joins_fragments_by_who_notices_them(project: Path) -> None:
    fragments = {
        "b.train.md": "`trainyard queue` answers\nsooner. ([guide](../docs/data-scientists.md))\n",
        "a.train.md": "A second change.\n",
        "key.breaking.md": "`old` is now `new`.\n",
    }
    for name, text in fragments.items():
        (project / "changes" / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    subprocess.run(["git", "add", "changes"], cwd=project, check=True)
    joined(project, "--yes")
    assert (project / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n<!-- releases -->\n\n"
        "## 9.9.9 (2030-01-02)\n\n"
        "### To change when you upgrade\n\n"
        "- `old` is now `new`.\n\n"
        "### For data scientists\n\n"
        "- A second change.\n"
        "- `trainyard queue` answers sooner. ([guide](docs/data-scientists.md))\n\n"
        "## 9.9.8 (2030-01-01)\n\n- Old.\n"
    )
    assert sorted(path.name for path in (project / "changes").iterdir()) == ["README.md", "template.md"]


def test_a_fragment_of_an_unknown_kind_ends_the_release(project: Path) -> None:
    (project / "changes/queue.feature.md").write_text("It does.\n")
    with pytest.raises(AssertionError, match=r"Invalid news fragment name: queue\.feature\.md"):
        joined(project, "--draft")


def test_the_page_about_fragments_has_each_kind() -> None:
    page = (ROOT / "changes/README.md").read_text()
    assert re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE) == [*KINDS]
    assert f"at most {MOST_WORDS} words" in page


def test_the_changelog_of_a_version_groups_short_sentences_by_who_notices_them() -> None:
    bullets = re.findall(r"^- (.+)$", CHANGELOG, re.MULTILINE)
    assert [bullet for bullet in bullets if len(bullet.split()) > MOST_WORDS] == []
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= {*KINDS.values()}
    assert re.search(r"^## (\S+)", CHANGELOG, re.MULTILINE)[1] == PROJECT["project"]["version"]
