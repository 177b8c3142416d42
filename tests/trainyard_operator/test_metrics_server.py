"""Metrics over HTTPS: who may read them, what it costs to find that out, and how often they are made."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from tests.support.fake_api import OWN_AUDIENCE, FakeApi, run, status
from trainyard_operator.metrics import Metrics
from trainyard_operator.serve import certificates, metrics_server
from trainyard_operator.serve.metrics_server import RENDERED_FOR, Exposition, MetricsServer
from trainyard_operator.serve.tokens import ATTEMPTS_BURST, KNOWN_FOR

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
READER = "system:serviceaccount:monitoring:prometheus"


class Scene:
    """A metrics server, and an API server that knows a reader and somebody else."""

    def __init__(self, api: FakeApi, server: MetricsServer, trusted: ssl.SSLContext) -> None:
        self.api = api
        self.server = server
        self.trusted = trusted
        self.retry_after: str | None = None
        self.connection: str | None = None

    async def get(
        self, authorization: str | None = "Bearer reader", source: str = "127.0.0.1"
    ) -> tuple[int, str]:
        headers = {} if authorization is None else {"Authorization": authorization}
        url = f"https://127.0.0.1:{self.server.port}/metrics"
        connector = aiohttp.TCPConnector(ssl=self.trusted, local_addr=(source, 0))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url, headers=headers) as answer,
        ):
            self.retry_after = answer.headers.get("Retry-After")
            self.connection = answer.headers.get("Connection")
            return answer.status, await answer.text()


@asynccontextmanager
async def scene(now: list[float] | None = None) -> AsyncIterator[Scene]:
    api = FakeApi()
    api.tokens["reader"] = (OWN_AUDIENCE, {"username": READER, "groups": ["system:serviceaccounts"]})
    api.tokens["other"] = (OWN_AUDIENCE, {"username": "system:serviceaccount:team:default"})
    api.tokens["elsewhere"] = ("https://vault.example.com", {"username": READER})
    api.readers.add(READER)
    clock = (lambda: now[0]) if now is not None else (lambda: 0.0)
    async with api.client() as client:
        exposition = Exposition(Metrics(), clock)
        server = MetricsServer(client, exposition, host="127.0.0.1", port=0, clock=clock)
        issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
        server.load(issued.certificate, issued.key)
        await server.start()
        api.requests.clear()
        try:
            yield Scene(api, server, ssl.create_default_context(cadata=issued.authorities.decode()))
        finally:
            await server.stop()


def test_an_account_that_may_get_the_path_reads_the_metrics() -> None:
    async def test() -> None:
        async with scene() as s:
            code, text = await s.get()
            assert code == 200
            assert "trainyard_reconcile_seconds_count" in text
            assert s.api.requests == [("POST", REVIEWS), ("POST", ACCESS)]

    run(test)


@pytest.mark.parametrize(
    ("authorization", "code", "text"),
    [
        (None, 401, "a bearer token is required\n"),
        ("Basic cmVhZGVy", 401, "a bearer token is required\n"),
        ("Bearer nobody", 401, "the API server does not accept the token\n"),
        ("Bearer elsewhere", 401, "the API server does not accept the token\n"),
        ("Bearer other", 403, "a ClusterRole must allow the token's account to get /metrics\n"),
    ],
)
def test_everybody_else_is_told_what_is_missing(authorization: str | None, code: int, text: str) -> None:
    async def test() -> None:
        async with scene() as s:
            assert await s.get(authorization) == (code, text)
            assert s.retry_after is None, "waiting does not help"

    run(test)


def test_a_reader_is_asked_about_once_a_minute_and_who_lost_the_right_is_turned_away_then() -> None:
    async def test() -> None:
        now = [0.0]
        async with scene(now) as s:
            assert [(await s.get())[0] for _ in range(3)] == [200, 200, 200]
            s.api.readers.clear()
            assert (await s.get())[0] == 200
            assert len(s.api.requests) == 2
            now[0] = KNOWN_FOR + 1
            assert (await s.get())[0] == 403
            assert len(s.api.requests) == 4

    run(test)


def test_who_tries_tokens_costs_the_api_server_only_so_many_requests() -> None:
    async def test() -> None:
        async with scene() as s:
            codes = [(await s.get(f"Bearer {n}"))[0] for n in range(ATTEMPTS_BURST + 5)]
            assert codes == [401] * ATTEMPTS_BURST + [429] * 5
            assert s.retry_after == "1"
            assert s.api.requests == [("POST", REVIEWS)] * ATTEMPTS_BURST
            assert (await s.get(source="127.0.0.2"))[0] == 200, "those at other addresses read meanwhile"

    run(test)


@pytest.mark.parametrize(
    ("user", "asked"),
    [
        (
            {"username": READER, "uid": "u", "groups": ["g"], "extra": {"scope": ["metrics"]}},
            {"user": READER, "uid": "u", "groups": ["g"], "extra": {"scope": ["metrics"]}},
        ),
        (
            {"username": READER, "groups": None, "extra": None},
            {"user": READER, "uid": "", "groups": [], "extra": {}},
        ),
        ({}, {"user": "", "uid": "", "groups": [], "extra": {}}),
    ],
)
def test_the_right_is_asked_for_with_all_that_is_known_of_whose_the_token_is(
    user: dict[str, Any], asked: dict[str, Any]
) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.tokens["some"] = (OWN_AUDIENCE, user)
            await s.get("Bearer some")
            assert s.api.bodies == [
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenReview",
                    "spec": {"token": "some"},
                },
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {**asked, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
                },
            ]

    run(test)


@pytest.mark.parametrize(
    ("review", "said", "code"),
    [
        (ACCESS, {"allowed": True}, 200),
        (ACCESS, {"allowed": True, "denied": False}, 200),
        (ACCESS, {"allowed": True, "denied": True}, 403),
        (ACCESS, {"allowed": "true"}, 403),
        (ACCESS, {}, 403),
        (ACCESS, None, 403),
        (REVIEWS, {"authenticated": "true", "user": {"username": READER}}, 401),
        (REVIEWS, {"authenticated": True}, 403),
        (REVIEWS, None, 401),
    ],
)
def test_nothing_but_a_plain_yes_of_the_api_server_lets_somebody_read(
    review: str, said: dict[str, Any] | None, code: int
) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", review, {"code": 201, "status": said})
            assert (await s.get())[0] == code

    run(test)


def test_before_its_end_it_closes_the_connections_of_its_readers() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.get()
            assert s.connection is None
            s.server.closing = True
            assert (await s.get())[0] == 200
            assert s.connection == "close"

    run(test)


def test_while_the_api_server_does_not_say_nobody_reads_and_it_is_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", ACCESS, status(500, "InternalError", "etcd is away"))
            text = "could not query the API server whether you may read metrics, try again\n"
            assert await s.get() == (503, text)
            assert s.retry_after == "1"
            assert (await s.get())[0] == 200

    run(test)
    (line,) = caplog.messages
    assert "etcd is away" in line


def test_an_api_server_that_does_not_answer_in_time_is_named_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def silent(*_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(metrics_server, "TIMEOUT", 0.05)
    monkeypatch.setattr(metrics_server, "reviewed", silent)

    async def test() -> None:
        async with scene() as s:
            assert (await s.get())[0] == 503

    run(test)
    assert caplog.messages == ["metrics: could not check whether a reader may read them: timed out"]


def test_metrics_are_made_once_a_second_however_often_they_are_read() -> None:
    class Counted(Metrics):
        made = 0

        def render(self) -> bytes:
            self.made += 1
            return super().render()

    now, metrics = [0.0], Counted()
    exposition = Exposition(metrics, lambda: now[0])
    for at, made in ((0.0, 1), (RENDERED_FOR / 2, 1), (RENDERED_FOR, 2), (RENDERED_FOR * 1.5, 2)):
        now[0] = at
        assert exposition.response().body
        assert metrics.made == made
