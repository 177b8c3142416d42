"""The conditions of a TrainJob as a list of JSON values.

Called by `reconcile`. Follows `meta.SetStatusCondition`: a condition keeps
its place, and its transition time while its status stays the same. Decides
nothing about when a condition is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from trainyard_api import names

from ..model import Condition, Json

Conditions = tuple[Json, ...]


def of(status: Json) -> Conditions:
    """The conditions in a TrainJob's status."""
    return tuple(status.get("conditions") or ())


def find(conditions: Sequence[Json], kind: str) -> Json | None:
    """The condition of that type, None if there is none."""
    for condition in conditions:  # without a generator: this is called some hundred times a job
        if condition.get("type") == kind:
            return condition
    return None


def is_true(conditions: Sequence[Json], kind: str) -> bool:
    """Whether the condition of that type exists and is True."""
    condition = find(conditions, kind)
    return condition is not None and condition.get("status") == "True"


def finished(conditions: Sequence[Json]) -> bool:
    """Whether the TrainJob has finished; it never starts again."""
    return is_true(conditions, names.COMPLETE) or is_true(conditions, names.FAILED)


def with_condition(conditions: Sequence[Json], condition: Condition) -> Conditions:
    """The list with the condition set, in its old place if it had one, else at the end."""
    value: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.observed_generation is not None:
        value["observedGeneration"] = condition.observed_generation
    old = find(conditions, condition.type)
    if old is None:
        return (*conditions, value)
    if old.get("status") == condition.status:
        value["lastTransitionTime"] = old["lastTransitionTime"]
    return tuple(value if c is old else c for c in conditions)


def without(conditions: Sequence[Json], kind: str) -> Conditions:
    """The list without the condition of that type."""
    return tuple(c for c in conditions if c.get("type") != kind)


def timestamp(moment: datetime) -> str:
    """The moment as metav1.Time is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The moment that a metav1.Time text means."""
    return datetime.fromisoformat(text)
