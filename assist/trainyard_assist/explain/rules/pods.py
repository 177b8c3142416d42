"""Why pods are not admitted, or do not start on their node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from trainyard_api import names, quantity
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed
from trainyard_operator.core.decide import refusals
from trainyard_operator.core.status import pod_readiness

from ... import read
from .. import facts
from ..model import Finding, Observation, Ref, Subject
from .finding import finding_of
from .trainjob import with_reported_step

_OF_A_SANDBOX: Final = f"{names.CATALOG_IMAGES}/"
"""Images that no registry has, and a sandbox only if somebody has asked for them."""
_PUBLISHED: Final = tuple(f"{_OF_A_SANDBOX}{image}:" for image in names.RELEASE_IMAGES)
"""Those that a release has under another name."""
_START_ENDED: Final = frozenset({"StartError", "ContainerCannotRun"})
_LEAST_MEMORY: Final = quantity.parse("6Mi")
_TRIES_AGAIN: Final = "; trying again in "
"""The log line of our initializers before a retry."""
_CACHE_WAITS: Final = " pods of the cache are ready; pod "
"""The log line of our initializers while a cache has a pod that cannot start."""
_QUOTA: Final = re.compile(r"exceeded quota: ([\w.-]+)")


def over_quota(observation: Observation) -> Finding | None:
    """A ResourceQuota refuses the pods of a Job."""
    for job, message in _refusals(observation):
        if quota := _QUOTA.search(message):
            about = Ref("ResourceQuota", quota[1], facts.namespace(observation))
            sentence = f"Job {read.name(job)}: {message}"
            return _refused(observation, Reason.PODS_OVER_QUOTA, about, job, sentence, quota=quota[1])
    return None


def refused(observation: Observation) -> Finding | None:
    """Admission refuses the pods of a Job."""
    for job, message in _refusals(observation):
        return with_reported_step(
            observation, _refused(observation, Reason.PODS_REFUSED, facts.ref(job, "Job"), job, message)
        )
    return None


def image_not_pulled(observation: Observation) -> Finding | None:
    """A container's image cannot be pulled."""
    for pod, status in _waiting(observation):
        if _reason(status) in pod_readiness.IMAGE:
            image = read.text(status, "image")
            message = f"image {image} cannot be pulled: {_reason(status)}: {_message(status)}"
            if image.startswith(_OF_A_SANDBOX):
                message += ". On a sandbox, `trainyard sandbox up --with all` adds it"
            if image.startswith(_PUBLISHED):
                message += f". On another cluster, {_with_published_name(observation, pod, status)}"
            return _about_pod(
                observation,
                Reason.IMAGE_NOT_PULLED,
                pod,
                message,
                lambda s: _reason(s) in pod_readiness.IMAGE,
                image=image,
            )
    return None


def _with_published_name(observation: Observation, pod: Json, status: Json) -> str:
    """Where to set the name that a release has for the image: a stack's list is only for its own runtimes.

    A setting that takes precedence over the list is named only for the container whose image it sets.
    """
    runtime = facts.named_runtime(observation)
    is_own = read.text(observation.trainjob, "spec", "trainer", "image") == read.text(status, "image")
    if is_own or runtime.kind != names.CLUSTER_TRAINING_RUNTIME:
        return "set as `image` its name in `images.txt` of a release"
    way_out = "the platform team lists it in `artifacts.images`"
    container = read.text(status, "name")
    if container == names.NODE:
        return f"{way_out}, and leaves out `runtimes.{runtime.name}.image`"
    variables = [
        read.text(variable, "name")
        for other, spec in read.containers(pod)
        if read.text(other, "name") == container
        for variable in read.objects(spec, "env")
    ]
    if names.CACHE_IMAGE in variables:
        return f"{way_out}, and leaves out `dataCache.initializerImage`"
    return way_out


def secret_missing(observation: Observation) -> Finding | None:
    """A Secret that a container or a volume needs does not exist."""
    for pod in facts.pending(observation):
        for message in _config_problems(observation, pod):
            name = pod_readiness.SECRET.search(message)
            if name and "not found" in message:
                held = [
                    p
                    for p in facts.pending(observation)
                    if any(name[0] in m for m in _config_problems(observation, p))
                ]
                about = Ref("Secret", name[1], facts.namespace(observation))
                sentence = f"Pod {read.name(pod)}: {message}"
                return finding_of(
                    observation, Reason.SECRET_MISSING, about, sentence, pods=held, secret=name[1]
                )
    return None


def config_missing(observation: Observation) -> Finding | None:
    """A container cannot be configured."""
    for pod, status in _waiting(observation):
        if _reason(status) == pod_readiness.CONFIG:
            message = f"container {read.text(status, 'name')}: {_message(status)}"
            return _about_pod(
                observation, Reason.CONFIG_MISSING, pod, message, lambda s: _reason(s) == pod_readiness.CONFIG
            )
    return None


def volume_not_mounted(observation: Observation) -> Finding | None:
    """A volume of a pod that has a node cannot be attached or mounted."""
    for pod in _without_volumes(observation):
        for event in reversed(facts.warnings(observation, pod, *pod_readiness.MOUNT)):
            about = facts.ref(pod, "Pod")
            return finding_of(
                observation, Reason.VOLUME_NOT_MOUNTED, about, read.text(event, "message"), pods=[pod]
            )
    return None


def sandbox_not_made(observation: Observation) -> Finding | None:
    """A node cannot create the sandbox that the containers of a pod run in."""
    for pod in _without_volumes(observation):
        small = listed(_small_limits(pod))
        # The limit applies to volumes in memory too, such as that of the pod's token.
        reasons = ("FailedCreatePodSandBox", "FailedMount") if small else ("FailedCreatePodSandBox",)
        for event in reversed(facts.warnings(observation, pod, *reasons)):
            limits = small or "none of them is small"
            node = read.text(pod, "spec", "nodeName")
            about, message = facts.ref(pod, "Pod"), read.text(event, "message")
            return finding_of(
                observation, Reason.SANDBOX_NOT_MADE, about, message, pods=[pod], limits=limits, node=node
            )
    return None


def _without_volumes(observation: Observation) -> list[Json]:
    return [pod for pod in facts.pending(observation) if not facts.has_its_volumes(pod)]


def initializer_retries(observation: Observation) -> Finding | None:
    """An initializer's last log line reports a retry."""
    line = next(iter(observation.log[-1:]), "")
    if _TRIES_AGAIN not in line or (pod := running_initializer(observation)) is None:
        return None
    return finding_of(
        observation, Reason.INITIALIZER_RETRIES, facts.ref(pod, "Pod"), line, pods=[pod], log=observation.log
    )


def cache_waits(observation: Observation) -> Finding | None:
    """An initializer's last log line names a pod of its data cache that cannot start."""
    line = next(iter(observation.log[-1:]), "")
    if _CACHE_WAITS not in line or (pod := running_initializer(observation)) is None:
        return None
    cache, namespace = f"{read.name(observation.trainjob)}-cache", facts.namespace(observation)
    return finding_of(
        observation,
        Reason.CACHE_WAITS,
        Ref("LeaderWorkerSet", cache, namespace),
        line,
        pods=[pod],
        cache=cache,
        namespace=namespace,
    )


def running_initializer(observation: Observation) -> Json | None:
    """A pod that fetches a dataset or a model."""
    for pod in observation.current_pods:
        job = observation.job_of(pod)
        if job is not None and facts.is_initializer(job) and read.text(pod, "status", "phase") == "Running":
            return pod
    return None


def _small_limits(pod: Json) -> Iterator[str]:
    """Limits of memory in which no container can start, such as `512m`: that is half a byte."""
    for container in read.objects(pod, "spec", "containers"):
        limit = read.text(container, "resources", "limits", "memory")
        amount = read.amount(limit)
        if amount is not None and amount.nano < _LEAST_MEMORY.nano:
            yield f"memory {limit} of {read.text(container, 'name')}"


def cannot_start(observation: Observation) -> Finding | None:
    """The runtime cannot start a container: no such command, no such folder."""
    for pod, status in _waiting(observation):
        ended = read.at(status, "lastState", "terminated")
        waits = _reason(status) in pod_readiness.START
        if waits or (ended and read.text(ended, "reason") in _START_ENDED):
            message = _message(status) if waits else read.text(ended, "message")
            return _cannot_start(observation, pod, status, message)
    for pod in observation.current_pods:
        for status, _ in read.containers(pod):
            ended = read.at(status, "state", "terminated")
            if read.text(ended, "reason") in _START_ENDED:
                return _cannot_start(observation, pod, status, read.text(ended, "message"))
    return None


def evicted(observation: Observation) -> Finding | None:
    """The node has evicted a pod; how its containers ended is then not the cause."""
    for pod in observation.current_pods:
        if read.text(pod, "status", "reason") == "Evicted":
            node, message = read.text(pod, "spec", "nodeName"), read.text(pod, "status", "message")
            return finding_of(
                observation, Reason.EVICTED, facts.ref(pod, "Pod"), f"node {node}: {message}", pods=[pod]
            )
    return None


def _cannot_start(observation: Observation, pod: Json, status: Json, message: str) -> Finding:
    container = read.text(status, "name")
    message = f"container {container}: {message}"
    return finding_of(
        observation, Reason.CANNOT_START, facts.ref(pod, "Pod"), message, pods=[pod], container=container
    )


def _refusals(observation: Observation) -> Iterator[tuple[Json, str]]:
    """The Jobs that have fewer pods than they should, and why."""
    for job in observation.jobs:
        expected = min(
            read.number(job, "spec", "parallelism", default=1), facts.ranks(job) - len(facts.done(job))
        )
        if read.suspended(job) or _there(observation, job) >= expected:
            continue
        for event in reversed(facts.warnings(observation, job, "FailedCreate")):
            yield job, refusals.SAID_OF_A_JOB.sub("", read.text(event, "message"))
            break


def _there(observation: Observation, job: Json) -> int:
    """How many pods the Job has; by its own count, if not all pods were seen."""
    if Subject.PODS in observation.unseen:
        return read.number(job, "status", "active")
    return len(observation.pods_of(job))


def _refused(
    observation: Observation, cause: Reason, about: Ref, job: Json, message: str, **words: Any
) -> Finding:
    if there := _there(observation, job):
        message = f"{there} of {facts.ranks(job)} pods exist: {message}"
    return replace(
        finding_of(observation, cause, about, message, **words), ranks=facts.absent(observation, job)
    )


def _waiting(observation: Observation) -> Iterator[tuple[Json, Json]]:
    for pod in observation.current_pods:
        for status, _ in read.containers(pod):
            if read.at(status, "state", "waiting") is not None:
                yield pod, status


def _about_pod(
    observation: Observation,
    cause: Reason,
    pod: Json,
    message: str,
    same: Callable[[Json], bool],
    **words: Any,
) -> Finding:
    held = [p for p, status in _waiting(observation) if same(status)]
    return finding_of(observation, cause, facts.ref(pod, "Pod"), message, pods=held, **words)


def _config_problems(observation: Observation, pod: Json) -> Iterator[str]:
    for status, _ in read.containers(pod):
        if _reason(status) == pod_readiness.CONFIG:
            yield _message(status)
    if not facts.has_its_volumes(pod):
        for event in reversed(facts.warnings(observation, pod, "FailedMount")):
            yield read.text(event, "message")


def _reason(status: Json) -> str:
    return read.text(status, "state", "waiting", "reason")


def _message(status: Json) -> str:
    return clean(read.text(status, "state", "waiting", "message"))
