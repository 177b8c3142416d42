"""Lists every object of a kind, page by page, as values that include their kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from trainyard_kube.client import METADATA_OF_ALL, Client, Resource

T = TypeVar("T")


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


async def everything(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    *,
    params: Mapping[str, str] | None = None,
    accept: str = "application/json",
) -> AsyncIterator[dict[str, Any]]:
    """The objects of a kind, in all namespaces or in one; `params` are the API server's.

    Raises the client's errors: `NotFoundError` if the cluster has no such kind.
    """
    # Items of a list do not include their kind.
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    async for raw in undecoded(client, resource, namespace, params=params, accept=accept):
        yield {**msgspec.json.decode(raw, type=dict[str, Any]), **kind}


async def names_of(
    client: Client, resource: Resource, namespace: str | None = None
) -> AsyncIterator[tuple[str, str]]:
    """The namespace and the name of each."""
    decoder = msgspec.json.Decoder(_Named)
    async for raw in undecoded(client, resource, namespace, accept=METADATA_OF_ALL):
        metadata = decoder.decode(raw).metadata
        yield metadata.namespace, metadata.name


async def undecoded(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    *,
    params: Mapping[str, str] | None = None,
    accept: str = "application/json",
) -> AsyncIterator[msgspec.Raw]:
    """The same as JSON, for callers that read a few fields of many objects."""
    pages = client.list(resource.path(namespace), params=params, accept=accept)
    async with aclosing(_ahead(pages)) as fetched:
        async for page in fetched:
            for raw in page.items or ():
                yield raw


async def _ahead(pages: AsyncIterator[T]) -> AsyncGenerator[T]:
    """The same pages; while the caller reads one, the API server already answers with the next."""
    coming = asyncio.create_task(_next(pages))
    try:
        while (page := await coming) is not None:
            coming = asyncio.create_task(_next(pages))
            await asyncio.sleep(0)  # sends the request; the caller may keep the loop busy
            yield page
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def _next(pages: AsyncIterator[T]) -> T | None:
    return await anext(pages, None)
