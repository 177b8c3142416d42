"""AdmissionReviews as the API server sends them, and a server that answers them."""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp

from tests.support.fake_api import FakeApi
from trainyard_api.webhook_paths import VALIDATE
from trainyard_kube.client import Client
from trainyard_operator.core.admit.limits import DEFAULT, Limits
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, Settings
from trainyard_operator.metrics import Metrics
from trainyard_operator.serve import certificates
from trainyard_operator.serve.admission import Decider, WebhookServer
from trainyard_operator.serve.bodies import Bodies
from trainyard_operator.serve.dry_runs import Trials
from trainyard_operator.watch.cache import Cache
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.queues import Queues
from trainyard_operator.work.runtimes import Runtimes
from trainyard_policies.settings import Policies

TRAINJOB = f"{VALIDATE}trainjob"
CLUSTER_RUNTIME = f"{VALIDATE}clustertrainingruntime"
RUNTIME = f"{VALIDATE}trainingruntime"


def request(
    manifest: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "TrainJob"
) -> dict[str, Any]:
    """The request of a review: a create, or with `old` an update."""
    asked = {
        "uid": "review-uid",
        "kind": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "team",
        "name": "tj",
        "object": manifest,
        "oldObject": old,
    }
    return asked


def body(manifest: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "TrainJob") -> bytes:
    """A whole review, as sent."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**review, "request": request(manifest, old, kind)}).encode()


@dataclass
class Webhooks:
    """A running server and somebody who calls it."""

    server: WebhookServer
    cache: Cache
    metrics: Metrics
    session: aiohttp.ClientSession
    trust: ssl.SSLContext
    synced: bool = True
    decider: Decider | None = None

    async def send(self, path: str, data: Any, **options: Any) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.server.port}{path}"
        body = io.BytesIO(data) if isinstance(data, bytes) else data
        async with self.session.post(url, data=body, **options) as answer:
            return answer.status, await answer.text()

    async def ask(
        self, path: str, manifest: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "TrainJob"
    ) -> dict[str, Any]:
        code, text = await self.send(path, body(manifest, old, kind))
        assert code == 200, text
        answered = json.loads(text)
        assert (answered["apiVersion"], answered["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert answered["response"]["uid"] == "review-uid"
        return dict(answered["response"])


@asynccontextmanager
async def webhooks(
    client: Client,
    limits: Limits = DEFAULT,
    bodies: Bodies | None = None,
    policies: Policies | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> AsyncIterator[Webhooks]:
    cache, metrics = Cache(), Metrics()
    runtimes = Runtimes(client, cache, namespace="trainyard-system", memories=Memories(cache))
    decider = Decider(
        client,
        cache,
        runtimes,
        synced=lambda: running.synced,
        allowed=limits,
        policies=policies,
        settings=lambda: settings,
        queues=Queues(client, clock=lambda: 0.0),
        trials=Trials(client, lambda: settings, clock=lambda: 0.0),
        clock=lambda: 0.0,
    )
    server = WebhookServer(decider.routes(), metrics, host="127.0.0.1", port=0, bodies=bodies)
    await server.start()
    issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    server.load(issued.certificate, issued.key)
    trust = ssl.create_default_context(cadata=issued.authorities.decode())
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            running = Webhooks(server, cache, metrics, session, trust, decider=decider)
            yield running
    finally:
        await server.stop()


def tried_last(api: FakeApi, kind: str) -> dict[str, Any]:
    """The last object of a kind that was created; those of one request come in any order."""
    return dict(next(body for body in reversed(api.bodies) if body is not None and body["kind"] == kind))


def tries(api: FakeApi, kind: str) -> int:
    """How many objects of a kind were created."""
    return sum(body is not None and body["kind"] == kind for body in api.bodies)


def denial(response: dict[str, Any]) -> tuple[int, str]:
    assert response["allowed"] is False
    return response["status"]["code"], response["status"]["message"]
