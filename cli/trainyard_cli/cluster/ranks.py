"""Finds the pod of one rank of a TrainJob, and says why where it does not run.

Called by `trainyard exec`, `cp` and `ports`. A rank is called as `trainyard logs` calls it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist import jobs, read
from trainyard_kube.client import Client, NotFoundError
from trainyard_kube.resources import PODS

from .logs import Logs, Source, Wanted
from .patience import in_time

FIRST: Final = "0"
"""The rank that is meant where none is named."""
_MOST: Final = 8
"""Pods that are looked at, first those that run: those of earlier attempts may still be there."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The container of a rank that runs."""

    namespace: str
    job: str
    label: str
    """The name for users: `3`, or `launcher-0`."""
    place: str
    """The unambiguous name: `node-3`."""
    pod: str
    container: str
    has_folder: bool = False
    """Whether the TrainJob has a folder that was sent with it."""

    def __str__(self) -> str:
        return f"rank {self.label} of TrainJob {self.namespace}/{self.job}"

    def path(self, subresource: str) -> str:
        """The path of a subresource of its pod."""
        return PODS.path(self.namespace, self.pod, subresource)


class _Waiting(msgspec.Struct):
    reason: str = ""


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    reason: str = ""


class _State(msgspec.Struct):
    running: dict[str, str] | None = None
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct):
    name: str
    state: _State = msgspec.field(default_factory=_State)


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""
    deletion_timestamp: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)

    def state(self, container: str) -> _State:
        statuses = self.status.container_statuses or ()
        return next((status.state for status in statuses if status.name == container), _State())


async def running(client: Client, namespace: str, job: str, rank: str | None) -> Rank:
    """The container of a rank, which runs.

    Args:
        client: Whose rights are used.
        namespace: That of the TrainJob.
        job: The TrainJob's name.
        rank: A number or a place such as `launcher-0`; None: the first.

    Raises:
        UserError: There is no such TrainJob or rank, it is several pods, or it does not run.
        ApiError: The cluster could not be queried.
    """
    logs = Logs(client, namespace, job, Wanted(rank=rank or FIRST))
    trainjob = await logs.trainjob()
    row = jobs.row(trainjob)
    sources = await logs.sources()
    places = list(dict.fromkeys(str(source.pod.place) for source in sources))
    if not places:
        since = "any more" if row.is_over else "yet"
        raise UserError(
            clean(
                f"TrainJob {namespace}/{job} is {row.state}, and has no pod of rank {rank or FIRST} {since}"
            )
            + _why(client, namespace, job)
        )
    if len(places) > 1:
        raise UserError(
            clean(f"TrainJob {job} has several pods of rank {rank or FIRST}")
            + f": say which with --rank: {', '.join(places)[:200]}"
        )
    pods = [(source, pod) async for source, pod in _live(client, namespace, sources)]
    for source, pod in pods:
        # One that is being deleted stops at any moment, and another takes its place.
        if pod.state(source.pod.container).running is not None and not pod.metadata.deletion_timestamp:
            return Rank(
                namespace,
                job,
                source.label,
                str(source.pod.place),
                source.pod.name,
                source.pod.container,
                has_folder=names.WORKSPACE in read.texts(trainjob, "metadata", "annotations"),
            )
    label = sources[0].label
    state = "has no pod any more" if not pods else _words(*max(pods, key=_created))
    raise UserError(
        clean(f"Rank {label} of TrainJob {namespace}/{job} {state}") + _why(client, namespace, job)
    )


def _created(pod: tuple[Source, _Pod]) -> str:
    return pod[1].metadata.creation_timestamp


def _has_ended(source: Source) -> bool:
    return source.pod.ended


async def _live(
    client: Client, namespace: str, sources: Iterable[Source]
) -> AsyncGenerator[tuple[Source, _Pod]]:
    for source in sorted(sources, key=_has_ended)[:_MOST]:
        try:
            live = await in_time(client.get(PODS.path(namespace, source.pod.name)))
            yield source, msgspec.convert(live, _Pod)
        except (NotFoundError, msgspec.ValidationError):
            continue


def _words(source: Source, pod: _Pod) -> str:
    """Why it does not run."""
    state = pod.state(source.pod.container)
    if state.terminated is not None:
        return f"has ended: {state.terminated.reason or 'exit code'} ({state.terminated.exit_code})"
    if pod.status.phase in ("Succeeded", "Failed"):
        return f"has ended: its pod is {pod.status.phase}"
    if pod.metadata.deletion_timestamp:
        return "is stopping: its pod is being deleted"
    reason = "" if state.waiting is None else state.waiting.reason
    return f"does not run yet: its pod is {pod.status.phase or 'Pending'}{f' ({reason})' if reason else ''}"


def _why(client: Client, namespace: str, job: str) -> str:
    return f". See why: {client.credentials.command('trainyard', 'explain', job, '-n', namespace)}"
