"""Coscheduling: a PodGroup for the scheduler plugin of that name (Trainer v2.3, plugin `CoScheduling`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath

from .. import gang, templates
from ..info import Child, Info
from . import owned

_POLICY: Final = FieldPath("spec.podGroupPolicy.coscheduling")
_DEFAULTS: Final = {"scheduleTimeoutSeconds": 60}


class CoScheduling:
    """Labels the pods of the gang and builds their PodGroup."""

    name = "coscheduling"
    implements = frozenset({"podGroupPolicy.coscheduling"})
    defaults = (("podGroupPolicy.coscheduling", _DEFAULTS),)

    def enforce_pod_group_policy(self, info: Info) -> Info:
        """`info` with the group's label on the pods of the gang."""
        if info.pod_group("coscheduling") is None:
            return info
        label = {names.COSCHEDULING_GROUP_LABEL: info.trainjob.name}
        return info.with_jobs(
            gang.members(info), lambda job: templates.with_pod_metadata(job, "labels", label)
        )

    def build(self, info: Info) -> Sequence[Child]:
        """The PodGroup, of the TrainJob's name."""
        policy = info.pod_group("coscheduling")
        if policy is None:
            return ()
        timeout = json_reader.integer(
            policy.get("scheduleTimeoutSeconds"), _POLICY.child("scheduleTimeoutSeconds")
        )
        members = gang.of(info)
        spec = {
            "minMember": members.pods,
            "minResources": members.requests,
            "scheduleTimeoutSeconds": _DEFAULTS["scheduleTimeoutSeconds"] if timeout is None else timeout,
        }
        manifest = {
            "apiVersion": names.COSCHEDULING_API_VERSION,
            "kind": names.POD_GROUP,
            "metadata": owned.metadata(info.trainjob),
            "spec": spec,
        }
        return (Child(manifest),)
