"""Runtimes for a cluster that assigns users itself, as OpenShift does.

Its admission gives every namespace a range of users and one group for volumes,
and refuses pods that name others. The group can be left out; a runtime that
names a user needs that user, and cannot run there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..errors import PlatformError
from ..stack.settings import CONFIG_KEY
from .files import Runtime

_GROUPS = frozenset({"fsGroup", "runAsGroup", "supplementalGroups"})
_USER = "runAsUser"


def left_to_the_cluster(runtimes: Iterable[Runtime]) -> tuple[Runtime, ...]:
    """The runtimes without groups; raises `PlatformError` with all that name a user."""
    runtimes = tuple(runtimes)
    problems = [
        f"  {CONFIG_KEY}.runtimes.{runtime.name}: it needs the user {user}, "
        "and cluster.distribution openshift assigns users: leave it out with `enabled: false`"
        for runtime in runtimes
        for user in sorted(set(_users(runtime.manifest)))
    ]
    if problems:
        raise PlatformError("runtimes that do not run on this cluster:\n" + "\n".join(problems))
    return tuple(replace(runtime, manifest=_without_groups(runtime.manifest)) for runtime in runtimes)


def _users(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if _USER in value:
            yield value[_USER]
        for inner in value.values():
            yield from _users(inner)
    if isinstance(value, list):
        for inner in value:
            yield from _users(inner)


def _without_groups(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_groups(inner) for key, inner in value.items() if key not in _GROUPS}
    if isinstance(value, list):
        return [_without_groups(inner) for inner in value]
    return value
