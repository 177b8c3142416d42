"""A TrainJob's reference to its runtime, with the defaults of the CRD's schema.

The operator, explain and the rules call it. A value of the wrong type counts as
absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import names
from .errors import ErrorType, FieldError


class RuntimeRef(NamedTuple):
    """A TrainJob's `spec.runtimeRef`."""

    group: str
    kind: str
    name: str
    """The runtime's name; empty if there is none."""

    def namespace(self, of_trainjob: str) -> str | None:
        """The runtime's namespace, for a TrainJob in that namespace; None for a cluster-scoped runtime."""
        return of_trainjob if self.kind == names.TRAINING_RUNTIME else None

    def shown(self) -> dict[str, str]:
        """The reference as field errors print it, in Trainer's order of fields."""
        return {"name": self.name, "apiGroup": self.group, "kind": self.kind}


def of(spec: Mapping[str, Any]) -> RuntimeRef:
    """The runtime that the spec of a TrainJob names."""
    value = spec.get("runtimeRef")
    reference = value if isinstance(value, Mapping) else {}
    return RuntimeRef(
        _text(reference.get("apiGroup")) or names.TRAINER_GROUP,
        _text(reference.get("kind")) or names.CLUSTER_TRAINING_RUNTIME,
        _text(reference.get("name")),
    )


def refused(spec: Mapping[str, Any], detail: str) -> FieldError:
    """The error about the runtime that the spec of a TrainJob names."""
    return FieldError(ErrorType.INVALID, "spec.runtimeRef", of(spec).shown(), detail)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
