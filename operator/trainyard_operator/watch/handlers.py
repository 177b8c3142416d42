"""The Kopf handlers, and nothing else: what Kopf sees is passed on as it is.

Only `on.event`: such handlers add no finalizer and no annotation, so Kopf
never writes to an object. The controller decides what an event means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import kopf

from trainyard_kube.resources import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, TRAINJOBS

WATCHED = (TRAINJOBS, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)

Seen = Callable[[str, str | None, Mapping[str, Any]], None]
"""Called with the plural, the event's type (None: part of a list) and the object."""


def registry(seen: Seen, login: Callable[[], Awaitable[kopf.AiohttpSession]]) -> kopf.OperatorRegistry:
    """The handlers as one registry: `seen` gets all events, `login` opens sessions."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def authenticate(**_: Any) -> kopf.AiohttpSession:
        return await login()

    async def pass_on(event: kopf.RawEvent, resource: kopf.Resource, **_: Any) -> None:
        seen(resource.plural, event["type"], event["object"])

    for watched in WATCHED:
        kopf.on.event(watched.group, watched.version, watched.plural, registry=handlers)(pass_on)
    return handlers
