"""Whether a TrainJob may be cancelled, suspended or resumed, and what it loses by that.

Called by the commands of these names and by `retry`, which read the cluster
with the rights of their user. For the owner of `spec.suspend`, the user or Kueue, see docs/adr/0018 and
docs/adr/0030. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.shown import listed

from . import jobs, read
from .text import duration


class Outcome(StrEnum):
    """Outcome for a TrainJob."""

    CANCELLED = "Cancelled"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    SENT = "Sent"
    UNCHANGED = "Unchanged"
    """Nothing to do."""
    REFUSED = "Refused"
    """It is not done, for the reason that the message has."""
    FAILED = "Failed"
    """The cluster could not be queried, or has refused it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome for one TrainJob, with a sentence."""

    namespace: str
    name: str
    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A TrainJob as it was seen."""

    trainjob: Json
    jobset: Json | None
    """Its own; None: it has none, or it could not be seen."""
    now: datetime
    """By the clock of the API server."""
    unseen: str = ""
    """Why its JobSet could not be seen."""
    options: tuple[str, ...] = ()
    """The options of commands that lead to its cluster."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return read.text(self.trainjob, "metadata", "namespace")

    @property
    def name(self) -> str:
        """Its name."""
        return read.name(self.trainjob)

    @property
    def row(self) -> jobs.Row:
        """Its row in `trainyard jobs`."""
        return jobs.row(self.trainjob)

    @property
    def queue(self) -> str:
        """The LocalQueue that holds it or its JobSet; empty if it is in none."""
        own = read.texts(self.jobset, "metadata", "labels").get(names.QUEUE_LABEL, "")
        return own or self.row.queue

    def command(self, *words: str) -> str:
        """A command about it."""
        return shlex.join([*words, self.name, "-n", self.namespace, *self.options])

    def answer(self, outcome: Outcome, predicate: str) -> Answer:
        """The answer whose sentence says this of it."""
        return Answer(
            self.namespace, self.name, outcome, f"TrainJob {self.namespace}/{self.name} {predicate}"
        )


# --- what may be done ---------------------------------------------------------------


def not_cancelled(seen: Seen) -> Answer | None:
    """Why there is nothing to cancel; None where there is."""
    if read.deleting(seen.trainjob):
        return seen.answer(Outcome.UNCHANGED, "is already being deleted")
    if seen.row.is_over:
        removes = f"to remove it: {seen.command('kubectl', 'delete', 'trainjob')}"
        return seen.answer(
            Outcome.UNCHANGED, f"is {seen.row.state}: it has ended, and there is nothing to cancel; {removes}"
        )
    return None


def not_suspended(seen: Seen) -> Answer | None:
    """Why it cannot be suspended, or is so already; None where it can be."""
    if (answer := _not_to_be_changed(seen, "suspended")) is not None:
        return answer
    if _is_suspended_by_user(seen):
        return seen.answer(Outcome.UNCHANGED, "is already suspended")
    if _suspend_is_kueues(seen):
        return seen.answer(
            Outcome.REFUSED,
            f"cannot be suspended: queue {seen.queue} holds TrainJobs, so only Kueue suspends and resumes "
            f"them; to stop it: {seen.command('trainyard', 'cancel')}",
        )
    return None


def not_resumed(seen: Seen) -> Answer | None:
    """Why it cannot be resumed, or need not be; None where it can be."""
    if (answer := _not_to_be_changed(seen, "resumed")) is not None:
        return answer
    if not _is_suspended_by_user(seen):
        gates = read.gates_of(seen.trainjob) if seen.row.waits else []
        waits = (
            f", and Kueue admits it once the annotation {names.QUEUE_GATES_ANNOTATION} no longer has "
            f"{listed(gates)}"
        )
        return seen.answer(
            Outcome.UNCHANGED, f"is not suspended: it is {seen.row.state}{waits if gates else ''}"
        )
    return None


def _not_to_be_changed(seen: Seen, verb: str) -> Answer | None:
    if read.deleting(seen.trainjob):
        return seen.answer(Outcome.REFUSED, f"is being deleted, and cannot be {verb}")
    if seen.row.is_over:
        again = f"to send it again: {seen.command('trainyard', 'retry')}"
        return seen.answer(
            Outcome.REFUSED, f"is {seen.row.state}: it has ended, and cannot be {verb}; {again}"
        )
    return None


def _is_suspended_by_user(seen: Seen) -> bool:
    return read.suspended(seen.trainjob) and (
        not _suspend_is_kueues(seen) or is_sent_suspended(seen.trainjob)
    )


def _suspend_is_kueues(seen: Seen) -> bool:
    """Whether the queue holds the TrainJob itself, and not its JobSet."""
    labels = read.texts(seen.jobset, "metadata", "labels")
    return held_by_kueue(seen.trainjob) and names.QUEUE_LABEL not in labels


def held_by_kueue(trainjob: Json) -> bool:
    """Whether Kueue has taken the TrainJob itself into a queue."""
    named = read.texts(trainjob, "metadata", "labels").get(names.QUEUE_LABEL)
    patches = read.objects(trainjob, "spec", "runtimePatches")
    return bool(named) and any(patch.get("manager") == names.KUEUES_PATCHES for patch in patches)


def is_sent_suspended(trainjob: Json) -> bool:
    """Whether its user sent it suspended into a queue that holds TrainJobs, and nobody has resumed it."""
    return names.SENT_SUSPENDED in read.gates_of(trainjob)


# --- what is lost -------------------------------------------------------------------


def loss(seen: Seen, *, kept: bool = False) -> str:
    """Its state, and its losses if it is stopped; one line.

    Args:
        seen: The TrainJob.
        kept: It is suspended, and not deleted.
    """
    details = ", ".join(_details(seen))
    whole = f"TrainJob {seen.namespace}/{seen.name} is {seen.row.state}" + (details and f" ({details})")
    return f"{whole}. {' '.join(_losses(seen, kept=kept))}".rstrip()


def loses_something(seen: Seen) -> bool:
    """Whether its deletion loses more than the record of how it ended."""
    return not seen.row.is_over or bool(volumes(seen) or seen.unseen)


def volumes(seen: Seen) -> list[str]:
    """The names of the volumes that are deleted with it."""
    return read.deleted_volumes(seen.jobset, "spec")


def running_since(seen: Seen) -> datetime | None:
    """Since when it has had its pods, or has been getting them; None: it has none."""
    if seen.jobset is None or read.suspended(seen.jobset) or seen.row.is_over:
        return None
    resumed = read.condition(seen.jobset, names.SUSPENDED)
    if resumed is not None:
        return read.moment(resumed, "lastTransitionTime")
    return read.moment(seen.jobset, "metadata", "creationTimestamp")


def _has_pods(seen: Seen) -> bool:
    """Whether it has its pods, or is getting them; by its state if its JobSet could not be seen."""
    return running_since(seen) is not None or (bool(seen.unseen) and seen.row.state in jobs.RUNNING)


def _details(seen: Seen) -> Iterator[str]:
    row, since = seen.row, running_since(seen)
    if since is not None:
        yield f"for {duration((seen.now - since).total_seconds())}"
        if row.nodes:
            yield f"{row.nodes} nodes"
    if row.progress is not None:
        yield f"{row.progress}% done"
    if row.ends is not None:
        yield f"{duration((row.ends - seen.now).total_seconds())} to go"


def _losses(seen: Seen, *, kept: bool) -> Iterator[str]:
    runs, own = _has_pods(seen), listed(volumes(seen))
    if kept:
        if runs:
            yield (
                "Its pods are deleted. Once resumed, it continues from the last checkpoint that it has "
                "saved, or restarts from the beginning."
            )
        return
    if runs:
        yield "Data that it has not saved outside its pods is lost."
    elif seen.row.waits:
        yield f"It loses its place in queue {seen.queue}."
    if seen.unseen:
        yield f"It is unknown whether a volume is deleted with it: {seen.unseen}."
    if own:
        yield f"Its volume ({own}) is deleted, with the checkpoints on it."


# --- what is said of it -------------------------------------------------------------


def how_suspended(seen: Seen) -> str:
    """The effect of suspending a TrainJob now."""
    if _has_pods(seen):
        follows = "its pods are deleted, and its quota is free for others"
        follows = follows if seen.queue else "its pods are deleted"
    elif seen.queue:
        follows = f"it stays in queue {seen.queue}, and is not admitted"
    else:
        follows = "it does not start"
    return f"is suspended: {follows}; to resume it: {seen.command('trainyard', 'resume')}"


def how_resumed(seen: Seen) -> str:
    """The effect of resuming a TrainJob now."""
    return f"is resumed: it waits for quota in queue {seen.queue}" if seen.queue else "is resumed"
