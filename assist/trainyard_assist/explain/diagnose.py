"""From an observation to a diagnosis: the state, the first cause, and the walk."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed

from .. import read, text
from . import facts, walk
from .model import Diagnosis, Finding, Observation, State, Subject, Unseen
from .rules import AFTER_THE_END, BEFORE_THE_END, ELSEWHERE, Rule, attempts, kueue, silence
from .rules.trainjob import manager_elsewhere, reported_active

T = TypeVar("T")


def explain(observation: Observation) -> Diagnosis:
    """Why the TrainJob does not run, or that it does.

    Never raises for what the API server can hold. No text in the diagnosis can control a terminal.
    """
    rules = _rules(observation)
    finding = _first(observation, rules)
    without = None
    if (
        rules is BEFORE_THE_END
        and finding is not None
        and finding.ranks
        and facts.continues(observation, finding.ranks)
    ):
        # What holds up these nodes does not hold up the others.
        without, finding = finding, _first(observation, rules, but_of_nodes=True)
    state = _state(observation, finding)
    observation = replace(observation, unseen=_unseen(observation, finding))
    diagnosis = Diagnosis(
        trainjob=facts.ref(observation.trainjob, names.TRAINJOB),
        state=state,
        answer=_answer(observation, state, finding, without),
        finding=finding,
        walk=walk.stages(observation, finding),
        unseen=tuple(
            Unseen(subject, observation.unseen[subject])
            for subject in Subject
            if subject in observation.unseen
        ),
    )
    return _clean(diagnosis)


def because(finding: Finding) -> str:
    """The cause, by its name and in a sentence."""
    ranks = f"the others wait for {_nodes(finding)}: " if finding.ranks else ""
    return f"{finding.cause}: {ranks}{finding.message}"


def _nodes(finding: Finding) -> str:
    return f"{'node' if len(finding.ranks) == 1 else 'nodes'} {listed(finding.ranks)}"


def _unseen(observation: Observation, finding: Finding | None) -> dict[Subject, str]:
    """Objects that could not be read, and why. Nodes only if they could change the answer."""
    unseen = dict(observation.unseen)
    matter = any(map(_starts, observation.current_pods)) if finding is None else finding.cause in _OF_NODES
    if (why := unseen.pop(Subject.NODES, None)) is not None and matter:
        unseen[Subject.NODES] = f"{why}; your platform team can tell whether they are ready and have room"
    return unseen


def _starts(pod: Json) -> bool:
    return not facts.is_ready(pod) and read.text(pod, "status", "phase") != "Succeeded"


_OF_NODES: Final = frozenset(
    {Reason.NO_NODE_FITS, Reason.NO_DEVICE, Reason.GANG_INCOMPLETE, Reason.NO_SCHEDULER, Reason.RANK_MISSING}
)
"""Causes that a look at the nodes may make more precise."""


def _rules(observation: Observation) -> tuple[Rule, ...]:
    if read.holds(observation.trainjob, names.COMPLETE):
        return ()
    if read.holds(observation.trainjob, names.FAILED):
        return AFTER_THE_END
    return ELSEWHERE if manager_elsewhere(observation.trainjob) else BEFORE_THE_END


def _first(
    observation: Observation, rules: tuple[Rule, ...], *, but_of_nodes: bool = False
) -> Finding | None:
    """The first cause; `but_of_nodes`: of those for which no other node waits."""
    findings = (finding for rule in rules if (finding := rule(observation)) is not None)
    return next((finding for finding in findings if not (but_of_nodes and finding.ranks)), None)


def _state(observation: Observation, finding: Finding | None) -> State:
    if read.holds(observation.trainjob, names.COMPLETE):
        return State.COMPLETE
    if read.holds(observation.trainjob, names.FAILED):
        return State.FAILED
    if finding is not None:
        return State.HELD
    pods = observation.current_pods
    reported = not observation.pods or (not pods and _hides_pods(observation))
    runs = reported_active(observation.trainjob) if reported else any(map(facts.is_ready, pods))
    return State.RUNNING if runs else State.STARTING


def _hides_pods(observation: Observation) -> bool:
    """Whether its pods could not be seen. Without its Jobs, nobody can tell which are the current ones."""
    return not observation.unseen.keys().isdisjoint((Subject.PODS, Subject.JOBS))


def _answer(observation: Observation, state: State, finding: Finding | None, without: Finding | None) -> str:
    """The state in a sentence; `without`: why the others continue without some nodes."""
    who = f"TrainJob {facts.namespace(observation)}/{read.name(observation.trainjob)}"
    if finding is None:
        more = ""
        if without is not None:
            why = f"{without.cause}: {without.message.removesuffix('.')}"
            more = f"; the others continue without {_nodes(without)}: {why}"
        return f"{who} {_without_cause(observation, state)}{more}."
    verb = "has failed" if state is State.FAILED else "is held up"
    return f"{who} {verb}: {because(finding)}"


def _without_cause(observation: Observation, state: State) -> str:
    if state is State.COMPLETE:
        message = read.text(read.condition(observation.trainjob, names.COMPLETE), "message")
        return f"is complete: {message}" if message else "is complete"
    pods = observation.current_pods
    ready = sum(map(facts.is_ready, pods))
    attempt = attempts.which(observation)
    if state is State.RUNNING:
        if pods:
            return f"runs: {ready} of {len(pods)} pods are ready{attempt}{silence.notice(observation)}"
        cluster = kueue.cluster(observation)
        if not cluster and _hides_pods(observation):
            return "runs. Its pods could not be seen"
        return f"runs in the cluster {cluster}" if cluster else "runs elsewhere"
    if pods:
        return f"is starting: {ready} of {len(pods)} pods are ready{attempt}"
    if (seconds := kueue.admitted_for(observation)) is not None:
        return f"is being started by Kueue, which admitted it {text.duration(seconds)} ago"
    if _hides_pods(observation):
        return "is starting. Its pods could not be seen"
    if observation.jobset is not None:
        return "is starting: its JobSet has no pods yet"
    if Subject.JOBSET in observation.unseen:
        return "is starting. Its JobSet could not be seen"
    age = text.duration(facts.age(observation, observation.trainjob))
    return f"is starting: it was created {age} ago and has no JobSet yet"


def _clean(value: T) -> T:
    """The value with every text in it made safe to print."""
    made: Any = value
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        made = clean(value)
    elif isinstance(value, tuple):
        made = tuple(_clean(item) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{f.name: _clean(getattr(value, f.name)) for f in fields(value)})
    return made  # type: ignore[no-any-return]
