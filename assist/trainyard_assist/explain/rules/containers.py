"""Why containers end: the one that failed first, since the others fail as a consequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from signal import Signals
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_operator.core.model import PodEnd
from trainyard_operator.core.status import attempts, termination_message

from ... import read, text
from .. import facts
from ..model import Finding, Observation
from . import attempts as recorded
from .finding import finding_of

_OOM: Final = "OOMKilled"
_AGAIN: Final = 30.0
"""Seconds after which a restarted container counts as running."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A container that has ended with an error, and does not run again."""

    pod: Json
    container: str
    ended: Json
    """Its `terminated` state."""
    limit: str
    """Its memory limit."""
    restarts: int
    running: bool
    """Whether it has just restarted."""

    @property
    def exit_code(self) -> int:
        """The exit code of what failed in it: its own, unless its termination message knows better."""
        words = self.words
        return read.number(self.ended, "exitCode") if words is None else words.exit_code

    @property
    def words(self) -> termination_message.LastWords | None:
        """Its termination message."""
        return termination_message.of(read.number(self.ended, "exitCode"), read.text(self.ended, "message"))


def oom_killed(observation: Observation) -> Finding | None:
    """The first that failed was killed for its memory."""
    first = first_failure(observation)
    if first is None or read.text(first.ended, "reason") != _OOM:
        return None
    limit = first.limit or "none is set"
    message = f"container {first.container} used more than its memory limit ({limit}){_restarts(first)}"
    about = facts.ref(first.pod, "Pod")
    return finding_of(
        observation, Reason.OOM_KILLED, about, message, pods=[first.pod], log=observation.log, limit=limit
    )


def exited(observation: Observation) -> Finding | None:
    """The first that failed ended by itself."""
    first = first_failure(observation)
    if first is None:
        return None
    words = first.words
    finding = finding_of(
        observation,
        Reason.CONTAINER_EXITED,
        facts.ref(first.pod, "Pod"),
        _by_container(first) if words is None or words.rank is None else _by_rank(observation, first, words),
        pods=[first.pod],
        log=text.tail(words.said) if words is not None and words.said else observation.log,
        pod=read.name(first.pod),
        container=first.container,
        namespace=facts.namespace(observation),
    )
    # Without --previous, kubectl shows the log of the restarted container.
    return replace(finding, next_step=f"{finding.next_step} --previous") if first.running else finding


def _by_container(failure: Failure) -> str:
    # With terminationMessagePolicy FallbackToLogsOnError it is the end of the log, which is shown as well.
    ended_with, code = read.number(failure.ended, "exitCode"), failure.exit_code
    quote = termination_message.short(
        termination_message.said(ended_with, read.text(failure.ended, "message"))
    )
    meaning = _meaning(failure, code)
    message = f"container {failure.container} exited with code {code}{f' ({meaning})' if meaning else ''}"
    return f"{message}{_restarts(failure)}{f': {quote}' if quote else ''}"


def _by_rank(observation: Observation, failure: Failure, words: termination_message.LastWords) -> str:
    # The words of the operator's record: the launcher's own exit code would only stand beside the rank's.
    end = PodEnd(
        job=read.texts(failure.pod, "metadata", "labels").get(names.REPLICATED_JOB_LABEL, ""),
        index=read.index(failure.pod) or 0,
        attempt=recorded.now(observation) - 1,
        pod=read.name(failure.pod),
        node=read.text(failure.pod, "spec", "nodeName"),
        container=failure.container,
        exit_code=words.exit_code,
        signal=_meaning(failure, words.exit_code),
        reason=read.text(failure.ended, "reason") or "Error",
        at=words.at or read.moment(failure.ended, "finishedAt"),
        message=words.said,
        rank=words.rank,
        lost_others=words.lost_others,
    )
    restarted = f"after {failure.restarts} restarts " if failure.restarts else ""
    return restarted + recorded.sentence(attempts.noted(end))


def another_failed_first(observation: Observation) -> Finding | None:
    """Another pod than those that are left failed first, as the operator noted it."""
    first = first_failure(observation)
    noted = recorded.of_now(observation)
    if first is None or noted is None or noted["pod"] == read.name(first.pod):
        return None
    at, _, lost_others = _end(first)
    if attempts.had_continued(read.moment(noted, "failedAt"), at, lost_others):
        return None
    return recorded.failed(observation, noted)


def first_failure(observation: Observation) -> Failure | None:
    """The container that failed first, of those of the current pods that do not run."""
    return min(_failures(observation), key=_order, default=None)


def _order(failure: Failure) -> tuple[Any, ...]:
    return attempts.order(*_end(failure))


def _end(failure: Failure) -> tuple[datetime, int, bool]:
    """When it failed, with which exit code, and whether because it lost others."""
    words, at = failure.words, read.moment(failure.ended, "finishedAt")
    if words is None:
        return at, read.number(failure.ended, "exitCode"), False
    return words.at or at, words.exit_code, words.lost_others


def _failures(observation: Observation) -> Iterator[Failure]:
    for pod in observation.current_pods:
        if read.text(pod, "status", "phase") == "Succeeded":
            continue  # its sidecars were killed when it had ended
        for status, spec in read.containers(pod):
            ended = read.at(status, "state", "terminated")
            running = read.at(status, "state", "running")
            restarts = read.number(status, "restartCount")
            if ended is None and (running is None or _flaps(observation, restarts, running)):
                ended = read.at(status, "lastState", "terminated")
            if ended is not None and read.number(ended, "exitCode") != 0:
                limit = read.text(spec, "resources", "limits", "memory")
                yield Failure(pod, read.text(status, "name"), ended, limit, restarts, running is not None)


def _flaps(observation: Observation, restarts: int, running: Json) -> bool:
    """Whether it restarted so recently, and so often, that it probably fails again."""
    return restarts > 1 and facts.since(observation, read.moment(running, "startedAt")) < _AGAIN


def _meaning(failure: Failure, code: int) -> str:
    """The signal that an exit code above 128 stands for, and what it often means; empty if none.

    The kernel may kill only a child for memory, or containerd may learn of it too late:
    then the reason is not OOMKilled, and only the signal shows it.
    """
    try:
        signal = Signals(code - 128)
    except ValueError:
        return ""
    if signal is Signals.SIGBUS:
        return f"{signal.name}, often because /dev/shm is full: torch-shared-memory has a larger one"
    if signal is not Signals.SIGKILL:
        return signal.name
    limit = f", its limit is {failure.limit}" if failure.limit else ""
    return f"{signal.name}, often because memory ran out{limit}"


def _restarts(failure: Failure) -> str:
    return f", after {failure.restarts} restarts" if failure.restarts else ""
