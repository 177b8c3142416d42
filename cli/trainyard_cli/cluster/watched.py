"""The objects of a kind as they are now, and again whenever they change.

Called by what follows a job. A stream says what there is and then what changes,
so that nothing short is missed. Where there is no such stream (the user may
list and not watch, or the API server is older than Kubernetes 1.34), the
objects are listed again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, TypeVar

import msgspec

from trainyard_kube.client import ApiError, Client, GoneError, Resource, RetriableError, UnauthorizedError

from .lists import undecoded

T = TypeVar("T")

EVERY: Final = 2.0
"""Seconds between two lists, and at most before a stream that broke is opened again."""
FIRST: Final = 0.1
"""Seconds before a stream that broke is opened again, the first time."""
_INACTIVITY: Final = 70.0
"""Seconds without a byte after which a stream counts as dead: a bookmark comes every minute."""
_LASTS: Final = 280
"""Seconds after which the server is to end a stream."""
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

Decode = Callable[[msgspec.Raw], tuple[str, T] | None]
"""The uid of an object and what is read of it; None: it is not looked at."""


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Headed(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


async def watched(
    client: Client,
    resource: Resource,
    namespace: str,
    decode: Decode[T],
    *,
    params: Mapping[str, str],
    unanswered: Callable[[ApiError], None],
) -> AsyncGenerator[Mapping[str, T], None]:
    """The objects by their uids, first as they are and then at each change; it never ends.

    Args:
        client: The cluster.
        resource: Their kind.
        namespace: Theirs.
        decode: What is read of an object.
        params: The API server's, such as `labelSelector`.
        unanswered: Called while the API server does not answer. The request is repeated.

    Raises:
        UnauthorizedError: The credentials are no longer accepted.
        ApiError: The objects may not be listed, or there is no such kind.
    """
    look, pause = _streamed, FIRST
    while True:
        try:
            async with aclosing(look(client, resource, namespace, decode, params)) as states:
                async for state in states:
                    yield state
                    pause = FIRST
        except UnauthorizedError:
            raise
        except GoneError:
            pass
        except RetriableError as error:
            if pause > FIRST:  # a stream that broke is opened again before anybody notices
                unanswered(error)
        except ApiError:
            if look is _listed:
                raise
            look = _listed
            continue
        await asyncio.sleep(pause)
        pause = min(EVERY, 2 * pause)


async def _streamed(
    client: Client, resource: Resource, namespace: str, decode: Decode[T], params: Mapping[str, str]
) -> AsyncGenerator[Mapping[str, T], None]:
    """Until the server ends the stream."""
    objects: dict[str, T] = {}
    is_whole = False
    query = {
        **params,
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(_LASTS),
    }
    path = resource.path(namespace)
    async with aclosing(client.watch(path, params=query, inactivity=_INACTIVITY)) as lines:
        async for line in lines:
            event = _decoded(line)
            if event.type == "BOOKMARK":
                if not is_whole and _ends_the_list(event.object):
                    is_whole = True
                    yield objects
                continue
            if event.type == "ERROR":
                raise RetriableError(f"WATCH {path}: the API server has ended it")
            if (entry := decode(event.object)) is None:
                continue
            uid, value = entry
            if event.type == "DELETED":
                objects.pop(uid, None)
            else:
                objects[uid] = value
            if is_whole:
                yield objects


async def _listed(
    client: Client, resource: Resource, namespace: str, decode: Decode[T], params: Mapping[str, str]
) -> AsyncGenerator[Mapping[str, T], None]:
    while True:
        entries = [decode(raw) async for raw in undecoded(client, resource, namespace, params=params)]
        yield dict(entry for entry in entries if entry is not None)
        await asyncio.sleep(EVERY)


def _decoded(line: bytes) -> _Event:
    try:
        return msgspec.json.decode(line, type=_Event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RetriableError(f"the API server's answer is not valid: {error}") from error


def _ends_the_list(raw: msgspec.Raw) -> bool:
    try:
        annotations = msgspec.json.decode(raw, type=_Headed).metadata.annotations
    except msgspec.ValidationError:
        return False
    return (annotations or {}).get(_INITIAL_EVENTS_END) == "true"
