"""What a roll-out depends on: the site's files, and Pulumi's state.

Called by `rollout`, before the preview and again before the update, which runs the program a second time, and
by `destroy` and `drift`, which go by the state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from trainyard_api import places, stack_yaml
from trainyard_api.json_types import Json
from trainyard_api.shown import listed
from trainyard_delivery import pulumi_state, stack_names

from . import stackfile

_NAMED: Final = 5
"""Files that a message names."""


class Basis(NamedTuple):
    """What a roll-out goes by."""

    files: Mapping[Path, str]
    """By path, a digest."""
    resources: Sequence[Json] | None
    """Those of the state; None between the tries of an update, which writes it itself."""


def files(stack: str) -> Mapping[Path, str]:
    """The files that a roll-out of the stack goes by now.

    Raises:
        UserError: Outside of a site, or if its `Pulumi.yaml` is wrong.
    """
    site = places.site()
    file = stackfile.file_of(stack)
    depended_on = {_program(site.root), *(site.root / name for name in stack_names.EVERY_STACK_DEPENDS_ON)}
    if (charts := stackfile.vendored(stack, file)) is not None:
        depended_on.add((site.root / charts).resolve())
    paths = {path for place in depended_on for path in _sources(place)} | {*site.catalog}
    digests = {path: _digest(path.read_bytes()) for path in paths}
    return {**digests, file: _digest(_config(file))}


def refusals(before: Basis, after: Basis, stack: str) -> Iterator[str]:
    """Why an update would not be the one that was previewed."""
    names = sorted(
        places.shown(path)
        for path in before.files.keys() | after.files.keys()
        if before.files.get(path) != after.files.get(path)
    )
    again = "Run the same command again, which makes a new preview"
    if names:
        yield f"refused: changed since the preview: {listed(names, _NAMED)}. {again}"
    if before.resources != after.resources:
        yield (
            f"refused: Pulumi's state of {stack} has changed since the preview, by a roll-out of somebody "
            f"else. {again}"
        )


def of_state(state: Json) -> Basis:
    """What a command goes by that needs no files."""
    return Basis({}, pulumi_state.resources(state))


def _program(root: Path) -> Path:
    """The folder of the program that Pulumi runs."""
    return root / str(stackfile.project(root).get("main") or "platform")


def _sources(place: Path) -> Iterator[Path]:
    """The file itself, or those of the folder, without what Python and editors leave."""
    if place.is_file():
        yield place
    for path in place.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(place).parts)
        left = hidden or path.suffix == ".pyc" or path.name.endswith("~")
        if not left and path.is_file():
            yield path


def _config(file: Path) -> bytes:
    """The settings of a stack file, without the salt that Pulumi writes into it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return b""  # who reads what it says reports it
    try:
        return json.dumps(stack_yaml.load(text)["config"], default=str).encode()
    except (KeyError, TypeError, yaml.YAMLError):
        return text.encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
