"""Where certificates are kept: the Secret that replicas share, files of others, and the caBundle."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.support.fake_api import FakeApi, eventually, run, status
from trainyard_api.names import WEBHOOK_CERTIFICATE
from trainyard_kube.client import Client
from trainyard_kube.resources import SECRETS
from trainyard_kube.server_clock import ServerClock
from trainyard_operator.serve import certificate_keeper, certificates, webhook_configurations
from trainyard_operator.serve.certificate_keeper import FolderKeeper, Keeper, SecretKeeper
from trainyard_operator.serve.certificates import LIFETIME
from trainyard_operator.serve.webhook_configurations import Publisher

NAMES = ["trainyard-operator.trainyard-system.svc"]
SECRET = SECRETS.path("trainyard-system", WEBHOOK_CERTIFICATE)
NOW = datetime.now(UTC)
LATER = NOW + certificates.AUTHORITY_LIFETIME - timedelta(days=300)
"""When a new authority is due and the old one still good."""


class Server:
    """What a keeper hands certificates to."""

    def __init__(self) -> None:
        self.served: list[tuple[bytes, bytes]] = []

    def load(self, certificate: bytes, key: bytes) -> None:
        if b"CERTIFICATE" not in certificate:
            raise ValueError("no certificate")
        self.served.append((certificate, key))


def keeper(client: Client, now: datetime = NOW) -> tuple[SecretKeeper, Server]:
    server = Server()
    return SecretKeeper(client, "trainyard-system", NAMES, server.load, now=lambda: now), server


def data(api: FakeApi) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in api.objects[SECRET]["data"].items()}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@asynccontextmanager
async def running(one: Keeper | Publisher) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_the_secret_is_made_once_and_read_by_the_next_replica() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, first = keeper(client)
            other, second = keeper(client)
            await one.step()
            await one.step()
            await other.step()
            assert first.served == second.served == [(data(api)["tls.crt"], data(api)["tls.key"])]
            assert one.authorities == data(api)["ca.crt"]
            assert [method for method, _ in api.writes()] == ["POST"]
            assert api.objects[SECRET]["type"] == "kubernetes.io/tls"

    run(test)


def test_a_look_serves_what_there_is_and_writes_nothing() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            looking, server = keeper(client)
            await looking.look()
            assert (server.served, looking.problem, api.writes()) == ([], "", [])
            writing, _ = keeper(client)
            await writing.step()
            kept, written = api.objects[SECRET], api.writes()
            api.put(SECRET, {**kept, "data": {}})
            await looking.look()
            missing = "not all of ca.crt, ca.key, tls.crt and tls.key exist"
            assert (server.served, looking.problem) == ([], missing)
            api.put(SECRET, kept)
            await looking.look()
            assert (looking.issued, looking.problem) == (writing.issued, "")
            assert len(server.served) == 1
            assert api.writes() == written

    run(test)


def test_replicas_that_race_end_with_the_same_certificate() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            pairs = [keeper(client) for _ in range(5)]
            for _ in range(2):
                await asyncio.gather(*(one.step() for one, _ in pairs))
            assert {tuple(server.served) for _, server in pairs} == {
                ((data(api)["tls.crt"], data(api)["tls.key"]),)
            }
            assert {one.problem for one, _ in pairs} == {""}

    run(test)


def test_replicas_that_race_to_renew_end_with_the_same_certificate() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            before, _ = keeper(client)
            await before.step()
            kept = data(api)["ca.crt"]
            pairs = [keeper(client, NOW + LIFETIME) for _ in range(3)]
            for _ in range(2):
                await asyncio.gather(*(one.step() for one, _ in pairs))
            assert {server.served[-1] for _, server in pairs} == {
                (data(api)["tls.crt"], data(api)["tls.key"])
            }
            assert data(api)["ca.crt"] == kept

    run(test)


def test_a_deleted_secret_is_kept_again_as_it_was() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, server = keeper(client)
            await one.step()
            before = data(api)
            api.remove(SECRET)
            await one.step()
            assert data(api) == before
            assert len(server.served) == 1

    run(test)


@pytest.mark.parametrize("kept", [None, {}, {"tls.crt": "%%%"}, {"ca.crt": "", "tls.crt": ""}])
def test_a_secret_that_cannot_be_used_is_made_anew_beside_what_else_is_in_it(
    kept: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(SECRET, {"data": kept if kept is None else {**kept, "other": "eA=="}})
        async with api.client() as client:
            one, server = keeper(client)
            await one.step()
            assert len(server.served) == 1
            assert certificates.good_until(data(api)["tls.crt"]) > NOW
            assert ("other" in data(api)) is (kept is not None)

    with caplog.at_level(logging.DEBUG):
        run(test)
    assert "PRIVATE" not in caplog.text
    missing = "not all of ca.crt, ca.key, tls.crt and tls.key exist"
    assert warnings(caplog) == [
        f"Secret trainyard-system/trainyard-operator-webhook: {missing}; written again"
    ]


def test_what_the_api_server_refuses_is_the_problem_until_it_does_not() -> None:
    async def test() -> None:
        api = FakeApi()
        api.refuse_next("GET", WEBHOOK_CERTIFICATE, status(403, "Forbidden", "may not get secrets"))
        async with api.client() as client:
            one, server = keeper(client)
            await one.step()
            assert "may not get secrets" in one.problem
            assert server.served == []
            await one.step()
            assert one.problem == ""
            assert len(server.served) == 1

    run(test)


def test_a_problem_is_logged_once_while_it_lasts_and_anew_when_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, _ = keeper(client)
            for problem in ("first", "first", "second", None, "second"):
                if problem is not None:
                    api.refuse_next("GET", WEBHOOK_CERTIFICATE, status(403, "Forbidden", problem))
                await one.step()

    run(test)
    told = [text.partition("trainyard-operator-webhook: ")[2] for text in warnings(caplog)]
    assert ["first" in text for text in told] == [True, False, False]
    assert ["second" in text for text in told] == [False, True, True]


@pytest.mark.parametrize("problem", [True, False])
def test_the_secret_is_looked_at_again_and_soon_if_there_is_a_problem(
    problem: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_keeper, "RETRY", 0.01 if problem else 3600.0)
    monkeypatch.setattr(certificate_keeper, "INTERVAL", 3600.0 if problem else 0.01)

    async def test() -> None:
        api = FakeApi()
        if problem:
            api.refuse_next("GET", WEBHOOK_CERTIFICATE, status(403, "Forbidden"))
        async with api.client() as client:
            one, server = keeper(client)
            async with running(one):
                await eventually(lambda: SECRET in api.objects and len(server.served) == 1)
                if not problem:
                    api.remove(SECRET)
                    await eventually(lambda: SECRET in api.objects)

    run(test)


def test_the_secret_is_left_alone_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_keeper, "INTERVAL", 3600.0)

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, server = keeper(client)
            async with running(one):
                await eventually(lambda: len(server.served) == 1)
                await asyncio.sleep(0.05)
                assert api.requests == [
                    ("GET", SECRET),
                    ("POST", SECRET.removesuffix(f"/{WEBHOOK_CERTIFICATE}")),
                ]

    run(test)


@pytest.mark.parametrize("there", [True, False])
def test_files_of_others_are_looked_at_again_and_soon_if_they_cannot_be_used(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_keeper, "RETRY", 3600.0 if there else 0.01)
    monkeypatch.setattr(certificate_keeper, "FOLDER_INTERVAL", 0.01 if there else 3600.0)

    def write(number: int) -> tuple[bytes, bytes]:
        pair = b"CERTIFICATE %d" % number, b"key %d" % number
        for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
            (tmp_path / name).write_bytes(content)
        return pair

    async def test() -> None:
        served = [write(1)] if there else []
        server = Server()
        one = FolderKeeper(tmp_path, server.load)
        async with running(one):
            await eventually(lambda: server.served == served and bool(one.problem) is not there)
            served.append(write(2))
            await eventually(lambda: server.served == served)

    run(test)


def test_whom_to_trust_is_said_by_ca_crt_beside_the_files_if_it_is_there(tmp_path: Path) -> None:
    one = FolderKeeper(tmp_path, Server().load)
    for name, content in (("tls.crt", b"CERTIFICATE"), ("tls.key", b"key"), ("ca.crt", b"authorities")):
        (tmp_path / name).write_bytes(content)
    one.step()
    assert one.authorities == b"authorities"
    (tmp_path / "ca.crt").write_bytes(b"renewed")
    one.step()
    assert one.authorities == b"renewed"
    (tmp_path / "ca.crt").unlink()
    one.step()
    assert one.authorities is None


def test_a_problem_with_files_is_logged_once_while_it_lasts_and_anew_when_it_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = FolderKeeper(tmp_path, Server().load)
    (tmp_path / "tls.key").write_bytes(b"key")
    for content in (None, None, b"half of a file", b"CERTIFICATE", b"half of a file"):
        if content is not None:
            (tmp_path / "tls.crt").write_bytes(content)
        one.step()
    unusable = f"{tmp_path}: tls.crt and tls.key cannot be used"
    assert warnings(caplog) == [
        f"{unusable}: No such file or directory",
        f"{unusable}: ValueError",
        f"{unusable}: ValueError",
    ]


def test_files_of_others_are_read_again_when_they_change(tmp_path: Path) -> None:
    server = Server()
    one = FolderKeeper(tmp_path, server.load)
    one.step()
    assert "No such file" in one.problem
    for count in (1, 2):
        issued = certificates.issue(NAMES, NOW)
        (tmp_path / "tls.crt").write_bytes(issued.certificate)
        (tmp_path / "tls.key").write_bytes(issued.key)
        one.step()
        one.step()
        assert len(server.served) == count
        assert one.problem == ""
    (tmp_path / "tls.crt").write_bytes(b"half of a file")
    one.step()
    assert len(server.served) == 2
    assert "cannot be used" in one.problem
    assert one.authorities is None, "whoever keeps the files writes the caBundle too"


def configuration(*called: dict[str, Any]) -> dict[str, Any]:
    return {"webhooks": [{"name": f"w{i}", "clientConfig": config} for i, config in enumerate(called)]}


OURS = {"service": {"namespace": "trainyard-system", "name": "trainyard-operator"}}
UPSTREAMS = {"service": {"namespace": "kubeflow-system", "name": "kubeflow-trainer-controller-manager"}}
GROUP = "/apis/admissionregistration.k8s.io/v1"
PATHS = [
    f"{GROUP}/mutatingwebhookconfigurations/defaulter.trainer.kubeflow.org",
    f"{GROUP}/validatingwebhookconfigurations/validator.trainer.kubeflow.org",
]


def publisher(client: Client, *, leading: bool = True, bundle: bytes | None = b"PEM") -> Publisher:
    return Publisher(
        client,
        service="trainyard-operator",
        namespace="trainyard-system",
        hosts=["127.0.0.1"],
        bundle=lambda: bundle,
        leading=lambda: leading,
    )


def bundles(api: FakeApi, path: str) -> list[str | None]:
    return [webhook["clientConfig"].get("caBundle") for webhook in api.objects[path]["webhooks"]]


def test_webhooks_that_lead_elsewhere_are_looked_at_again_soon_for_they_may_be_taken_over() -> None:
    async def test() -> None:
        api = FakeApi()
        for path in PATHS:
            api.put(path, configuration(UPSTREAMS))
        async with api.client() as client:
            assert not await publisher(client).step()
            assert api.writes() == []

    run(test)


def test_the_bundle_is_written_where_the_webhook_is_ours_and_only_when_it_differs() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(PATHS[0], configuration(OURS, UPSTREAMS, {"url": "https://127.0.0.1:9443/a"}))
        api.put(PATHS[1], configuration({**OURS, "caBundle": "b2xk"}, {"url": "https://other/a"}))
        async with api.client() as client:
            assert await publisher(client).step()
            assert bundles(api, PATHS[0]) == ["UEVN", None, "UEVN"]
            assert bundles(api, PATHS[1]) == ["UEVN", None]
            assert await publisher(client).step()
            assert api.writes() == [("PATCH", path) for path in PATHS]

    run(test)


def test_it_writes_nothing_without_the_lease_or_a_bundle_or_a_configuration() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(PATHS[0], configuration(OURS))
        async with api.client() as client:
            assert not await publisher(client, leading=False).step()
            assert not await publisher(client, bundle=None).step()
            assert api.requests == []
            assert not await publisher(client).step(), "the other one is still missing"
            assert bundles(api, PATHS[0]) == ["UEVN"]

    run(test)


def test_a_configuration_that_changes_meanwhile_is_left_for_the_next_look() -> None:
    async def test() -> None:
        api = FakeApi()
        for path in PATHS:
            api.put(path, configuration(OURS))
        api.refuse_next("PATCH", PATHS[0], status(422, "Invalid", "testing value failed"))
        async with api.client() as client:
            one = publisher(client)
            assert not await one.step()
            assert bundles(api, PATHS[0]) == [None]
            assert await one.step()
            (sent, *_) = [b for b in api.bodies if isinstance(b, list)]
            assert sent[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "100"}

    run(test)


@pytest.mark.parametrize("between", ["works", "is gone"])
def test_a_problem_with_a_configuration_is_logged_once_while_it_lasts_and_anew_when_it_comes_back(
    between: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        api = FakeApi()
        for path in PATHS:
            api.put(path, configuration(OURS))
        async with api.client() as client:
            one = publisher(client)
            for problem in ("first", "first", "second", None, "second"):
                if problem is not None:
                    api.refuse_next("GET", PATHS[0], status(403, "Forbidden", problem))
                elif between == "is gone":
                    api.remove(PATHS[0])
                assert await one.step() is (problem is None and between == "works")

    run(test)
    told = warnings(caplog)
    name = "MutatingWebhookConfiguration defaulter.trainer.kubeflow.org: "
    assert [text.startswith(name) for text in told] == [True] * 3
    assert ["first" in text for text in told] == [True, False, False]
    assert ["second" in text for text in told] == [False, True, True]


@pytest.mark.parametrize("missing", [True, False])
def test_configurations_are_looked_at_again_and_soon_if_one_is_missing(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_configurations, "SOON", 0.01 if missing else 3600.0)
    monkeypatch.setattr(webhook_configurations, "INTERVAL", 3600.0 if missing else 0.01)

    async def test() -> None:
        api = FakeApi()
        if not missing:
            for path in PATHS:
                api.put(path, configuration(OURS))
        async with api.client() as client, running(publisher(client)):
            if missing:
                await eventually(lambda: ("GET", PATHS[1]) in api.requests)
            else:
                await eventually(lambda: bundles(api, PATHS[1]) == ["UEVN"])
            for path in PATHS:
                api.put(path, configuration(OURS))
            await eventually(lambda: [bundles(api, path) for path in PATHS] == [["UEVN"], ["UEVN"]])

    run(test)


def test_configurations_are_left_alone_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_configurations, "SOON", 3600.0)

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, running(publisher(client)):
            await eventually(lambda: len(api.requests) == len(PATHS))
            await asyncio.sleep(0.05)
            assert api.requests == [("GET", path) for path in PATHS]

    run(test)


def test_a_certificate_is_dated_by_the_servers_clock() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            ahead = ServerClock(lambda: NOW + timedelta(hours=2))
            server = Server()
            one = SecretKeeper(client, "trainyard-system", NAMES, server.load, now=ahead.now)
            hear, client.time = client.time, ahead
            await one.step()
            (certificate, *_) = x509.load_pem_x509_certificates(data(api)["tls.crt"])
            assert abs(certificate.not_valid_before_utc + certificates.SKEW - hear.now()) < timedelta(
                minutes=1
            )

    run(test)


async def rotated(api: FakeApi, client: Client) -> SecretKeeper:
    """A replica with an authority that its predecessor has cross-signed."""
    before, _ = keeper(client)
    await before.step()
    one, _ = keeper(client, LATER)
    await one.step()
    assert data(api)["tls.crt"].count(b"BEGIN CERTIFICATE") == 2
    return one


def test_a_new_replica_signs_again_with_the_authority_that_is_still_readable() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            await rotated(api, client)
            before = data(api)
            serving, cross, _ = before["tls.crt"].split(b"-----END CERTIFICATE-----\n")
            damaged = (
                serving[:200] + b"\n-----END CERTIFICATE-----\n" + cross + b"-----END CERTIFICATE-----\n"
            )
            encoded = base64.b64encode(damaged).decode()
            api.put(SECRET, {"data": {**api.objects[SECRET]["data"], "tls.crt": encoded}})
            new, _ = keeper(client, LATER)
            await new.step()
            after = data(api)
            assert (after["ca.crt"], after["ca.key"]) == (before["ca.crt"], before["ca.key"])
            assert after["tls.crt"].endswith(cross + b"-----END CERTIFICATE-----\n")
            assert after["tls.crt"] != before["tls.crt"]

    run(test)


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_a_secret_that_becomes_unreadable_is_written_again_with_its_cross_signed_authority(key: str) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one = await rotated(api, client)
            before = data(api)
            api.put(SECRET, {"data": {**api.objects[SECRET]["data"], key: "eA=="}})
            await one.step()
            assert data(api) == before

    run(test)
