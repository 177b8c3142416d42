"""Further objects to read after those of a TrainJob: only those that a cause may depend on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard_api import names
from trainyard_api.json_types import Json

from .. import read
from .model import Observation, Subject
from .rules import containers, jobset, kueue, pods, scheduling, silence, trainjob


@dataclass(frozen=True, slots=True)
class LogOf:
    """A container whose last log lines say why it ended."""

    pod: str
    container: str
    previous: bool
    """Whether it has restarted since."""


@dataclass(frozen=True, slots=True)
class FollowUps:
    """The next objects to read."""

    runtimes: bool = False
    """Whether to list the runtimes, because the TrainJob's own is missing."""
    operator: bool = False
    """Whether the operator has something to do, or has said something, and so must be running."""
    jobset_controller: bool = False
    """Whether JobSet's controller has something to do."""
    kueue: bool = False
    """Whether Kueue has something to do."""
    pod_groups: tuple[str, ...] = ()
    """The API versions of the gang schedulers that the pods name."""
    all_nodes: bool = False
    """Whether a pod has no node yet, so that any node may matter."""
    nodes: tuple[str, ...] = ()
    """Otherwise, the nodes that the pods are on."""
    log: LogOf | None = None
    silent: tuple[LogOf, ...] = ()
    """The containers whose logs say whether their ranks are silent."""
    claims: tuple[str, ...] = ()
    """The claims for which normal events matter too, not only warnings."""
    workload: Json | None = None
    """The Workload that waits for quota."""
    preemptor: str = ""
    """uid of the job that took its quota; empty if none did."""


def follow_ups(observation: Observation) -> FollowUps:
    """Objects that the answer still depends on; none for a complete TrainJob."""
    if read.holds(observation.trainjob, names.COMPLETE):
        return FollowUps()
    failure = containers.first_failure(observation)
    log = None
    if failure is not None:
        log = LogOf(read.name(failure.pod), failure.container, failure.running)
    elif (initializer := pods.running_initializer(observation)) is not None:
        first = next(iter(read.objects(initializer, "spec", "containers")), None)
        log = LogOf(read.name(initializer), read.text(first, "name"), previous=False)
    if read.holds(observation.trainjob, names.FAILED):
        return FollowUps(log=log)
    on = {read.text(pod, "spec", "nodeName") for pod in observation.pods}
    return FollowUps(
        runtimes=observation.runtime is None and Subject.RUNTIME not in observation.unseen,
        operator=trainjob.needs_operator(observation)
        or kueue.is_needed(observation)
        or read.holds(observation.trainjob, names.BLOCKED),
        jobset_controller=not jobset.is_served(observation),
        kueue=kueue.is_needed(observation),
        pod_groups=tuple(_gang_schedulers(observation)),
        all_nodes="" in on,
        nodes=tuple(sorted(on - {""})),
        log=log,
        silent=tuple(LogOf(read.name(pod), names.NODE, previous=False) for pod in silence.pods(observation)),
        claims=tuple(read.name(claim) for claim in scheduling.pending_claims(observation)),
        workload=kueue.waiting(observation),
        preemptor=kueue.preemptor(observation),
    )


def _gang_schedulers(observation: Observation) -> Iterator[str]:
    pods = [read.at(job, "spec", "template") for job in observation.jobs]
    if any(names.VOLCANO_GROUP_ANNOTATION in read.texts(p, "metadata", "annotations") for p in pods):
        yield names.VOLCANO_API_VERSION
    if any(names.COSCHEDULING_GROUP_LABEL in read.texts(p, "metadata", "labels") for p in pods):
        yield names.COSCHEDULING_API_VERSION
