"""The state of exported objects, and the fields that a cluster adds to them.

Called by `convert`, and by `trainyard_assist.resend`. Values in, values out; takes objects of any form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json

_ENDS: Final = frozenset({"Complete", "Failed", "Succeeded"})
"""Conditions of TrainJobs, and of the older jobs, that are true once a job has ended."""
_RUNS: Final = "Running"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def ended(value: Json) -> str | None:
    """The condition that says that a job has ended; None while it has not."""
    return next((kind for kind in _true_conditions(value) if kind in _ENDS), None)


def doing(value: Json) -> str | None:
    """The activity of an unfinished job in its cluster, as a verb; None if it is not from a cluster."""
    if not mapping(value.get("metadata")).get("uid"):
        return None
    return "runs" if _RUNS in _true_conditions(value) else "is"


def manifest(value: Json) -> Json:
    """The object without what a cluster has put into it."""
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping):
        return value
    kept = {key: item for key, item in metadata.items() if key not in names.SERVER_METADATA}
    if kept.get("name"):
        kept.pop("generateName", None)
    annotations = kept.get("annotations")
    if isinstance(annotations, Mapping) and _LAST_APPLIED in annotations:
        kept["annotations"] = {key: text for key, text in annotations.items() if key != _LAST_APPLIED}
        if not kept["annotations"]:
            del kept["annotations"]
    return {key: kept if key == "metadata" else item for key, item in value.items() if key != "status"}


def mapping(value: Any) -> Json:
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def _true_conditions(value: Json) -> Iterator[str]:
    conditions = mapping(value.get("status")).get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if mapping(condition).get("status") == "True":
            yield str(condition.get("type"))
