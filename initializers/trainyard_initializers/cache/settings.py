"""What cache to start: the variables of the initializer as a checked value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..failures import InvalidSource
from ..request import Request

SCHEME: Final = "cache"
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_QUANTITY: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,3})?(?:m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_TEXT_OF_TABLE: Final = re.compile(r"[^\s/]{1,255}")
_LARGEST: Final = 1000


@dataclass(frozen=True)
class Resources:
    """What a process of the cache requests, and is limited to, as Kubernetes quantities."""

    cpu: str
    memory: str


@dataclass(frozen=True)
class Probe:
    """When a process of the cache counts as ready, in seconds, as in Kubernetes."""

    initial_delay: int
    period: int
    timeout: int
    failures: int


@dataclass(frozen=True)
class Settings:
    """A cache.

    Args:
        job: The TrainJob that it is for, and that owns it.
        image: With the commands `head` and `worker`.
        schema: Of the table.
        table: Its name.
        location: Of its metadata file.
        size: How many pods, the head included; at least 2.
        head: What the head requests.
        worker: What each worker requests.
        probe: Of all of them.
        iam_role: On EKS, the role of its ServiceAccount; empty: it has no ServiceAccount of its own.
        store: Variables about the store.
    """

    job: str
    image: str
    schema: str
    table: str
    location: str
    size: int
    head: Resources
    worker: Resources
    probe: Probe
    iam_role: str = ""
    store: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the LeaderWorkerSet, and of its ServiceAccount."""
        return f"{self.job}-cache"

    @property
    def service(self) -> str:
        """Of the Service that trainers connect to."""
        return f"{self.name}-service"


def read(request: Request) -> Settings:
    """The settings in a request for `cache://schema/table`; defaults are those of Kubeflow Trainer.

    Raises:
        InvalidSource: One is missing or malformed; the message names the variable.
    """
    schema, table = request.uri.authority, request.uri.path
    if not _TEXT_OF_TABLE.fullmatch(schema) or not _TEXT_OF_TABLE.fullmatch(table):
        raise InvalidSource(f"{request.uri} must be cache://schema/table")
    return Settings(
        job=_matching(request, "TRAIN_JOB_NAME", _NAME, "the TrainJob's name, which the runtime sets"),
        image=_required(request, "CACHE_IMAGE", "the runtime sets it"),
        schema=schema,
        table=table,
        location=_required(
            request,
            "METADATA_LOC",
            "set it in spec.initializer.dataset.env, such as s3://bucket/table/metadata/00001.metadata.json",
        ),
        size=_number(request, "CLUSTER_SIZE", 3, 2, _LARGEST),
        head=_resources(request, "HEAD", "1", "1Gi"),
        worker=_resources(request, "WORKER", "2", "2Gi"),
        probe=Probe(
            initial_delay=_number(request, "READINESS_INITIAL_DELAY_SECONDS", 5, 0, 3600),
            period=_number(request, "READINESS_PERIOD_SECONDS", 10, 1, 3600),
            timeout=_number(request, "READINESS_TIMEOUT_SECONDS", 5, 1, 3600),
            failures=_number(request, "READINESS_FAILURE_THRESHOLD", 3, 1, 10_000),
        ),
        iam_role=request.get("IAM_ROLE") or "",
        store=_store(request),
    )


def _store(request: Request) -> Mapping[str, str]:
    """The variables about the store that are no secret."""
    values = {"ENDPOINT": request.endpoint, "REGION": request.region, "ROLE_ARN": request.get("ROLE_ARN")}
    return {name: value for name, value in values.items() if value}


def _resources(request: Request, process: str, cpu: str, memory: str) -> Resources:
    def amount(name: str, default: str) -> str:
        text = request.get(name) or default
        if not _QUANTITY.fullmatch(text):
            raise InvalidSource(f"{name}={text!r} is not a Kubernetes quantity, such as 500m or 2Gi")
        return text

    return Resources(amount(f"{process}_CPU", cpu), amount(f"{process}_MEM", memory))


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.get(name) or str(default)
    if not (
        text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most
    ):
        raise InvalidSource(f"{name}={text!r} must be a number from {least} to {most}")
    return int(text)


def _required(request: Request, name: str, way_out: str) -> str:
    text = request.get(name)
    if not text:
        raise InvalidSource(f"{name} is not set: {way_out}")
    return text


def _matching(request: Request, name: str, pattern: re.Pattern[str], meaning: str) -> str:
    text = _required(request, name, meaning)
    if not pattern.fullmatch(text):
        raise InvalidSource(f"{name}={text!r} is not {meaning}")
    return text
