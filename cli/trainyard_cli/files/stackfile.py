"""Reads stack files and `Pulumi.yaml`, without Pulumi or a cluster.

Reads a file as Pulumi does, and reports mistakes with their line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from trainyard_api import places, stack_yaml
from trainyard_api.documents import DocumentError
from trainyard_api.errors import UserError
from trainyard_api.similar import hint
from trainyard_platform import versions
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack import settings
from trainyard_platform.stack.settings import Cluster, InvalidStackError, StackSettings

from .git import at_revision, left

_FILE_VARIABLE: Final = "PULUMI_OPTION_CONFIG_FILE"
"""The variable by which others, such as a sandbox, have Pulumi read the stack file elsewhere."""
_PULUMIS: Final = ("config", "encryptedkey", "encryptionsalt", "environment", "secretsprovider")
"""The keys of a stack file; see Pulumi's own documentation."""
OURS: Final = "trainyard:"
"""The prefix of this program's keys in a stack file."""
RENDER_TO: Final = f"{OURS}renderTo"
"""The key that `rendering` adds to a copy."""


def read(name: str, folder: Path) -> StackSettings:
    """The content of `Pulumi.<name>.yaml`; raises `PlatformError`, with `file:line: ...` for each mistake."""
    return _read(name, folder / places.stack_file(name))


def read_as_pulumi(name: str) -> StackSettings:
    """The content of the file from which Pulumi reads the stack; raises as `read`, and as `places.site`."""
    return _read(name, file_of(name))


def cluster_of(name: str | None) -> Cluster:
    """The cluster that a stack's file names; without a stack, nothing is named. Raises as `read`."""
    return Cluster() if name is None else read_as_pulumi(name).cluster


def file_of(name: str) -> Path:
    """The file from which Pulumi reads the stack."""
    return Path(os.environ.get(_FILE_VARIABLE) or places.site().stacks / places.stack_file(name))


def project(root: Path) -> Mapping[str, Any]:
    """What a site's `Pulumi.yaml` says; raises `PlatformError`, with `file:line: ...`."""
    path = root / places.PROJECT_FILE
    _, value = _loaded(path)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise PlatformError(f"{places.shown(path)}:1: must have the key name, with the name of the project")
    return value


def earlier(names: Iterable[str], since: str, folder: Path) -> dict[str, StackSettings]:
    """The stacks as they were where this branch left `since`, without those that are new or were wrong.

    Raises `GitError` if git cannot tell.
    """
    settings_of = {}
    with TemporaryDirectory() as copies:
        for at in at_revision(left(since), [folder], Path(copies)):
            for name in names:
                with suppress(PlatformError):
                    settings_of[name] = read(name, at)
    return settings_of


def artifacts(stack: StackSettings) -> Artifacts:
    """What a stack gets from others; relative folders start at the site, or else at the current folder."""
    return Artifacts(stack.artifacts, _root())


def _root() -> Path:
    try:
        return places.site().root
    except places.NoSiteError:
        return Path.cwd()


def vendored(name: str, file: Path) -> Path | None:
    """The folder with the stack's charts and manifests, from the site; None if its repository has none.

    Nor if the file is wrong, which who reads its settings reports.
    """
    root = _root().resolve()
    try:
        folder = _read(name, file).artifacts.folder
    except UserError:
        return None
    if not folder:
        return None
    path = (root / os.path.expanduser(folder)).resolve()
    top = next((parent for parent in (root, *root.parents) if (parent / ".git").exists()), root)
    return Path(os.path.relpath(path, root)) if path.is_relative_to(top) else None


def vendored_of(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """By stack, what `vendored` says of its file in a folder, without the stacks that have no such folder."""
    folders = {name: vendored(name, folder / places.stack_file(name)) for name in names}
    return {name: path for name, path in folders.items() if path is not None}


def line(file: Path, sentence: str) -> int:
    """The line of a stack file that a sentence is about, by the place that it begins with."""
    text = file.read_text(encoding="utf-8")
    return _line(yaml.compose(text, Loader=stack_yaml.Loader), f"config.{sentence}")


def _read(name: str, path: Path) -> StackSettings:
    shown = places.shown(path)
    root, value = _loaded(path)
    if problems := [f"{shown}:{line}: {problem}" for line, problem in _outside_settings(root, value)]:
        raise PlatformError("\n".join(problems))
    try:
        stack = settings.of(value["config"][settings.CONFIG_KEY], name)
        versions.check(stack, artifacts(stack), name)
        return stack
    except InvalidStackError as error:
        sentences: dict[tuple[int, str], str] = {}
        for problem in error.problems:
            line = _line(root, f"config.{problem}")
            # A mistake behind an alias is in the file only once, so it is reported once.
            sentences.setdefault((line, problem.partition(": ")[2]), f"{shown}:{line}: {problem}")
        raise PlatformError("\n".join(sentences.values())) from error


def _loaded(path: Path) -> tuple[yaml.Node | None, Any]:
    """The nodes and the value of a file; raises `PlatformError` with its place."""
    shown = places.shown(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlatformError(f"{shown}:1: not UTF-8") from error
    except OSError as error:
        raise PlatformError(f"{shown}:1: {error.strerror}") from error
    try:
        loader = stack_yaml.Loader(text)
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        raise PlatformError(str(_in_words(error, text, shown))) from error


def _in_words(error: yaml.YAMLError, text: str, shown: str) -> DocumentError:
    """The error of the parser in C, or that of the one in Python, which is slower and says more."""
    try:
        yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as clearer:
        error = clearer
    return DocumentError.of(error, text, shown)


def _outside_settings(root: yaml.Node | None, value: Any) -> Iterator[tuple[int, str]]:
    """Errors in a file outside the platform's settings."""
    yield from _duplicates(root, set())
    if not isinstance(value, dict) or not isinstance(value.get("config"), dict):
        keys = [str(key) for key in value] if isinstance(value, dict) else []
        yield 1, f"there is no key config with {settings.CONFIG_KEY} in it{hint('config', keys)}"
        return
    for key in value:
        if key not in _PULUMIS:
            allowed = f"(allowed: {', '.join(_PULUMIS)}){hint(str(key), _PULUMIS)}"
            yield _line(root, str(key)), f"{key}: there is no such key {allowed}"
    config = value["config"]
    ours = (settings.CONFIG_KEY, RENDER_TO)
    unknown = [str(key) for key in config if str(key).startswith(OURS) and key not in ours]
    for key in unknown:
        sentence = f"there is no such key{hint(key, [settings.CONFIG_KEY])}"
        yield _line(root, f"config.{key}"), f"config.{key}: {sentence}"
    if settings.CONFIG_KEY not in config and not unknown:
        yield _line(root, "config"), f"config has no key {settings.CONFIG_KEY}"


def _duplicates(node: yaml.Node | None, seen: set[int]) -> Iterator[tuple[int, str]]:
    """Keys that a mapping has twice: Pulumi and others may each use another one."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _duplicates(item, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if key.value in lines:
                yield line, f"the key {key.value} is already on line {lines[key.value]}"
            lines.setdefault(key.value, line)
            yield from _duplicates(item, seen)


def _line(root: yaml.Node | None, problem: str) -> int:
    """The line of the place that a sentence begins with, or of its nearest existing parent."""
    node, line, rest = root, 1, problem
    while True:
        child = _child(node, rest)
        if child is None:
            return line
        line, node, rest = child


def _child(node: yaml.Node | None, rest: str) -> tuple[int, yaml.Node, str] | None:
    rest = rest.removeprefix(".")
    if isinstance(node, yaml.SequenceNode):
        index = re.match(r"\[(\d+)\]", rest)
        if index is None or int(index[1]) >= len(node.value):
            return None
        item = node.value[int(index[1])]
        return item.start_mark.line + 1, item, rest[index.end() :]
    if not isinstance(node, yaml.MappingNode):
        return None
    # A key may contain dots: the longest match counts.
    for key, item in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
        if rest.startswith(key.value) and rest[len(key.value) :][:1] in ("", ".", "[", ":"):
            return key.start_mark.line + 1, item, rest[len(key.value) :]
    return None
