"""Lists of many objects come in pages, and the next page is requested while one is read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec
import pytest

from trainyard_cli.cluster.lists import undecoded
from trainyard_kube.client import ApiError, Client, Page
from trainyard_kube.resources import TRAINJOBS


class Server:
    """Answers with three pages of one object each, and fails at a page if it is told to."""

    def __init__(self, fails_at: int = 0) -> None:
        self.fails_at = fails_at
        self.requests = 0

    async def list(self, *_: object, **__: object) -> AsyncIterator[Page]:
        for number in (1, 2, 3):
            self.requests += 1
            if number == self.fails_at:
                raise ApiError("no", code=403)
            yield msgspec.json.decode(b'{"metadata": {}, "items": [%d]}' % number, type=Page)


def read(server: Server, most: int = 9, each: Callable[[int], None] = lambda _: None) -> list[int]:
    """Objects as a command reads them: at most so many, and calls `each` with the requests until then."""

    async def run() -> list[int]:
        objects: list[int] = []
        raws: Any = undecoded(cast(Client, server), TRAINJOBS)
        async for raw in raws:
            objects.append(int(bytes(raw)))
            each(server.requests)
            if len(objects) == most:
                await raws.aclose()
                break
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return objects

    return asyncio.run(run())


def test_the_next_page_is_requested_before_a_page_is_read() -> None:
    requests: list[int] = []
    assert read(Server(), each=requests.append) == [1, 2, 3]
    assert requests == [2, 3, 3]


def test_a_page_that_is_refused_ends_the_list_after_the_pages_before_it() -> None:
    requests: list[int] = []
    with pytest.raises(ApiError, match="no"):
        read(Server(fails_at=3), each=requests.append)
    assert requests == [2, 3]


def test_a_caller_that_has_enough_leaves_no_request_behind() -> None:
    assert read(Server(fails_at=2), most=1) == [1]
