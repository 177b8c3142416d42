"""Reads what belongs to a TrainJob, and the logs of its pods, with the rights of its user.

Called by `trainyard dump`. What the user may not see, or what does not answer,
is noted and does not end it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, TypeVar

import msgspec

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.object_names import is_name
from trainyard_assist import read
from trainyard_assist.dump import Seen
from trainyard_assist.explain import Observation, facts
from trainyard_assist.logs import Line, Log
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError, UnauthorizedError
from trainyard_kube.resources import (
    CLUSTER_QUEUES,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    LOCAL_QUEUES,
    PODS,
    REVISIONS,
)

from .job_names import not_found
from .lists import undecoded
from .observe import observe
from .patience import in_time

T = TypeVar("T")

MOST_EVENTS: Final = 10_000
"""Events of the namespace that are looked at, at most."""
MOST_LOGS: Final = 1_000
"""Containers whose logs are read, at most."""
IN_SUM: Final = 256 * 2**20
"""Bytes of all logs together: each has its share, if there are many."""
_LINES: Final = 100_000
"""Lines of a log that are looked at: an API server gives the last lines, and not the last bytes."""
_AT_A_TIME: Final = 8
_INACTIVITY: Final = 30.0
"""Seconds after which a log that sends nothing is given up."""
_LOGS: Final = "logs"


@dataclass(frozen=True, slots=True)
class Source:
    """A container that has a log."""

    pod: str
    container: str
    previous: bool = False
    """The log of the container before the one that runs now."""

    @property
    def path(self) -> str:
        """Its file in the archive."""
        return f"logs/{self.pod}/{self.container}{'.previous' if self.previous else ''}.log"


class Reading:
    """Reads one TrainJob; `unread` says what could not be read, and why."""

    def __init__(self, client: Client, namespace: str, job: str, operator_namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._job = job
        self._operator_namespace = operator_namespace
        self._may_read_no_log = False
        self.unread: dict[str, str] = {}

    async def seen(self) -> Seen:
        """The TrainJob and what belongs to it.

        Raises:
            UserError: There is no such TrainJob.
            ApiError: It could not be read.
        """
        try:
            observation = await observe(self._client, self._namespace, self._job, self._operator_namespace)
        except NotFoundError as error:
            raise await not_found(self._client, self._namespace, self._job, error) from error
        self.unread |= {str(subject): why for subject, why in observation.unseen.items()}
        events, queues, revision, versions = await asyncio.gather(
            self._tried("events", "list events", self._events()),
            self._queues(observation),
            self._revision(observation),
            self._versions(),
        )
        return Seen(
            observation=observation,
            events=events or (),
            local_queue=queues[0],
            cluster_queue=queues[1],
            revision=revision,
            versions=versions,
        )

    async def _events(self) -> list[Json]:
        events: list[Json] = []
        async for raw in undecoded(self._client, EVENTS, self._namespace):
            if len(events) == MOST_EVENTS:
                self.unread["events"] = f"there are too many, only the first {MOST_EVENTS} were looked at"
                break
            events.append(msgspec.json.decode(raw, type=dict[str, Any]))
        return events

    async def _queues(self, observation: Observation) -> tuple[Json | None, Json | None]:
        """Its LocalQueue and its ClusterQueue."""
        name = facts.queue(observation)
        if not is_name(name):
            return None, None
        local = await self._get("LocalQueue", LOCAL_QUEUES.path(self._namespace, name))
        behind = read.text(local, "spec", "clusterQueue")
        if not is_name(behind):
            return local, None
        return local, await self._get("ClusterQueue", CLUSTER_QUEUES.path(None, behind))

    async def _revision(self, observation: Observation) -> Json | None:
        """The runtime from which its JobSet was built; it may have changed since."""
        annotations = read.texts(observation.jobset, "metadata", "annotations")
        name = annotations.get(names.RUNTIME_REVISION_ANNOTATION, "")
        if not is_name(name):
            return None
        return await self._get("revision of the runtime", REVISIONS.path(self._operator_namespace, name))

    async def _versions(self) -> Mapping[str, str]:
        server, operator, public = await asyncio.gather(
            self._get("version of Kubernetes", "/version"),
            self._get("image of the operator", DEPLOYMENTS.path(self._operator_namespace, names.OPERATOR)),
            self._get(
                "version of the Trainer API",
                CONFIGMAPS.path(names.KUBEFLOW_NAMESPACE, names.TRAINER_PUBLIC_CONFIG),
            ),
        )
        containers = read.objects(operator, "spec", "template", "spec", "containers")
        versions = {
            "trainyard": metadata.version("trainyard"),
            "kubernetes": read.text(server, "gitVersion"),
            "trainer": read.text(public, "data", names.TRAINER_PUBLIC_VERSION),
            "operator": ", ".join(read.text(container, "image") for container in containers),
        }
        return {name: version for name, version in versions.items() if version}

    async def _get(self, subject: str, path: str) -> Json | None:
        """One object; None if there is none, or if it could not be read."""
        return await self._tried(subject, f"get the {subject}", self._client.get(path))

    async def _tried(self, subject: str, action: str, request: Awaitable[T]) -> T | None:
        try:
            return await in_time(request)
        except UnauthorizedError:
            raise
        except NotFoundError:
            pass
        except ForbiddenError:
            self.unread[subject] = f"you are not allowed to {action}"
        except ApiError as error:
            self.unread[subject] = str(error)
        return None

    # --- logs -------------------------------------------------------------------

    async def logs(self, pods: Sequence[Json], most: int) -> AsyncGenerator[tuple[Source, str], None]:
        """The end of each log, as text with the time of each line; those that are empty too.

        Args:
            pods: Whose.
            most: Bytes of each; fewer if all together would be more than `IN_SUM`.
        """
        sources = list(_sources(pods))
        if len(sources) > MOST_LOGS:
            self.unread[_LOGS] = f"there are {len(sources)}, only the first {MOST_LOGS} were read"
            sources = sources[:MOST_LOGS]
        share = min(most, IN_SUM // max(1, len(sources)))
        for begin in range(0, len(sources), _AT_A_TIME):
            together = sources[begin : begin + _AT_A_TIME]
            logs = await asyncio.gather(*(self._log(source, share) for source in together))
            for source, log in zip(together, logs, strict=True):
                if log is not None:
                    yield source, log
            if self._may_read_no_log:
                return

    async def _log(self, source: Source, most: int) -> str | None:
        """The last lines of a log, at most so many bytes, as far as they came; None if none did."""
        end = _End(most)
        params = {"container": source.container, "timestamps": "true", "tailLines": str(_LINES)}
        params |= {"previous": "true"} if source.previous else {}
        path = PODS.path(self._namespace, source.pod, "log")
        log = Log()
        try:
            async with aclosing(self._client.stream(path, params=params, inactivity=_INACTIVITY)) as chunks:
                async for chunk in chunks:
                    end.add(log.feed(chunk))
            end.add(log.end())
        except UnauthorizedError:
            raise
        except ForbiddenError:
            self._may_read_no_log = True
            self.unread[_LOGS] = "you are not allowed to read logs (get pods/log)"
            return None
        except ApiError as error:
            self.unread[source.path] = str(error)
            return end.text() or None
        return end.text()


class _End:
    """The last lines of a log, as many as there is room for."""

    def __init__(self, most: int) -> None:
        self._room = most
        self._lines: deque[tuple[int, str]] = deque()

    def add(self, lines: Iterable[Line]) -> None:
        """More lines; the first ones make room."""
        for time, text in lines:
            line = f"{time} {text}\n"
            self._lines.append((len(line.encode()), line))
            self._room -= self._lines[-1][0]
        while self._room < 0 and self._lines:
            self._room += self._lines.popleft()[0]

    def text(self) -> str:
        """All of them."""
        return "".join(line for _, line in self._lines)


def _sources(pods: Sequence[Json]) -> Iterator[Source]:
    """Each container that has a log, and the one before it where it was restarted."""
    for pod in sorted(pods, key=read.name):
        for status, _ in read.containers(pod):
            names_of_path = read.name(pod), read.text(status, "name")
            if not all(map(is_name, names_of_path)):
                continue
            restarted = read.number(status, "restartCount") > 0
            if restarted or not read.at(status, "state", "waiting"):
                yield Source(*names_of_path)
            if restarted:
                yield Source(*names_of_path, previous=True)
