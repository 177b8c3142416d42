"""Reads what the API server returned; tolerates anything that is missing.

What a manifest must hold to be accepted is read by `trainyard_api.json_reader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from trainyard_api import names, quantity
from trainyard_api.json_types import Json
from trainyard_api.quantity import Quantity
from trainyard_operator.core.build.resources import pod_requests

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def at(value: Any, *path: str) -> Any:
    """The value at the path of keys; None if there is none."""
    for key in path:
        # A dict, as nearly everything here is, needs no question to an abstract class.
        if type(value) is not dict and not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def texts(value: Any, *path: str) -> Mapping[str, str]:
    """The map of texts at the path, such as labels."""
    mapping = at(value, *path)
    return {str(k): str(v) for k, v in mapping.items()} if isinstance(mapping, Mapping) else {}


def objects(value: Any, *path: str) -> list[Json]:
    """The objects in the list at the path."""
    items = at(value, *path)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def text(value: Any, *path: str) -> str:
    """The text at the path, empty if there is none."""
    string = at(value, *path)
    return string if isinstance(string, str) else ""


def number(value: Any, *path: str, default: int = 0) -> int:
    """The whole number at the path."""
    integer = at(value, *path)
    return integer if isinstance(integer, int) else default


def amount(value: Any, *path: str) -> Quantity | None:
    """The quantity at the path; None for what is none."""
    try:
        return quantity.parse(at(value, *path))
    except ValueError:
        return None


def name(of: Json) -> str:
    """Its name."""
    return text(of, "metadata", "name")


def key(of: Json) -> tuple[str, str]:
    """Its namespace and name."""
    return text(of, "metadata", "namespace"), name(of)


def local_queue(workload: Json) -> tuple[str, str]:
    """The namespace and name of the LocalQueue that the Workload is in."""
    return text(workload, "metadata", "namespace"), text(workload, "spec", "queueName")


def uid(of: Json) -> str:
    """Its uid."""
    return text(of, "metadata", "uid")


def moment(value: Any, *path: str) -> datetime:
    """The time at the path, long ago if there is none."""
    try:
        time = datetime.fromisoformat(text(value, *path))
    except ValueError:
        return _LONG_AGO
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def condition(of: Json | None, kind: str) -> Json | None:
    """The condition of that type."""
    return next((c for c in objects(of, "status", "conditions") if c.get("type") == kind), None)


def holds(of: Json | None, kind: str) -> bool:
    """Whether the condition of that type is True."""
    return text(condition(of, kind), "status") == "True"


def deleting(of: Json) -> bool:
    """Whether it is being deleted."""
    return bool(at(of, "metadata", "deletionTimestamp"))


def suspended(of: Json) -> bool:
    """Whether its spec.suspend is true."""
    return at(of, "spec", "suspend") is True


def owned(of: Json | None, owner: Json) -> Json | None:
    """The object, if it belongs to this owner, and not to another of the same name."""
    owners = objects(of, "metadata", "ownerReferences")
    return of if any(reference.get("uid") == uid(owner) for reference in owners) else None


def deleted_volumes(of: Json | None, *path: str) -> list[str]:
    """The names of the volumes that are deleted with a JobSet, whose spec is at the path."""
    return [
        text(template, "metadata", "name")
        for policy in objects(of, *path, "volumeClaimPolicies")
        if text(policy, "retentionPolicy", "whenDeleted") != "Retain"
        for template in objects(policy, "templates")
    ]


def gates_of(job: Json | None) -> list[str]:
    """The gates at a job that keep Kueue from admitting it."""
    noted = texts(job, "metadata", "annotations").get(names.QUEUE_GATES_ANNOTATION, "")
    return [gate for gate in noted.split(",") if gate]


def index(pod: Json) -> int | None:
    """The pod's index in its Job; None without one."""
    annotation = texts(pod, "metadata", "annotations").get(names.JOB_COMPLETION_INDEX_LABEL, "")
    return int(annotation) if annotation.isdecimal() else None


def requests(pod: Json) -> Mapping[str, Quantity]:
    """Its requests by resource, summed up as the scheduler does; a limit counts where there is no request."""
    try:
        return pod_requests({"template": {"spec": {"template": pod}}}, limits_count=True)
    except (AttributeError, KeyError, TypeError, ValueError):  # no pod that an API server lets in
        return {}


def containers(pod: Json) -> Iterator[tuple[Json, Json]]:
    """Each container that has a status, in the order they start: its status and its spec."""
    specs = {
        text(c, "name"): c for kind in ("initContainers", "containers") for c in objects(pod, "spec", kind)
    }
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in objects(pod, "status", kind):
            yield status, specs.get(text(status, "name"), {})
