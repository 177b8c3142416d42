"""The place of a finding's cause: in its runtime, or in the file of a stack.

Called by `lint` and `verify`. Pure: what a runtime is like under other settings
comes from the caller.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trainyard_api import names
from trainyard_api.documents import Position
from trainyard_api.shown import listed
from trainyard_delivery import impact
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.runtimes import RuntimeOverlay
from trainyard_platform.stack.settings import Artifacts, StackSettings
from trainyard_platform.stack.storage import Storage
from trainyard_policies.engine import Said, Violation
from trainyard_policies.lint.report import Entry
from trainyard_policies.rule import Finding, Level, Rule
from trainyard_policies.subject import Subject

from .catalog_files import FILE, WHOLE
from .installs import NotInstalledError

NAMED: Final = 3
"""Runtimes that a finding names."""
_TAINTS: Final = ".taints"
"""How the place of a pool's taints ends."""

_Key = tuple[str, str, Level]
"""The key of a merged finding: the place, the rule and its level."""


@dataclass(frozen=True)
class Stack:
    """A stack, and what a change does to it."""

    settings: StackSettings
    source: str
    """Its file."""
    line: Callable[[str], int]
    """The line of a place in the file, such as `nodePools.h100`."""
    judge: Callable[[str, StackSettings], Collection[Said]]
    """What the rules, as the stack sets them, find in a runtime's file if other settings install it; raises
    `NotInstalledError`."""
    touched: Collection[str] = ()
    """The files that the change touches; none without one."""
    before: StackSettings | None = None
    """The settings before the change, if the file was there and was right."""

    def finds_without(self, place: str, settings: StackSettings, source: str) -> Collection[Said]:
        """`judge` with a cache per place and file."""
        if (place, source) not in self._judged:
            self._judged[place, source] = self.judge(source, settings)
        return self._judged[place, source]

    @cached_property
    def _judged(self) -> dict[tuple[str, str], Collection[Said]]:
        return {}

    @property
    def is_touched(self) -> bool:
        """Whether the change touches its file."""
        return self.source in self.touched

    @cached_property
    def advice(self) -> dict[str, str]:
        """Settings of the stack without effect, by place."""
        return self.settings.advice()

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The places that the change touches."""
        if not self.is_touched or self.before is None:
            return ()
        was, becomes = (one.model_dump(mode="json", by_alias=True) for one in (self.before, self.settings))
        return tuple(field.path for field in impact.differences(was, becomes))


def placed(entries: Iterable[Entry], stack: Stack) -> tuple[list[Entry], list[Entry]]:
    """The findings about a stack's runtimes that are the runtimes' own, and those that the stack causes.

    The latter are reported once per place in the stack's file, with the affected runtimes.
    """
    own: list[Entry] = []
    certain: dict[_Key, list[Entry]] = defaultdict(list)
    likely: dict[_Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        violation = entry.violation
        if violation.exemption is not None:
            own.append(entry)
        elif place := _cause(entry, stack):
            certain[place, violation.rule.id, violation.level].append(entry)
        elif entry.source not in stack.touched and (place := _compared(violation, stack.settings)):
            likely[place, violation.rule.id, violation.level].append(entry)
        else:
            own.append(entry)
    for key, members in likely.items():
        # One runtime alone may well be wrong itself.
        if stack.is_touched or key in certain or len({one.source for one in members}) > 1:
            certain[key] += members
        else:
            own += members
    return own, [_told(place, members, stack) for (place, *_), members in certain.items()]


def _cause(entry: Entry, stack: Stack) -> str:
    """The place that certainly is the cause; empty if there is none."""
    name, compared = Path(entry.source).stem, _compared(entry.violation, stack.settings)
    pool = compared.removesuffix(_TAINTS)
    if pool != compared and pool in stack.advice:
        return pool  # with quota, Kueue would add the tolerations
    untouched = entry.source not in stack.touched
    if untouched and (place := _changed(compared, stack)):
        return place
    # What the rules about all manifests find has no answer for one runtime.
    others = _without(name, stack.settings) if isinstance(entry.violation.rule, Rule) else ()
    for place, settings in others:
        try:
            if entry.violation.said not in stack.finds_without(place, settings, entry.source):
                return place
        except (NotInstalledError, PlatformError):
            continue
    subject = Subject.TRAINJOBS if entry.violation.subject.startswith(names.TRAINJOB) else Subject.RUNTIMES
    level = f"policies.levels.{subject}.{entry.violation.rule.id}"
    installs = (f"runtimes.{name}", f"runtimes.{name}.enabled")
    return next((one for one in (level, *installs) if untouched and one in stack.changed), "")


def _compared(violation: Violation, settings: StackSettings) -> str:
    """The place of what the rule compares with; empty if a stack has no say."""
    parameter, dot, key = violation.finding.against.partition(".")
    parameters, pools = settings.policies.parameters, list(settings.node_pools)
    if parameter == "pools" and pools:
        if key.removesuffix(_TAINTS) in pools:
            return f"nodePools.{key}"
        return f"nodePools.{pools[0]}" if len(pools) == 1 else "nodePools"
    if parameter == "maxResources":
        follows = key not in parameters.max_resources
    else:
        follows = parameter == "maxNodes" and "max_nodes" not in parameters.model_fields_set
    if pools and follows:
        return "nodePools"
    return f"policies.parameters.{parameter}{dot}{key}" if parameter else ""


def _changed(place: str, stack: Stack) -> str:
    """The field that the change touches at a place; the place if they are several, and empty if none is."""
    fields = [one for one in stack.changed if place and re.match(rf"{re.escape(place)}(?![^.[])", one)]
    return fields[0] if len(fields) == 1 else place if fields else ""


def _without(runtime: str, settings: StackSettings) -> Iterator[tuple[str, StackSettings]]:
    """Each place of a stack's file that puts values into a runtime, and the settings without it."""
    overlay = settings.runtimes.get(runtime, RuntimeOverlay())
    for key in sorted(overlay.model_fields_set - {"enabled"}):
        field = RuntimeOverlay.model_fields[key]
        less = overlay.model_copy(update={key: field.get_default()})
        runtimes = {**settings.runtimes, runtime: less}
        yield f"runtimes.{runtime}.{field.alias or key}", settings.model_copy(update={"runtimes": runtimes})
    for place, default in _parts(settings.artifacts):
        if any(getattr(settings, key) != value for key, value in default.items()):
            yield place, settings.model_copy(update=default)


def _parts(artifacts: Artifacts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Settings other than overlays that change runtimes, and the settings without them."""
    yield "artifacts.images", {"artifacts": artifacts.model_copy(update={"images": ()})}
    yield "artifacts.registry", {"artifacts": Artifacts(images=artifacts.images)}
    yield "accelerators", {"accelerators": {}}
    yield "storage", {"storage": Storage()}


def _told(place: str, members: Sequence[Entry], stack: Stack) -> Entry:
    """The members' findings, merged into one about a place in the stack's file."""
    violation = members[0].violation
    sentence = f"{violation.finding.path.end}: {violation.finding.message}"
    reached = sorted({Path(one.source).stem for one in members})
    compared = _compared(violation, stack.settings)
    is_elsewhere = not (place.startswith(compared) or compared.startswith(place))
    otherwise = f", or {compared}" if is_elsewhere else ""
    rule = replace(violation.rule, remedy=f"Correct it here{otherwise}, and not in the runtimes.")
    # The place of an overlay has the runtime's name in it.
    reach = "" if place.startswith("runtimes.") else f"does not fit {_named(reached)}: "
    message = f"{place}: {reach}{stack.advice.get(place, sentence)}"
    position = Position(stack.line(place), 1)
    return Entry(stack.source, position, Violation(rule, violation.level, FILE, Finding(WHOLE, message)))


def _named(runtimes: Sequence[str]) -> str:
    return f"{len(runtimes)} runtime{'s' if len(runtimes) > 1 else ''} ({listed(runtimes, NAMED)})"
