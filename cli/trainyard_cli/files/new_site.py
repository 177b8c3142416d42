"""The files of a new site: what `examples/site` holds, our workflows, and one stack.

Called by `init`. Reads what comes with Trainyard, and writes into the new site's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from trainyard_api import places
from trainyard_api.errors import UserError
from trainyard_api.places import Site
from trainyard_api.shown import listed
from trainyard_platform.catalog import images

from . import manifests, pin

TEMPLATE: Final = "examples/site"
_WORKFLOWS: Final = ("pull-request", "deploy", "drift")
_COPIED: Final = (
    *(f".github/workflows/{name}.yml" for name in _WORKFLOWS),
    ".github/actions/environment/action.yml",
    ".github/actions/pulumi/action.yml",
    ".github/scripts/keep",
    ".github/scripts/report.py",
    ".github/scripts/stack",
)
_PULL_REQUEST: Final = ".github/workflows/pull-request.yml"
_OF_OUR_OWN_TESTS: Final = ("  # Trainyard's own tests", "  verify:\n")
"""Where the job of a pull request begins that only a clone can run, and where the next one does."""
_LINKS: Final = ("stacks/schema.json", "runtimes/schema.json")
"""What an editor checks files against: that of the installed version."""
_LAST: Final = places.PROJECT_FILE
"""Without it, a folder is no site yet: so it is written last."""
_RULES_OF_A_CLONE: Final = "policies/trainyard_policies/site"
_MOST_NAMED: Final = 3


class NotEmptyError(UserError):
    """The folder has something of its own."""


@dataclass(frozen=True, slots=True)
class File:
    """What a new site has at a path."""

    text: str = ""
    link: str = ""
    """What it is a symbolic link to; empty for a file."""
    executable: bool = False

    def is_at(self, path: Path) -> bool:
        """Whether it is there, unchanged."""
        if self.link:
            return path.is_symlink() and os.readlink(path) == self.link
        try:
            return not path.is_symlink() and path.read_text(encoding="utf-8") == self.text
        except (OSError, UnicodeDecodeError):
            return False

    def write(self, path: Path) -> None:
        """Write it where nothing is."""
        if self.link:
            path.symlink_to(self.link)
            return
        path.write_text(self.text, encoding="utf-8")
        path.chmod(0o755 if self.executable else 0o644)


def sources() -> list[str]:
    """The names of the stacks that a new one can begin as."""
    names = (path.name for path in places.shipped("stacks").glob(places.stack_file("*")))
    return sorted(map(places.stack_of, names))


def stack_file(stack: str, source: str) -> Mapping[str, File]:
    """The file of a stack that begins as a shipped one, by its path; raises as `files`."""
    text = places.shipped(f"stacks/{places.stack_file(source)}").read_text(encoding="utf-8")
    return {f"stacks/{places.stack_file(stack)}": File(_named(text, source, stack))}


def files(requirements: str) -> Mapping[str, File]:
    """What each new site consists of besides its stacks, by path.

    Args:
        requirements: The text of the file that pins a version of Trainyard.

    Raises:
        PlaceError: This installation is not whole.
    """
    template = places.shipped(TEMPLATE)
    own = (path for path in sorted(template.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    held = {path.relative_to(template).as_posix(): _read(path) for path in own}
    held |= {name: _read(places.shipped(name)) for name in _COPIED}
    begin, end = _OF_OUR_OWN_TESTS
    before, _, rest = held[_PULL_REQUEST].text.partition(begin)
    held[_PULL_REQUEST] = File(f"{before}{end}{rest.partition(end)[2]}")
    held[pin.FILE] = File(requirements)
    held |= {name: File(link=f"../.venv/trainyard/{name}") for name in _LINKS}
    return held


def of_fork(fork: Site) -> Mapping[str, File]:
    """What is a clone's own: stacks, runtimes, digests and rules that differ from this version's, by path.

    Raises:
        UserError: A file cannot be read, or this installation is not whole.
    """
    stacks, runtimes = places.shipped("stacks"), places.shipped("runtimes")
    paths = fork.stacks.glob(places.stack_file("*"))
    pairs = [(path, stacks / path.name, f"stacks/{path.name}") for path in paths]
    for path in fork.catalog:
        name = "/".join(path.parts[-2:])
        pairs.append((path, runtimes / name, f"runtimes/{name}"))
    rules = places.shipped("policies/trainyard_policies") / "site"
    for path in (fork.root / _RULES_OF_A_CLONE).glob("*.py"):
        if path.name != "__init__.py":
            pairs.append((path, rules / path.name, f"policies/site/{path.name}"))
    held = {}
    for path, shipped, name in sorted(pairs):
        file = _read(path)
        if not file.is_at(shipped):
            held[name] = file
    known = images.load(runtimes)
    own = [pin.model_dump() for image, pin in images.load(fork.runtimes).items() if known.get(image) != pin]
    if own:
        held[f"runtimes/{images.FILE}"] = File(yaml.safe_dump({"images": own}, sort_keys=False))
    return held


def left_out(fork: Site) -> list[str]:
    """The shipped runtimes that a clone has removed: a stack of another site has to leave them out."""
    there = {path.stem for path in fork.catalog}
    return sorted({path.stem for path in places.catalog(places.shipped("runtimes"))} - there)


def write(folder: Path, held: Mapping[str, File]) -> None:
    """Write a site's files; those that are there unchanged stay.

    Killed at any moment, it leaves a folder that is no site yet, in which the same call goes on.

    Raises:
        NotEmptyError: The folder has something else; nothing has been written.
        UserError: The folder is inside a site, or cannot be written.
    """
    try:
        outer = places.site(_existing(folder.absolute().parent)).root
    except places.NoSiteError:
        outer = None
    if outer is not None and not (folder / ".git").exists():
        raise UserError(f"{folder}: is inside the site {outer}; make a site outside of it")
    try:
        if strangers := sorted(_strangers(folder, held)):
            named = listed(strangers, _MOST_NAMED)
            raise NotEmptyError(f"{folder}: is not empty ({named}); name a new or an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".trainyard-", dir=folder.absolute().parent) as scratch:
            for name in sorted(held, key=lambda name: (name == _LAST, name)):
                if held[name].is_at(folder / name):
                    continue
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                held[name].write(Path(scratch) / "file")
                os.replace(Path(scratch) / "file", folder / name)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror}") from error


def _read(path: Path) -> File:
    return File(manifests.text(path), executable=os.access(path, os.X_OK))


def _named(text: str, source: str, stack: str) -> str:
    """The stack file under its new name, which is also the new cluster's identifier."""
    text = text.replace(f" identifier: {source}\n", f" identifier: {stack}\n")
    return text.replace(f"make stack STACK={source} ", f"make stack STACK={stack} ")


def _strangers(folder: Path, held: Mapping[str, File]) -> Iterator[str]:
    """What is in the folder and would not be written as it is, other than git's own folder."""
    if not folder.exists():
        return
    if not folder.is_dir():
        yield folder.name
        return
    wanted = {str(parent) for name in held for parent in PurePosixPath(name).parents}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == ".git" or (name in wanted and path.is_dir() and not path.is_symlink()):
            continue
        if name not in held or not held[name].is_at(path):
            yield name


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.is_dir())
