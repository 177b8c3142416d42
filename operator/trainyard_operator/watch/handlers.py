"""The Kopf handlers, and nothing else: what Kopf sees is passed on as it is.

Only `on.event`: such handlers add no finalizer and no annotation, so Kopf
never writes to an object. The controller decides what an event means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import kopf

from trainyard_api import names

Seen = Callable[[str, str | None, Mapping[str, Any]], None]
"""Called with the plural, the event's type (None: part of a list) and the object."""


def registry(seen: Seen, login: Callable[[], Awaitable[kopf.AiohttpSession]]) -> kopf.OperatorRegistry:
    """The handlers as one registry: `seen` gets all events, `login` opens sessions."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def authenticate(**_: Any) -> kopf.AiohttpSession:
        return await login()

    @kopf.on.event(names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINJOBS, registry=handlers)
    async def trainjob(event: kopf.RawEvent, **_: Any) -> None:
        seen(names.TRAINJOBS, event["type"], event["object"])

    @kopf.on.event(names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINING_RUNTIMES, registry=handlers)
    async def runtime(event: kopf.RawEvent, **_: Any) -> None:
        seen(names.TRAINING_RUNTIMES, event["type"], event["object"])

    @kopf.on.event(
        names.TRAINER_GROUP, names.TRAINER_VERSION, names.CLUSTER_TRAINING_RUNTIMES, registry=handlers
    )
    async def cluster_runtime(event: kopf.RawEvent, **_: Any) -> None:
        seen(names.CLUSTER_TRAINING_RUNTIMES, event["type"], event["object"])

    return handlers
