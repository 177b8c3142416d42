"""The CRD of TrainJobs, so that `kubectl get trainjobs` says where each job stands: docs/adr/0020.

Upstream's column shows the last condition whatever its status: nothing for a
job that runs, `Suspended` for one that was resumed. The schema gets the field
that the operator writes the state to, and the columns show that. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from trainyard_api import names

NAME: Final = f"trainjobs.{names.TRAINER_GROUP}"

FIELD: Final[Mapping[str, Any]] = {
    "description": "What Trainyard says of the TrainJob beyond Trainer's API.",
    "type": "object",
    "properties": {
        "state": {
            "description": "Where it stands: Pending, Queued, Suspended, Blocked, Starting, Unschedulable,"
            " NodeLost, Initializing, Running, Complete or Failed.",
            "type": "string",
        },
        "nodes": {
            "description": "How many of its nodes are ready, of those that it wants: `3/4`.",
            "type": "string",
        },
        "queue": {"description": "The LocalQueue that holds it, or its JobSet.", "type": "string"},
        "attempts": {
            "description": "How each attempt ended: the first of its pods to fail, or to be deleted.",
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "attempt": {"description": "1 is the first.", "type": "integer"},
                    "job": {"description": "The ReplicatedJob of the pod.", "type": "string"},
                    "index": {"description": "The pod's number in its Job.", "type": "integer"},
                    "pod": {"type": "string"},
                    "node": {"type": "string"},
                    "container": {"type": "string"},
                    "exitCode": {"type": "integer"},
                    "signal": {"description": "What ended the container, if a signal did.", "type": "string"},
                    "reason": {"description": "OOMKilled, Evicted, Error, Deleted, ...", "type": "string"},
                    "rank": {
                        "description": "The process that failed first in the pod, where its launcher tells.",
                        "type": "integer",
                    },
                    "lostOthers": {
                        "description": "Whether it failed as a consequence of another.",
                        "type": "boolean",
                    },
                    "failedAt": {"type": "string", "format": "date-time"},
                    "progress": {
                        "description": "The progressPercentage that it had reported, if it had.",
                        "type": "integer",
                    },
                    "message": {"description": "What the container said at its end.", "type": "string"},
                },
            },
        },
    },
}

_TRUE: Final = '.status.conditions[?(@.status=="True")]'

COLUMNS: Final[tuple[Mapping[str, Any], ...]] = (
    {"name": "State", "type": "string", "jsonPath": f".status.{names.STATUS_FIELD}.state"},
    {"name": "Nodes", "type": "string", "jsonPath": f".status.{names.STATUS_FIELD}.nodes"},
    {"name": "Reason", "type": "string", "jsonPath": f"{_TRUE}.reason"},
    {"name": "Queue", "type": "string", "jsonPath": f".status.{names.STATUS_FIELD}.queue"},
    {"name": "Runtime", "type": "string", "jsonPath": ".spec.runtimeRef.name", "priority": 1},
    {"name": "Message", "type": "string", "jsonPath": f"{_TRUE}.message", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
"""Those with a priority are shown by `-o wide`."""


def with_state(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    """The TrainJobs' CRD with the field and its columns; another CRD unchanged."""
    if crd["metadata"]["name"] != NAME:
        return crd
    versions = [_version(version) for version in crd["spec"]["versions"]]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def _version(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = version["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]
    fields = {**status["properties"], names.STATUS_FIELD: FIELD}
    properties = {**schema["properties"], "status": {**status, "properties": fields}}
    return {
        **version,
        "additionalPrinterColumns": list(COLUMNS),
        "schema": {**version["schema"], "openAPIV3Schema": {**schema, "properties": properties}},
    }
