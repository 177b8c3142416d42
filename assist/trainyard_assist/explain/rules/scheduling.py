"""Why pods have no node, or have lost it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed

from ... import read, text
from .. import facts
from ..model import Finding, Observation, Ref, Subject
from . import fit
from .finding import finding_of

_PATIENCE: Final = 5.0
"""Seconds in which a scheduler looks at a new pod."""


def node_lost(observation: Observation) -> Finding | None:
    """A node with pods is not ready, or no longer exists."""
    nodes = {read.name(node): node for node in observation.nodes}
    for pod in _unfinished(observation):
        name = read.text(pod, "spec", "nodeName")
        if not name or Subject.NODES in observation.unseen:
            continue
        node = nodes.get(name)
        if node is None:
            message = "it no longer exists"
        elif not read.holds(node, "Ready"):
            ready = read.condition(node, "Ready")
            message = f"it is not Ready: {read.text(ready, 'reason')}: {read.text(ready, 'message')}"
        else:
            continue
        there = [p for p in _unfinished(observation) if read.text(p, "spec", "nodeName") == name]
        message = f"{message}; pods on it: {listed(map(read.name, there))}"
        return finding_of(
            observation, Reason.NODE_LOST, Ref("Node", name), message, pods=there, node=f"Node {name}"
        )
    return None


def claim_missing(observation: Observation) -> Finding | None:
    """A pod names a claim that does not exist."""
    if Subject.CLAIMS in observation.unseen:
        return None
    claims = {read.name(claim) for claim in observation.claims}
    for pod in facts.pending(observation):
        for claim in claims_of(pod):
            if claim not in claims:
                about = Ref("PersistentVolumeClaim", claim, facts.namespace(observation))
                message = f"{_pod(pod)} needs it, and it does not exist"
                return finding_of(observation, Reason.CLAIM_MISSING, about, message, pods=[pod], claim=claim)
    return None


def claim_pending(observation: Observation) -> Finding | None:
    """A claim that a pod waits for has no volume."""
    for claim in pending_claims(observation):
        waiting = [pod for pod in facts.pending(observation) if read.name(claim) in claims_of(pod)]
        events = facts.warnings(observation, claim, "ProvisioningFailed", "FailedBinding")
        if not events and not any("olume" in facts.unscheduled(pod) for pod in waiting):
            continue
        storage_class = read.text(claim, "spec", "storageClassName")
        message = read.text(events[-1], "message") if events else "no volume is bound to it"
        return finding_of(
            observation,
            Reason.CLAIM_PENDING,
            facts.ref(claim, "PersistentVolumeClaim"),
            f"{listed(map(_pod, waiting))} waits for it: {message}",
            pods=waiting,
            claim=read.name(claim),
            storage_class=storage_class or "(none is named)",
            namespace=facts.namespace(observation),
        )
    return None


def gated(observation: Observation) -> Finding | None:
    """A pod has scheduling gates."""
    for pod in facts.pending(observation):
        gates = [read.text(gate, "name") for gate in read.objects(pod, "spec", "schedulingGates")]
        if gates:
            names = listed(gates)
            message = f"it is held by the scheduling gate {names}"
            return finding_of(
                observation, Reason.SCHEDULING_GATED, facts.ref(pod, "Pod"), message, pods=[pod], gates=names
            )
    return None


def no_scheduler(observation: Observation) -> Finding | None:
    """No scheduler has looked at a pod without a node."""
    for pod in facts.without_node(observation):
        if read.condition(pod, "PodScheduled") is None and facts.age(observation, pod) >= _PATIENCE:
            scheduler = read.text(pod, "spec", "schedulerName") or "default-scheduler"
            message = f"{scheduler} has not reported on it for {text.duration(facts.age(observation, pod))}"
            about = facts.ref(pod, "Pod")
            return finding_of(
                observation, Reason.NO_SCHEDULER, about, message, pods=[pod], scheduler=scheduler
            )
    return None


def no_device(observation: Observation) -> Finding | None:
    """A pod asks for a device that no node that it may run on offers."""
    if Subject.NODES in observation.unseen:
        return None
    waiting = facts.without_node(observation)
    for pod in waiting:
        nodes = fit.selected(pod, observation.nodes)
        for resource in fit.devices(facts.unscheduled(pod)):
            if nodes and not any(fit.offers(node, resource) for node in nodes):
                message = f"it asks for {resource}, but {_none_of(nodes)}"
                held = [p for p in waiting if resource in fit.devices(facts.unscheduled(p))]
                about = facts.ref(pod, "Pod")
                return finding_of(observation, Reason.NO_DEVICE, about, message, pods=held, resource=resource)
    return None


def no_node_fits(observation: Observation) -> Finding | None:
    """The scheduler has looked, and found no node for a pod."""
    waiting = facts.without_node(observation)
    for pod in waiting:
        if reason := facts.unscheduled(pod):
            more = fit.misfits(reason, pod, observation.nodes)
            # The rest is about preemption: why no other pod makes room.
            message = reason.split(" preemption:")[0].removesuffix(" no new claims to deallocate,")
            held = [p for p in waiting if facts.unscheduled(p)]
            message = f"{message} ({more})" if more else message
            return finding_of(observation, Reason.NO_NODE_FITS, facts.ref(pod, "Pod"), message, pods=held)
    return None


def pending_claims(observation: Observation) -> list[Json]:
    """The claims without a volume that pending pods name."""
    names = {claim for pod in facts.pending(observation) for claim in claims_of(pod)}
    return [
        c for c in observation.claims if read.name(c) in names and read.text(c, "status", "phase") != "Bound"
    ]


def claims_of(pod: Json) -> Iterator[str]:
    """The names of the claims that the pod mounts."""
    for volume in read.objects(pod, "spec", "volumes"):
        if claim := read.text(volume, "persistentVolumeClaim", "claimName"):
            yield claim


def _none_of(nodes: list[Json]) -> str:
    if len(nodes) > 1:
        return f"none of the {len(nodes)} nodes on which it can run offers it"
    return f"node {read.name(nodes[0])}, the only one on which it can run, does not offer it"


def _unfinished(observation: Observation) -> list[Json]:
    """The pods that have not ended and that no other has replaced."""
    unfinished = ("Pending", "Running", "Unknown")
    return [p for p in observation.last_pods if read.text(p, "status", "phase") in unfinished]


def _pod(pod: Json) -> str:
    return f"Pod {read.name(pod)}"
