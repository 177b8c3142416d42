"""What can be said of an object that a stack asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from .comparison import Row


class Ref(NamedTuple):
    """An object that a stack asks for; the namespace is empty for one of the cluster's."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class State(StrEnum):
    """How an object is, compared with what git says."""

    SAME = "same"
    DIFFERS = "different"
    MISSING = "missing"
    GOING = "being deleted"
    """It is being deleted."""
    REPLACED = "to be replaced"
    """What differs cannot be changed in an object that exists."""
    UNJUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one object is."""

    ref: Ref
    state: State
    rows: tuple[Row, ...] = ()
    why: str = ""
    """What there is to say beside the rows: the API server's words where it would not answer."""


SAME, DRIFT, UNJUDGED = 0, 1, 2


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """0: the cluster is what git says. 1: it is not. 2: of some objects that cannot be said."""
    states = {verdict.state for verdict in verdicts}
    if State.UNJUDGED in states:
        return UNJUDGED
    return SAME if states <= {State.SAME} else DRIFT
