"""Why no node fits a pod: which resource, which taint, which label.

The scheduler says how many nodes fail for which kind of reason; this module
reads the rest from the pod and the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainyard_api import quantity
from trainyard_api.json_types import Json
from trainyard_api.shown import listed

from ... import read

_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]+)")
_OF_ALL = re.compile(r"0/(\d{1,9}) nodes are available: \1 node\(s\) didn't match Pod's node affinity")
"""No node is left for any other reason."""


def misfits(message: str, pod: Json, nodes: Sequence[Json]) -> str:
    """Requests of the pod that the nodes lack, according to the scheduler's message."""
    return "; ".join(_misfits(message, pod, nodes))


def devices(message: str) -> list[str]:
    """The resources of device plugins that nodes have too few of, according to the scheduler."""
    named = (resource.rstrip(".") for resource in _INSUFFICIENT.findall(message))
    return [resource for resource in dict.fromkeys(named) if "/" in resource]


def selected(pod: Json, nodes: Sequence[Json]) -> list[Json]:
    """The nodes that have the labels of the pod's node selector."""
    labels = read.texts(pod, "spec", "nodeSelector").items()
    return [node for node in nodes if labels <= read.texts(node, "metadata", "labels").items()]


def offers(node: Json, resource: str) -> bool:
    """Whether the node has any of the resource allocatable, in use or not."""
    return _allocatable(node, resource).nano > 0


def _misfits(message: str, pod: Json, nodes: Sequence[Json]) -> Iterator[str]:
    for resource in dict.fromkeys(_INSUFFICIENT.findall(message)):
        yield _resource(resource.rstrip("."), pod, nodes)
    if "taint" in message:
        for node in nodes:
            if taints := _repelling_taints(node, pod):
                yield f"node {read.name(node)} has the taint {listed(map(_taint, taints))}"
                break
    if "selector" in message:
        selector = read.texts(pod, "spec", "nodeSelector")
        for key, value in selector.items():
            if nodes and not any(read.texts(n, "metadata", "labels").get(key) == value for n in nodes):
                yield f"no node has the label {key}={value}"
        if not selector and _OF_ALL.match(message):
            yield "its node affinity matches no node"


def _resource(resource: str, pod: Json, nodes: Sequence[Json]) -> str:
    request = read.requests(pod).get(resource, quantity.ZERO)
    sentence = f"the pod asks for {resource} {request}"
    if not nodes:
        return sentence
    largest = max(nodes, key=lambda node: _allocatable(node, resource).nano)
    most = _allocatable(largest, resource)
    if most.nano < request.nano:
        return f"{sentence}, and no node has more than {most}"
    open_to_it = [node for node in selected(pod, nodes) if not _repelling_taints(node, pod)]
    if any(_allocatable(node, resource).nano >= request.nano for node in open_to_it):
        return f"{sentence}, which other pods use"
    return f"{sentence}, and cannot run on nodes that have enough of it: {_barrier(largest, pod)}"


def _repelling_taints(node: Json, pod: Json) -> list[Json]:
    return [taint for taint in _taints(node) if not _is_tolerated(taint, pod)]


def _barrier(node: Json, pod: Json) -> str:
    """The reason why the pod cannot run on the node."""
    if taints := _repelling_taints(node, pod):
        return f"node {read.name(node)} has the taint {listed(map(_taint, taints))}"
    labels = read.texts(node, "metadata", "labels")
    missing = [f"{k}={v}" for k, v in read.texts(pod, "spec", "nodeSelector").items() if labels.get(k) != v]
    return f"node {read.name(node)} lacks the label {listed(missing)}"


def _allocatable(node: Json, resource: str) -> quantity.Quantity:
    return read.amount(node, "status", "allocatable", resource) or quantity.ZERO


def _taints(node: Json) -> list[Json]:
    return [t for t in read.objects(node, "spec", "taints") if t.get("effect") in ("NoSchedule", "NoExecute")]


def _taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _is_tolerated(taint: Json, pod: Json) -> bool:
    for toleration in read.objects(pod, "spec", "tolerations"):
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        if toleration.get("operator") == "Exists" and toleration.get("key") in (None, "", taint.get("key")):
            return True
        if toleration.get("key") == taint.get("key") and toleration.get("value") == taint.get("value"):
            return True
    return False
