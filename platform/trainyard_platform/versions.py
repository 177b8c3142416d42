"""The versions that a stack uses, and the refusal of those that do not work together."""

import re
from collections.abc import Iterator
from typing import Final

from trainyard_api import names
from trainyard_api.compatibility import Table

from .artifacts import Artifacts
from .stack.settings import CONFIG_KEY, InvalidStackError, StackSettings

_CHOSEN_BY: Final = {"kubernetes": "cluster.version", "jobset": "jobset.image", "kueue": "kueue.image"}
"""Where a stack file sets the version of a part; the others are pinned."""
_VERSION_TAG = re.compile(r":(v?[0-9]+\.[0-9]+[^@/]*)(@|$)")


def used(stack: StackSettings, artifacts: Artifacts) -> dict[str, str]:
    """Version of every part: its image's, if the stack names one with a version, else the pinned one."""
    images = {"jobset": stack.jobset.image} if stack.jobset.enabled else {}
    if stack.kueue.installs:
        images["kueue"] = stack.kueue.image
    if stack.volcano.enabled:
        images["volcano"] = None
    if stack.coscheduling.enabled:
        images[names.SCHEDULER_PLUGINS] = None
    versions = {"trainer": artifacts.version("trainer")}
    for part, image in images.items():
        tag = _VERSION_TAG.search(image or "")
        versions[part] = tag[1] if tag else artifacts.version(part)
    if stack.cluster.version:
        versions["kubernetes"] = stack.cluster.version
    return versions


def problems(stack: StackSettings, artifacts: Artifacts) -> Iterator[str]:
    """A sentence for every two parts that do not work together, with the place to change."""
    for parts, problem in Table.read().refused(used(stack, artifacts)):
        chosen = [_CHOSEN_BY[part] for part in parts if part in _CHOSEN_BY]
        setting = next((place for place in chosen if _is_set(stack, place)), "")
        yield f"{CONFIG_KEY}.{setting}: {problem}" if setting else f"{CONFIG_KEY}: {problem}"


def check(stack: StackSettings, artifacts: Artifacts, name: str) -> None:
    """End the program, before it registers anything, if two parts do not work together."""
    if conflicts := list(problems(stack, artifacts)):
        raise InvalidStackError(name, conflicts)


def _is_set(stack: StackSettings, place: str) -> bool:
    part, _, key = place.partition(".")
    return bool(getattr(getattr(stack, part), key))
