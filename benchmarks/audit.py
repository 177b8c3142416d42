"""The API server's audit log as a stopwatch: each request, its client, and its times.

Pure, except `Tail`, which reads the file as it grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

WRITES = frozenset({"create", "update", "patch", "delete"})
USER = "kubernetes-admin"
"""The user of every client with the sandbox's kubeconfig; clients differ only in their User-Agent."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the API server, with its answer. Times are in seconds since the epoch."""

    verb: str
    resource: str
    """With its subresource, as in `trainjobs/status`."""
    namespace: str
    name: str
    agent: str
    code: int
    received: float
    answered: float

    @property
    def key(self) -> str:
        """Its object, as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def done(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.code < 300

    @property
    def is_write(self) -> bool:
        """Whether the request changes something, if it succeeds."""
        return self.verb in WRITES


class _Target(msgspec.Struct):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct, rename="camel"):
    stage: str
    verb: str
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user_agent: str = ""
    object_ref: _Target = msgspec.field(default_factory=_Target)
    response_status: _Status = msgspec.field(default_factory=_Status)


_DECODER = msgspec.json.Decoder(_Event)


def parse(lines: Iterable[bytes], user: str = USER) -> Iterator[Call]:
    """The answered calls of a user, without those of the control plane itself."""
    for line in lines:
        event = _DECODER.decode(line)
        if event.stage not in ("ResponseComplete", "ResponseStarted") or event.user.username != user:
            continue
        if (event.stage == "ResponseStarted") != (event.verb == "watch"):
            continue  # a watch is answered when it begins, all else when it ends
        target = event.object_ref
        yield Call(
            verb=event.verb,
            resource="/".join(filter(None, (target.resource, target.subresource))),
            namespace=target.namespace,
            name=target.name,
            agent=event.user_agent,
            code=event.response_status.code,
            received=event.request_received_timestamp.timestamp(),
            answered=event.stage_timestamp.timestamp(),
        )


def creation_times(calls: Iterable[Call], resource: str) -> dict[str, float]:
    """When each object of a resource was created, by `namespace/name`, be it with a POST or an apply."""
    times: dict[str, float] = {}
    for call in calls:
        if call.resource == resource and call.code == 201 and call.verb in ("create", "patch"):
            times.setdefault(call.key, call.answered)
    return times


def write_times(calls: Iterable[Call], resource: str, agent: str) -> dict[str, list[float]]:
    """The times of a client's writes of each object of a resource or subresource, by `namespace/name`.

    `agent` is the prefix of the client's User-Agent.
    """
    times: dict[str, list[float]] = {}
    for call in _writes(calls, resource, agent):
        times.setdefault(call.key, []).append(call.answered)
    return times


def sent_times(calls: Iterable[Call], resource: str, agent: str) -> dict[str, float]:
    """When the API server received a client's first write of each object, by `namespace/name`.

    `agent` is the prefix of the client's User-Agent.
    """
    times: dict[str, float] = {}
    for call in _writes(calls, resource, agent):
        times.setdefault(call.key, call.received)
    return times


def _writes(calls: Iterable[Call], resource: str, agent: str) -> Iterator[Call]:
    for call in calls:
        if call.resource == resource and call.is_write and call.done and call.agent.startswith(agent):
            yield call


def latencies(starts: dict[str, float], answers: dict[str, list[float]]) -> dict[str, float]:
    """Seconds from each start to the first answer after it, without those that got no answer."""
    seconds = {}
    for name, start in starts.items():
        later = [at for at in answers.get(name, ()) if at >= start]
        if later:
            seconds[name] = min(later) - start
    return seconds


def request_counts(calls: Iterable[Call], agent: str) -> Counter[str]:
    """How often a client sent each `verb resource`, without Leases.

    `agent` is the prefix of the client's User-Agent.
    """
    return Counter(
        f"{call.verb} {call.resource}"
        for call in calls
        if call.agent.startswith(agent) and call.resource not in ("", "leases")
    )


class Tail:
    """Reads an audit log as it grows.

    `calls` is what came since the last `reset`; `heard` is told of each call.
    """

    def __init__(self, path: Path) -> None:
        self.calls: list[Call] = []
        self.heard: Callable[[Call], None] = lambda call: None
        self._path = path
        self._at = 0
        self._rest = b""

    def read(self) -> None:
        """Take in what is new."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for call in parse(lines):
            self.calls.append(call)
            self.heard(call)

    def reset(self) -> None:
        """Forget what there was until now."""
        self.read()
        self.calls = []
