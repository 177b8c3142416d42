"""Volcano: a PodGroup for that scheduler (Trainer v2.3, plugin `Volcano`).

The runtime sets the pods' schedulerName. Whether a PriorityClass exists is not
checked: the API server refuses pods that name a missing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainyard_api import json_reader, names, runtime_ref
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ...model import JobSet, Json, TrainJob
from .. import gang, patches, templates
from ..info import Child, Info
from . import owned

_POLICY: Final = FieldPath("spec.podGroupPolicy.volcano")
_TOPOLOGY_DEFAULTS: Final = {"mode": "hard", "highestTierAllowed": 1}


class Volcano:
    """Annotates the pods of the gang and builds their PodGroup."""

    name = "volcano"
    implements = frozenset({"podGroupPolicy.volcano"})
    defaults = (("podGroupPolicy.volcano.networkTopology", _TOPOLOGY_DEFAULTS),)

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """A queue annotation without a name.

        The error names the field that sets it; Trainer v2.3 names one that does not exist.
        """
        if info.pod_group("volcano") is None or info.annotations.get(names.VOLCANO_QUEUE_ANNOTATION) != "":
            return ()
        return (_queue_error(info),)

    def enforce_pod_group_policy(self, info: Info) -> Info:
        """`info` with the group's annotation on the pods of the gang."""
        if info.pod_group("volcano") is None:
            return info
        annotation = {names.VOLCANO_GROUP_ANNOTATION: info.trainjob.name}
        return info.with_jobs(
            gang.members(info), lambda job: templates.with_pod_metadata(job, "annotations", annotation)
        )

    def build(self, info: Info) -> Sequence[Child]:
        """The PodGroup, of the TrainJob's name."""
        policy = info.pod_group("volcano")
        if policy is None:
            return ()
        members = gang.of(info)
        spec: dict[str, Any] = {"minMember": members.pods, "minResources": members.requests}
        queue = info.annotations.get(names.VOLCANO_QUEUE_ANNOTATION)
        if queue is not None:
            spec["queue"] = queue
        for name in _priority_classes(info):
            spec["priorityClassName"] = name
        topology = json_reader.optional_mapping(
            policy.get("networkTopology"), _POLICY.child("networkTopology")
        )
        if topology is not None:
            spec["networkTopology"] = {**_TOPOLOGY_DEFAULTS, **topology}
        manifest = {
            "apiVersion": names.VOLCANO_API_VERSION,
            "kind": names.POD_GROUP,
            "metadata": owned.metadata(info.trainjob),
            "spec": spec,
        }
        return (Child(manifest),)


def _queue_error(info: Info) -> FieldError:
    detail = "Volcano queue name must not be empty"
    for metadata, path in patches.parts(info.trainjob.spec, "metadata"):
        annotations = json_reader.text_map(metadata.get("annotations"), path.child("annotations"))
        if names.VOLCANO_QUEUE_ANNOTATION in annotations:
            where = str(path.child("annotations").key(names.VOLCANO_QUEUE_ANNOTATION))
            return FieldError(ErrorType.INVALID, where, "", detail)
    return runtime_ref.refused(info.trainjob.spec, detail)


def _priority_classes(info: Info) -> Iterator[str]:
    """Priority classes of the pods, in order; the group gets the last one."""
    for job in info.jobs:
        spec: Json = templates.pod_template(job)["spec"]
        name = json_reader.text(spec.get("priorityClassName"), FieldPath("priorityClassName"))
        if name is not None:
            yield name
