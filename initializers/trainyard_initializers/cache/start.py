"""Start a cache, and wait until trainers can read from it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from ..failures import FAILURES, Failure, InvalidSource, NotFound, Unreachable
from ..request import Request
from ..retry import Backoff, persist
from . import manifests, settings
from .cluster import AlreadyThereError, Cluster

_PAUSE: Final = 2.0
"""Seconds between two looks at the cache."""
_ENDS: Final = {kind.exit_code: kind for kind in FAILURES if not kind.passing}
"""What the cache's processes end with if trying again is of no use."""
_BAD_IMAGE: Final = "InvalidImageName"
_CANNOT_START: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"),
    *("CreateContainerConfigError", "CreateContainerError"),
)
"""What somebody may mend while a pod waits: the registry, the node, a Secret."""
_MAY_PASS: Final = frozenset({0, 137, 143, Unreachable.exit_code})
"""What a process ends with that is told to end or is killed, or that does not reach its store."""
_MOST_ENDS: Final = 10
"""Of one pod for another reason: after as many it is given up."""

Ends = dict[str, set[str]]
"""By the name of a pod, which each of its successors has too: the containers that have ended."""

_log = logging.getLogger(__name__)


def start(
    request: Request, cluster: Cluster, backoff: Backoff, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Make the objects of a cache, as far as they are not there, and wait until it is ready.

    A pod that is started again goes on with the cache that its predecessor has made.

    Args:
        request: For `cache://schema/table`.
        cluster: Where.
        backoff: For requests that fail.
        sleep: Waits that many seconds.

    Raises:
        Failure: The cache cannot be made, or ends for a reason that stays; the reason is in the text.
    """
    cache = settings.read(request)
    job = persist(backoff, lambda: cluster.get(manifests.TRAINER, "TrainJob", cache.job))
    for manifest in manifests.of(cache, job):
        persist(backoff, partial(_make, cluster, manifest))
    address = f"{cache.service}:{manifests.PORT}"
    _log.info("waiting for the cache %s: a head and %d workers", cache.name, cache.size - 1)
    before = ""
    ends: Ends = {}
    while True:
        state = persist(backoff, lambda: _state(cluster, cache, ends))
        if not state:
            _log.info("the cache is ready: trainers read %s from %s", request.uri, address)
            return
        if state != before:
            _log.info("%s", state)
            before = state
        sleep(_PAUSE)


def _make(cluster: Cluster, manifest: Mapping[str, Any]) -> None:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    try:
        cluster.create(manifest)
    except AlreadyThereError:
        try:
            there = cluster.get(manifest["apiVersion"], kind, name)
        except NotFound:
            raise Unreachable(f"{kind} {name} was there, and is gone now") from None
        [reference] = manifest["metadata"]["ownerReferences"]
        owners = there["metadata"].get("ownerReferences") or []
        if any(owner.get("uid") == reference["uid"] for owner in owners):
            _log.info("%s %s is there already", kind, name)
            return
        if any(
            owner.get("kind") == "TrainJob" and owner.get("name") == reference["name"] for owner in owners
        ):
            raise Unreachable(
                f"{kind} {name} is of an earlier TrainJob of this name, and has not gone yet"
            ) from None
        raise InvalidSource(
            f"{kind} {name} is there and does not belong to this TrainJob: delete it, or rename the TrainJob"
        ) from None
    _log.info("created %s %s", kind, name)


def _state(cluster: Cluster, cache: settings.Settings, ends: Ends) -> str:
    """What the cache waits for; empty: it is ready."""
    workload = cluster.get(manifests.LWS, "LeaderWorkerSet", cache.name)
    if _is(workload, "Available"):
        return ""
    pods = cluster.pods(manifests.LWS_NAME, cache.name)
    try:
        waits = [line for pod in pods for line in _of_pod(pod, cache, ends)]
    except Failure:
        # It would start again and again until the TrainJob goes.
        cluster.delete(manifests.LWS, "LeaderWorkerSet", cache.name, workload["metadata"]["uid"])
        raise
    ready = sum(_is(pod, "Ready") for pod in pods)
    return f"{ready} of {cache.size} pods of the cache are ready" + "".join(f"; {line}" for line in waits[:1])


def _is(manifest: Mapping[str, Any], kind: str) -> bool:
    """Whether its condition of this type is true."""
    conditions = (manifest.get("status") or {}).get("conditions") or []
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def _of_pod(pod: Mapping[str, Any], cache: settings.Settings, ends: Ends) -> Iterator[str]:
    """What a pod waits for, in words.

    Raises:
        Failure: It has ended for a reason that stays, or too often, or can never start.
    """
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        process = "HEAD" if container["name"] == "head" else "WORKER"
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            if ended := state.get("terminated"):
                last = f"with {ended.get('exitCode')}: {_judge(name, process, ended, cache)}"
                _count(name, ended, ends, last)
                yield f"pod {name} ended {last}"
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == _BAD_IMAGE:
            raise InvalidSource(
                f"pod {name} of the cache can never start: {cache.image!r} is not a valid name of an image; "
                "it comes from CACHE_IMAGE of the runtime (dataCache.cacheImage in the stack file)"
            )
        if waiting.get("reason") in _CANNOT_START:
            yield f"pod {name}: {waiting['reason']}: {waiting.get('message') or cache.image}"
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"pod {name} is not scheduled: {condition.get('message') or condition.get('reason')}"


def _count(pod: str, ended: Mapping[str, Any], ends: Ends, last: str) -> None:
    """Remember an end; raises a `Failure` if it is one too many."""
    if ended.get("exitCode") in _MAY_PASS:
        return
    containers = ends.setdefault(pod, set())
    containers.add(str(ended.get("containerID")))
    if len(containers) == _MOST_ENDS:
        raise InvalidSource(f"pod {pod} of the cache has ended {_MOST_ENDS} times, the last time {last}")


def _judge(pod: str, process: str, ended: Mapping[str, Any], cache: settings.Settings) -> str:
    """The last line of a process that has ended; raises a `Failure` if trying again is of no use."""
    if ended.get("reason") == "OOMKilled":
        memory = cache.head.memory if process == "HEAD" else cache.worker.memory
        others = "" if process == "HEAD" else ", or CLUSTER_SIZE for more workers"
        raise InvalidSource(
            f"pod {pod} of the cache needs more memory than its {memory}: raise {process}_MEM{others}"
        )
    kind = _ENDS.get(ended.get("exitCode", 0))
    lines = str(ended.get("message") or "").strip().splitlines()
    if not kind:
        return lines[-1] if lines else str(ended.get("reason"))
    raise kind(
        f"pod {pod} of the cache: {lines[-1].removeprefix(f'{kind.reason}: ') if lines else kind.means}"
    )
