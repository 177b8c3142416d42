"""The result of comparing an object of a stack with git."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from .comparison import Row


class Ref(NamedTuple):
    """An object that a stack asks for; the namespace is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Ref:
        """The object that a manifest describes."""
        metadata = manifest["metadata"]
        return cls(
            manifest["apiVersion"], manifest["kind"], metadata.get("namespace") or "", metadata["name"]
        )

    @property
    def key(self) -> str:
        """`Kind/name`, or `Kind/namespace/name`: how a user names it."""
        return "/".join(part for part in self[1:] if part)


class State(StrEnum):
    """State of an object compared with git."""

    SAME = "same"
    DIFFERENT = "different"
    MISSING = "missing"
    GOING = "being deleted"
    """It is being deleted."""
    REPLACED = "to be replaced"
    """The difference is in an immutable field."""
    OWNED = "another's"
    """It differs from git, and another object controls it."""
    MUTATED = "changed by admission"
    """A webhook or a policy makes it differ from git at each write, so that no repair lasts."""
    UNJUDGED = "not judged"
    REPAIRED = "put right"
    KEPT = "kept"
    """It differs from git or is missing, and is to stay so this time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one object."""

    ref: Ref
    state: State
    rows: tuple[Row, ...] = ()
    why: str = ""
    """Further information, such as the API server's error."""


def kept(verdict: Verdict) -> Verdict:
    """The verdict on an object that is to stay as it is; how it is not what git says goes with it."""
    if verdict.state in (State.SAME, State.UNJUDGED):
        return verdict
    state = "" if verdict.state is State.DIFFERENT else verdict.state.value
    return replace(verdict, state=State.KEPT, why=", ".join(filter(None, (state, verdict.why))))


def going(live: Mapping[str, Any]) -> str:
    """Since when an object is being deleted, and what holds it; empty if it is not."""
    metadata = live["metadata"]
    if not (since := metadata.get("deletionTimestamp")):
        return ""
    held = ", ".join(metadata.get("finalizers") or ())
    return f"since {since}" + (f", held by {held}" if held else "")


_PODS: Final = ("Deployment", "DaemonSet", "StatefulSet")


def consequence(ref: Ref, rows: Iterable[Row]) -> str:
    """Side effects of the repair; empty if there are none."""
    return "putting it right recreates its pods" if recreates_pods(ref, (row.path for row in rows)) else ""


def recreates_pods(ref: Ref, changed: Iterable[str]) -> bool:
    """Whether the object is a controller that recreates its pods when these paths change."""
    return ref.kind in _PODS and any(path.startswith("spec.template.") for path in changed)


SAME, DRIFT, UNJUDGED = 0, 1, 2


def exit_code(
    verdicts: Iterable[Verdict], unmanaged: Collection[object] = (), unseen: Collection[object] = ()
) -> int:
    """0: the cluster matches git, or what is to stay. 1: it does not. 2: for some objects that is unknown."""
    states = {verdict.state for verdict in verdicts}
    if unseen or State.UNJUDGED in states:
        return UNJUDGED
    return DRIFT if unmanaged or states - {State.SAME, State.REPAIRED, State.KEPT} else SAME
