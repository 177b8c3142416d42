"""The head and the workers over Flight, as ranks read from them."""

from __future__ import annotations

import errno
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pyarrow as pa
import pytest
from pyarrow import flight

from trainyard_cache import health, rows, table
from trainyard_cache.head import Head
from trainyard_cache.worker import HOLDS, Worker

from .tables import numbers, parquet

ANY = "grpc://127.0.0.1:0"


class Cache:
    """A head and workers on loopback, with a table of 250 rows."""

    def __init__(self, folder: Path, workers: int, cleanup: ExitStack) -> None:
        self.location = parquet(folder, 100, 130, 250)
        self.table = table.open_table(self.location, {})
        self.workers = [
            self._served(self.worker(rows.share(250, index, workers)), cleanup) for index in range(workers)
        ]
        addresses = [f"grpc://127.0.0.1:{worker.port}" for worker in self.workers]
        self.head = self._served(Head(ANY, 250, addresses, table.fingerprint(self.table)), cleanup)
        self.client = cleanup.enter_context(flight.connect(f"grpc://127.0.0.1:{self.head.port}"))

    def worker(self, share: rows.Rows, fingerprint: str = "") -> Worker:
        held = table.load(self.table, share, self.location)
        return Worker(ANY, held, share.first, fingerprint or table.fingerprint(self.table))

    def info(self, *path: str) -> flight.FlightInfo:
        return self.client.get_flight_info(flight.FlightDescriptor.for_path(*path))

    def read(self, rank: int, world: int) -> pa.Table:
        """What a rank reads, as Kubeflow's own example does."""
        chunks = []
        for endpoint in self.info(str(rank), str(world)).endpoints:
            for location in endpoint.locations:
                with flight.connect(location.uri) as client:
                    chunks.append(client.do_get(endpoint.ticket).read_all())
        return pa.concat_tables(chunks)

    @staticmethod
    def _served(server: Any, cleanup: ExitStack) -> Any:
        cleanup.callback(server.shutdown)
        return server


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def cache(tmp_path: Path, cleanup: ExitStack) -> Cache:
    made = Cache(tmp_path, 3, cleanup)
    made.head.settle()
    return made


@pytest.mark.parametrize("world", [1, 2, 3, 7, 250])
def test_the_ranks_read_all_rows_once_and_in_their_order(cache: Cache, world: int) -> None:
    assert pa.concat_tables([cache.read(rank, world) for rank in range(world)]) == numbers(0, 250)


def test_a_rank_is_told_how_many_rows_it_gets_and_asks_only_those_that_hold_them(cache: Cache) -> None:
    info = cache.info("0", "5")
    assert info.total_records == 50
    assert [endpoint.locations[0].uri.decode() for endpoint in info.endpoints] == [
        f"grpc://127.0.0.1:{cache.workers[0].port}"
    ]
    assert len(cache.info("1", "5").endpoints) == 2


def test_a_rank_beyond_the_rows_gets_none(cache: Cache) -> None:
    assert cache.info("250", "251").endpoints == []


def test_rows_that_are_too_many_bytes_for_one_batch_come_in_several(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard_cache.worker._BYTES", 500)
    [endpoint] = cache.info("0", "5").endpoints
    with flight.connect(endpoint.locations[0].uri) as client:
        batches = [chunk.data for chunk in client.do_get(endpoint.ticket)]
    assert [batch.num_rows for batch in batches] == [25, 25]
    assert pa.Table.from_batches(batches) == numbers(0, 50)


@pytest.mark.parametrize(
    "path", [(), ("0",), ("0", "1", "2"), ("2", "2"), ("-1", "2"), ("0", "0"), ("²", "3"), ("a", "b")]
)
def test_a_path_that_is_no_rank_is_refused(cache: Cache, path: tuple[str, ...]) -> None:
    with pytest.raises(pa.ArrowException, match="the path must be a rank and the world size"):
        cache.info(*path)


@pytest.mark.parametrize("ticket", [b"", b"x" * 17])
def test_what_is_no_ticket_is_refused(cache: Cache, ticket: bytes) -> None:
    with flight.connect(f"grpc://127.0.0.1:{cache.workers[0].port}") as client:
        with pytest.raises(pa.ArrowException, match="not a ticket of this cache"):
            client.do_get(flight.Ticket(ticket)).read_all()
        with pytest.raises(pa.ArrowException, match="there is no action 'drop'; there is 'holds'"):
            list(client.do_action(flight.Action("drop", b"")))
        assert [action.type for action in client.list_actions()] == [HOLDS]


def test_before_all_workers_hold_their_rows_nobody_is_served(tmp_path: Path, cleanup: ExitStack) -> None:
    cache = Cache(tmp_path, 2, cleanup)
    with pytest.raises(flight.FlightUnavailableError, match="2 workers have not been seen yet"):
        cache.info("0", "1")
    cache.workers[1].shutdown()
    cache.head.settle()
    gone = f"worker 2 of 2 (grpc://127.0.0.1:{cache.workers[1].port}) does not hold its rows: "
    assert cache.head.lacks.startswith(gone)
    with pytest.raises(flight.FlightUnavailableError, match="the cache is not ready: worker 2 of 2"):
        cache.info("0", "1")


def test_whatever_goes_wrong_in_a_look_at_a_worker_is_what_the_cache_lacks(
    tmp_path: Path, cleanup: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    cache = Cache(tmp_path, 1, cleanup)
    monkeypatch.setattr("trainyard_cache.head._holds", broken)
    cache.head.settle()
    address = f"grpc://127.0.0.1:{cache.workers[0].port}"
    assert cache.head.lacks == (
        f"worker 1 of 1 ({address}) does not hold its rows: [Errno 5] Input/output error"
    )


def test_a_worker_that_has_read_another_table_is_never_asked(tmp_path: Path, cleanup: ExitStack) -> None:
    cache = Cache(tmp_path, 1, cleanup)
    other = cache.worker(rows.Rows(0, 250), "another")
    cleanup.callback(other.shutdown)
    address = f"grpc://127.0.0.1:{other.port}"
    head = Head(ANY, 250, [address], table.fingerprint(cache.table))
    cleanup.callback(head.shutdown)
    head.settle()
    assert head.lacks == (
        f"worker 1 of 1 ({address}) has read another table: its files have changed since; "
        "delete the pods of the cache"
    )


def asked(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_the_kubelet_is_told_what_is_missing_until_nothing_is(cleanup: ExitStack) -> None:
    lacks = ["the table is being read"]
    server = health.serve(0, lambda: lacks[0])
    cleanup.callback(server.shutdown)
    port = server.server_address[1]
    assert asked(port, "/ready") == (503, "the table is being read\n")
    lacks[0] = ""
    assert asked(port, "/ready") == (200, "ready\n")
    assert asked(port, "/other")[0] == 404


def has_ipv6() -> bool:
    """Whether this machine has an address of it: Python and the kernel may know IPv6, and have none."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return socket.has_dualstack_ipv6()
    except OSError:
        return False


def test_the_kubelet_may_ask_over_ipv4_and_where_there_is_one_over_ipv6(cleanup: ExitStack) -> None:
    server = health.serve(0, lambda: "")
    cleanup.callback(server.shutdown)
    port = server.server_address[1]
    hosts = ["127.0.0.1", *(["[::1]"] if has_ipv6() else [])]
    assert [asked(port, "/ready", host) for host in hosts] == [(200, "ready\n") for _ in hosts]


@pytest.mark.parametrize("lacking", ["in Python", "in the kernel"])
def test_without_ipv6_the_kubelet_asks_over_ipv4(
    cleanup: ExitStack, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    def refused(self: socket.socket, address: tuple[str, int]) -> None:
        if self.family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        bind(self, address)

    bind = socket.socket.bind
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: lacking == "in the kernel")
    monkeypatch.setattr(socket.socket, "bind", refused)
    server = health.serve(0, lambda: "")
    cleanup.callback(server.shutdown)
    assert asked(int(server.server_address[1]), "/ready") == (200, "ready\n")
