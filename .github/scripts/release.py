"""Hold a release to one version.

    release.py check TAG
    release.py notes TAG ADDRESS
    release.py set VERSION

`check` says where the version in the repository is not the tag's (`v0.1.0` for
0.1.0), and what the changelog lacks. `notes` prints the changelog of the tag's
version and of its candidates, with links to the files at ADDRESS. `set` writes a
new version wherever the repository has the present one. Exit code 1: it is not one
version. Needs nothing but Python's standard library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_NUMBER = r"([0-9][0-9a-z.]*[0-9a-z])"
_IMAGED = "/trainyard/[a-z-]+:"
_IMAGE = f"{_IMAGED}{_NUMBER}"
PLACES: Mapping[str, str] = {
    "pyproject.toml": r'(?m)^version = "([^"]+)"$',
    "policies/PulumiPolicy.yaml": r"(?m)^version: (\S+)$",
    "examples/site/policies/PulumiPolicy.yaml": r"(?m)^version: (\S+)$",
    "examples/*/trainjob.yaml": _IMAGE,
    "examples/kubectl-plugin/trainyard.yaml": r"(?m)(?:^  version: |/download/)v([0-9][^/\s]*)",
    "stacks/*.yaml": _IMAGE,
    "runtimes/*/*.yaml": _IMAGE,
    "runtimes/images.yaml": r'/trainyard/[a-z-]+\n +tag: "([^"]+)"',
    "sandbox/images/images.yaml": _IMAGE,
    "docs/*.md": (
        rf"(?:{_IMAGED}|example\.com/trainers:|/releases/download/v|/trainyard-|trainyard\[[a-z,]+\]==|FROM=v)"
        rf"{_NUMBER}"
    ),
    "SECURITY.md": rf"refs/tags/v{_NUMBER}",
}
"""Where the version is: files, and what stands around it. Images that only the sandbox has are `:sandbox`."""
VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?")


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Each version in the repository, with its place as `file:line`."""
    for pattern, expression in PLACES.items():
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            for match in re.finditer(expression, text):
                line = text.count("\n", 0, match.start(1)) + 1
                yield f"{path.relative_to(root)}:{line}", match[1]


def problems(root: Path, tag: str) -> list[str]:
    """A sentence for each thing that keeps the tag from being a release; none where nothing does."""
    version = tag.removeprefix("v")
    if tag == version or not VERSION.fullmatch(version):
        return [f"{tag}: a release has a tag such as v0.1.0"]
    sentences = [
        f"{place}: is {other}, must be {version}; run python3 .github/scripts/release.py set {version}"
        for place, other in versions(root)
        if other != version
    ]
    notes = section(root, version)
    if notes is None:
        sentences.append(f"CHANGELOG.md: has no `## {version} (YYYY-MM-DD)`; run make changelog")
    elif not notes:
        sentences.append(f"CHANGELOG.md: says nothing below `## {version}`; write what the version changes")
    fragments = sorted(path.name for path in (root / "changes").glob("*.*.md"))
    sentences += [f"changes/{name}: is in no version yet; run make changelog" for name in fragments]
    return sentences


def section(root: Path, version: str) -> str | None:
    """What the changelog says of a version that has a date, and of its candidates; None if it lacks it."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(rf"(?m)^## {_NUMBER} \(\d{{4}}-\d\d-\d\d\)\n", text)
    sections = {
        name: re.split(r"(?m)^## ", rest, maxsplit=1)[0].strip()
        for name, rest in zip(parts[1::2], parts[2::2], strict=True)
    }
    if version not in sections:
        return None
    # `make changelog` has moved to a candidate what the final version does not say again.
    candidate = re.compile(rf"{re.escape(version)}(?:a|b|rc)[0-9]+")
    candidates = [
        f"## {name}\n\n{notes}" for name, notes in sections.items() if notes and candidate.fullmatch(name)
    ]
    return "\n\n".join(filter(None, [sections[version], *candidates]))


def set_version(root: Path, version: str) -> None:
    """Write the version wherever the repository has one."""
    for pattern, expression in PLACES.items():
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            changed = re.sub(expression, lambda match: match[0].replace(match[1], version), text)
            if changed != text:
                path.write_text(changed, encoding="utf-8")


def main(arguments: Sequence[str], root: Path) -> int:
    """Do what the command line says; returns the exit code."""
    match arguments:
        case ["check", tag]:
            sentences = problems(root, tag)
            print("\n".join(sentences) or f"{tag}: one version", file=sys.stderr if sentences else sys.stdout)
            return 1 if sentences else 0
        case ["notes", tag, address]:
            print(re.sub(r"\]\((?!https?:|#)", f"]({address}/", section(root, tag.removeprefix("v")) or ""))
        case ["set", version] if not VERSION.fullmatch(version):
            print(f"{version}: a version is one such as 0.2.0", file=sys.stderr)
            return 1
        case ["set", version]:
            set_version(root, version)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).parents[2]))
