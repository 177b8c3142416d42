"""Findings about gang schedulers: the PodGroup of a TrainJob waits until all pods can be placed.

Volcano's (scheduling.volcano.sh/v1beta1) shows it in the phase and the condition
Unschedulable, that of coscheduling (scheduling.x-k8s.io/v1alpha1) only in the phase.
"""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason

from ... import read
from .. import facts
from ..model import Finding, Observation
from .finding import finding_of

_WAITING: Final = frozenset({"", "Pending", "Inqueue", "Scheduling", "Unknown"})


def incomplete(observation: Observation) -> Finding | None:
    """Some pods of the gang have no node, and the scheduler has said that it cannot place all."""
    waiting = facts.without_node(observation)
    for group in observation.pod_groups:
        if not waiting or read.text(group, "status", "phase") not in _WAITING:
            continue
        if message := _message(group, waiting):
            members = read.number(group, "spec", "minMember")
            about = facts.ref(group, names.POD_GROUP)
            queue = read.text(group, "spec", "queue") or "default"
            message = f"{len(waiting)} of its {members} pods have no node: {message}"
            return finding_of(observation, Reason.GANG_INCOMPLETE, about, message, pods=waiting, queue=queue)
    return None


def _message(group: Json, waiting: list[Json]) -> str:
    """The scheduler's message about the group, otherwise about its pods."""
    if read.holds(group, "Unschedulable"):
        return read.text(read.condition(group, "Unschedulable"), "message")
    return next(filter(None, map(facts.unscheduled, waiting)), "")
