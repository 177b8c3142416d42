"""The archive for support: the objects around a TrainJob, and explain's answer. Pure.

Called by `trainyard dump`, which reads the cluster. Each file is without what
looks like a secret (`redaction`). Secrets are in none, and of ConfigMaps only
the last lines of a failed job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.printable import clean

from . import read, redaction
from .explain import Observation
from .explain.rules import scheduling

API_VERSION: Final = "dump.trainyard.dev/v1alpha1"
READ_IT: Final = "Read it before you send it: no program knows every secret."


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The observed objects of a TrainJob, as the API server returns them."""

    observation: Observation
    events: Sequence[Json] = ()
    """Events of the namespace; only the TrainJob's are kept."""
    local_queue: Json | None = None
    cluster_queue: Json | None = None
    revision: Json | None = None
    """The runtime as its JobSet was made from it."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """By the name of what has it."""


class File(NamedTuple):
    """A file of the archive."""

    path: str
    text: str


class _Objects(NamedTuple):
    """The objects of a file."""

    file: str
    api_version: str
    kind: str
    """Empty: the objects say it themselves, as the items of a list do not."""
    of: Callable[[Seen], Iterable[Json | None]]


def objects(seen: Seen) -> Iterator[File]:
    """A file for each kind of which there is something, as a List that kubectl and jq read."""
    for kind in _OBJECTS:
        defaults = {"apiVersion": kind.api_version, "kind": kind.kind} if kind.kind else {}
        items = [{**defaults, **item} for item in kind.of(seen) if item is not None]
        if items:
            yield document(f"objects/{kind.file}.json", {"apiVersion": "v1", "kind": "List", "items": items})


def document(path: str, value: Any) -> File:
    """A file of JSON, without what looks like a secret."""
    return File(path, json.dumps(redaction.value(value), indent=2) + "\n")


def text(path: str, lines: str) -> File:
    """A file of text, without what looks like a secret."""
    return File(path, redaction.text(lines))


def events(seen: Seen) -> Iterator[Json]:
    """Events about the TrainJob and its objects, the oldest first."""
    observation = seen.observation
    about = (
        observation.trainjob,
        *(each for each in (observation.runtime, observation.jobset) if each is not None),
        *observation.workloads,
        *observation.jobs,
        *observation.pods,
        *observation.pod_groups,
        *_claims(observation),
    )
    uids = {read.uid(each) for each in about} - {""}
    chosen = {
        read.uid(event) or str(position): event
        for position, event in enumerate((*seen.events, *observation.events))
        if read.text(event, "involvedObject", "uid") in uids
    }
    yield from sorted(chosen.values(), key=_time)


def contents(
    seen: Seen, job: str, created: datetime, files: Mapping[str, int], unread: Mapping[str, str]
) -> File:
    """Contents of the archive, for programs.

    Args:
        seen: What was seen.
        job: The TrainJob, as `namespace/name`.
        created: When.
        files: Bytes of each other file.
        unread: What could not be read, and why.
    """
    namespace, _, name = job.partition("/")
    return document(
        "contents.json",
        {
            "apiVersion": API_VERSION,
            "kind": "Dump",
            "trainJob": {"namespace": namespace, "name": name},
            "createdAt": f"{created:%Y-%m-%dT%H:%M:%SZ}",
            "versions": dict(seen.versions),
            "files": [{"path": path, "bytes": size} for path, size in files.items()],
            "unread": [{"what": subject, "why": clean(why)} for subject, why in unread.items()],
        },
    )


def about(
    seen: Seen, job: str, created: datetime, files: Mapping[str, int], unread: Mapping[str, str]
) -> File:
    """Contents of the archive for people: what is missing, and what to do before sending it."""
    lines = [
        f"TrainJob {job}, collected by `trainyard dump` on {created:%Y-%m-%d %H:%M:%S} UTC.",
        "",
        READ_IT,
        "It has no Secret, and no ConfigMap but the last lines of a failed job. Values that look like "
        f"secrets are replaced by {redaction.REMOVED}. Names of people, hosts, images and files are still "
        "in it.",
        "",
        "Versions:",
        *(f"  {name}: {version}" for name, version in seen.versions.items()),
        "",
        "Files:",
        *(f"  {path} ({size} bytes)" for path, size in files.items()),
        *(("", "Could not be read:") if unread else ()),
        *(f"  {subject}: {clean(why)}" for subject, why in unread.items()),
    ]
    return text("README.txt", "".join(f"{line}\n" for line in lines))


def _claims(observation: Observation) -> list[Json]:
    """The claims that its pods mount: the namespace may have others."""
    mounted = {claim for pod in observation.pods for claim in scheduling.claims_of(pod)}
    return [claim for claim in observation.claims if read.name(claim) in mounted]


def _time(event: Json) -> datetime:
    return max(read.moment(event, field) for field in ("eventTime", "firstTimestamp", "lastTimestamp"))


_OBJECTS: Final = (
    _Objects("trainjob", names.TRAINER_API_VERSION, names.TRAINJOB, lambda seen: [seen.observation.trainjob]),
    _Objects("runtime", "", "", lambda seen: [seen.observation.runtime]),
    _Objects("runtime-revision", "", "", lambda seen: [seen.revision]),
    _Objects("jobset", names.JOBSET_API_VERSION, names.JOBSET, lambda seen: [seen.observation.jobset]),
    _Objects("jobs", "batch/v1", "Job", lambda seen: seen.observation.jobs),
    _Objects("pods", "v1", "Pod", lambda seen: seen.observation.pods),
    _Objects("nodes", "v1", "Node", lambda seen: seen.observation.nodes),
    _Objects("claims", "v1", "PersistentVolumeClaim", lambda seen: _claims(seen.observation)),
    _Objects("pod-groups", "", "", lambda seen: seen.observation.pod_groups),
    _Objects("workloads", names.KUEUE_API_VERSION, "Workload", lambda seen: seen.observation.workloads),
    _Objects("queues", "", "", lambda seen: [seen.local_queue, seen.cluster_queue]),
    _Objects("leases", "", "", lambda seen: seen.observation.leases),
    _Objects("events", "v1", "Event", events),
)
