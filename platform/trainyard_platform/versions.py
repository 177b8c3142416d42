"""The versions that a stack uses, and the refusal of those that do not work together."""

import re

from trainyard_api.compatibility import Table

from .artifacts import Artifacts
from .errors import PlatformError
from .settings import CONFIG_KEY, StackSettings

_VERSION_TAG = re.compile(r":(v?[0-9]+\.[0-9]+[^@/]*)(@|$)")


def used(stack: StackSettings, artifacts: Artifacts) -> dict[str, str]:
    """Version of every part: its image's, where the stack names one with a version, else the pinned one."""
    images = {"jobset": stack.jobset.image} if stack.jobset.enabled else {}
    if stack.kueue.enabled:
        images["kueue"] = stack.kueue.image
    if stack.volcano.enabled:
        images["volcano"] = None
    if stack.coscheduling.enabled:
        images["scheduler-plugins"] = None
    versions = {"trainer": artifacts.version("trainer")}
    for part, image in images.items():
        tag = _VERSION_TAG.search(image or "")
        versions[part] = tag[1] if tag else artifacts.version(part)
    if stack.cluster.version:
        versions["kubernetes"] = stack.cluster.version
    return versions


def check(stack: StackSettings, artifacts: Artifacts) -> None:
    """End the program, before it registers anything, if two parts do not work together."""
    problems = list(Table.read().problems(used(stack, artifacts)))
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise PlatformError(f"{CONFIG_KEY}: versions that do not work together:\n{lines}")
