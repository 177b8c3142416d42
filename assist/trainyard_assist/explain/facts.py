"""The facts that many rules share: the queue of a TrainJob, the rank of a pod, the age of an object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from trainyard_api import names, runtime_ref
from trainyard_api.json_types import Json
from trainyard_operator.core.status.display_state import State

from ..read import (
    at,
    condition,
    gates_of,
    holds,
    index,
    moment,
    name,
    number,
    objects,
    owned,
    suspended,
    text,
    texts,
    uid,
)
from ..stops import held_by_kueue
from .model import Observation, Ref, Subject


def ref(of: Json, kind: str) -> Ref:
    """The reference to the object, an item of a list: those lack their kind."""
    return Ref(kind, name(of), text(of, "metadata", "namespace") or None)


def age(observation: Observation, of: Json) -> float:
    """Seconds since it was created."""
    return since(observation, moment(of, "metadata", "creationTimestamp"))


def since(observation: Observation, moment_of: datetime) -> float:
    """Seconds since the moment."""
    return (observation.now - moment_of).total_seconds()


def namespace(observation: Observation) -> str:
    """The TrainJob's namespace."""
    return text(observation.trainjob, "metadata", "namespace")


def named_runtime(observation: Observation) -> Ref:
    """The runtime in the TrainJob's runtimeRef."""
    spec = at(observation.trainjob, "spec")
    named = runtime_ref.of(spec if isinstance(spec, Mapping) else {})
    return Ref(named.kind, named.name, named.namespace(namespace(observation)))


def own_jobset(observation: Observation) -> Json | None:
    """The JobSet, if it belongs to this TrainJob."""
    return owned(observation.jobset, observation.trainjob)


def is_held(observation: Observation, lease: Json) -> bool:
    """Whether somebody holds the Lease, and has renewed it in time."""
    lasts = number(lease, "spec", "leaseDurationSeconds", default=15)
    renewed = moment(lease, "spec", "renewTime")
    return bool(text(lease, "spec", "holderIdentity")) and since(observation, renewed) <= lasts


def operator_is_away(observation: Observation) -> bool:
    """Whether nobody holds the Lease of an operator, as far as that can be seen."""
    return Subject.OPERATOR_LEASE not in observation.unseen and not any(
        is_held(observation, lease) for lease in observation.leases
    )


# --- the queue ----------------------------------------------------------------


def queue(observation: Observation) -> str:
    """The LocalQueue that it is in: by its own label, or by that of its JobSet; empty if it is in none."""
    named = texts(observation.trainjob, "metadata", "labels").get(names.QUEUE_LABEL, "")
    return named or queue_of_jobset(observation) or _without_jobset(observation, "queue")


def queue_of_jobset(observation: Observation) -> str:
    """The LocalQueue that holds its JobSet; empty if none does."""
    return texts(own_jobset(observation), "metadata", "labels").get(names.QUEUE_LABEL, "")


def held_back(observation: Observation) -> bool:
    """Whether it is suspended, by its user or by the queue that holds it or its JobSet."""
    jobset = own_jobset(observation)
    waits = jobset is not None and bool(queue_of_jobset(observation)) and suspended(jobset)
    waits = waits or _without_jobset(observation, "state") == State.QUEUED
    return suspended(observation.trainjob) or waits


def suspended_by_user(observation: Observation) -> bool:
    """Whether it is suspended though its queue holds the JobSet, and so suspends only that."""
    if not suspended(observation.trainjob):
        return False
    return bool(queue_of_jobset(observation)) or _without_jobset(observation, "state") == State.SUSPENDED


def queue_suspends_trainjob(observation: Observation) -> bool:
    """Whether its queue suspends the TrainJob itself, as far as that is known without its JobSet."""
    is_queued = _without_jobset(observation, "state") == State.QUEUED
    return suspended(observation.trainjob) and is_queued and held_by_kueue(observation.trainjob)


def _without_jobset(observation: Observation, field: str) -> str:
    """What the operator has written of it into its status, if the user may not see the JobSet; else empty."""
    if Subject.JOBSET not in observation.unseen:
        return ""
    return text(observation.trainjob, "status", names.STATUS_FIELD, field)


def gates(observation: Observation) -> list[str]:
    """The gates that keep its queue from admitting it."""
    own = (observation.trainjob, own_jobset(observation))
    return list(dict.fromkeys(gate for of in own for gate in gates_of(of)))


# --- events -------------------------------------------------------------------


def warnings(observation: Observation, of: Json, *reasons: str) -> list[Json]:
    """The events about exactly this object with one of the reasons, the newest last."""
    events = (event for event in observation.events_of(of) if event.get("reason") in reasons)
    return sorted(events, key=_event_time)


def _event_time(event: Json) -> datetime:
    return max(
        moment(event, "lastTimestamp"),
        moment(event, "eventTime"),
        moment(event, "series", "lastObservedTime"),
        moment(event, "metadata", "creationTimestamp"),
    )


# --- pods ---------------------------------------------------------------------


def pending(observation: Observation) -> list[Json]:
    """The current pods that have not started."""
    return [pod for pod in observation.current_pods if text(pod, "status", "phase") == "Pending"]


def without_node(observation: Observation) -> list[Json]:
    """The current pods that no scheduler has placed."""
    return [pod for pod in pending(observation) if not text(pod, "spec", "nodeName")]


def unscheduled(pod: Json) -> str:
    """Why its scheduler has found no node for it; empty if it has said nothing."""
    scheduled = condition(pod, "PodScheduled")
    return text(scheduled, "message") if text(scheduled, "status") == "False" else ""


def has_its_volumes(pod: Json) -> bool:
    """Whether its node has made its sandbox and mounted its volumes: what failed of that before is over."""
    return holds(pod, "PodReadyToStartContainers")


def is_ready(pod: Json) -> bool:
    """Whether the pod runs and is Ready."""
    return text(pod, "status", "phase") == "Running" and holds(pod, "Ready")


# --- ranks --------------------------------------------------------------------


def is_trainer(job: Json) -> bool:
    """Whether the Job's pods are the ranks of a training."""
    return texts(job, "metadata", "labels").get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER


def is_initializer(job: Json) -> bool:
    """Whether the Job's pods fetch what the ranks need."""
    step = texts(job, "metadata", "labels").get(names.ANCESTOR_LABEL)
    return step in names.INITIALIZERS


def ranks(job: Json) -> int:
    """How many pods the Job should have."""
    return number(job, "spec", "completions", default=1)


def done(job: Json) -> frozenset[int]:
    """The indexes of the Job that have succeeded, which its status writes as `0,2-4`."""
    indexes: set[int] = set()
    for part in text(job, "status", "completedIndexes").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            indexes.update(range(int(first), min(int(last or first), int(first) + ranks(job)) + 1))
    return frozenset(indexes)


def rank(observation: Observation, pod: Json) -> int | None:
    """The rank of the pod; None if it is not one of several."""
    job = observation.job_of(pod)
    return index(pod) if job is not None and is_trainer(job) and ranks(job) > 1 else None


def absent(observation: Observation, job: Json) -> tuple[int, ...]:
    """The ranks of the Job that have no pod, if another has one that is Ready and so waits for them."""
    pods = observation.pods_of(job)
    if Subject.PODS in observation.unseen or not is_trainer(job) or not any(map(is_ready, pods)):
        return ()
    there = {index(pod) for pod in pods} | done(job)
    return tuple(rank for rank in range(ranks(job)) if rank not in there)


_ELASTIC: Final = re.compile(
    r"--nnodes[= ]\"?(?:\$\{(?P<variable>\w{1,100}):-)?(?P<least>\d{1,9})\}?:", re.ASCII
)
"""As the runtime torch-elastic has it: the least number of nodes, or a variable that has it by default."""


def continues(observation: Observation, without: Sequence[int]) -> bool:
    """Whether enough nodes of an elastic training are Ready to go on without these.

    The first is one of them: there the others meet.
    """
    ready = {
        place: pod
        for pod in observation.current_pods
        if is_ready(pod) and (place := rank(observation, pod)) is not None and place not in without
    }
    least = _least(ready[0]) if 0 in ready else None
    return least is not None and len(ready) >= least


def _least(pod: Json) -> int | None:
    """With how few nodes the training of this node goes on; None if it needs all."""
    for container in objects(pod, "spec", "containers"):
        words = container.get("command")
        for word in words if isinstance(words, list) else ():
            if match := _ELASTIC.search(str(word)):
                variables = {text(each, "name"): text(each, "value") for each in objects(container, "env")}
                value = variables.get(match["variable"] or "", "")
                return int(value if re.fullmatch(r"[0-9]{1,9}", value) else match["least"])
    return None


def waiting_for(observation: Observation, held: Sequence[Json]) -> tuple[int, ...]:
    """The ranks of the pods, if another pod of the same Job is Ready and so waits for them."""
    missing = set()
    ready = {
        uid(job) for pod in observation.current_pods if is_ready(pod) and (job := observation.job_of(pod))
    }
    for pod in held:
        job, place = observation.job_of(pod), rank(observation, pod)
        if place is not None and job is not None and uid(job) in ready:
            missing.add(place)
    return tuple(sorted(missing))
