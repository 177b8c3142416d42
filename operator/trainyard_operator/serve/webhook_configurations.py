"""Tells the API server whom to trust when it calls our webhooks: caBundle, and nothing else.

The platform creates the configurations without a caBundle and ignores it
afterwards. Only the replica that holds the Lease writes, only where the
webhook is ours, and only what differs.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from trainyard_kube.client import ApiError, Client, NotFoundError, Resource
from trainyard_kube.resources import WEBHOOK_CONFIGURATIONS

from ..work.apply import MANAGER

logger = logging.getLogger(__name__)

INTERVAL = 30.0
"""Seconds between two looks while everything is in place."""
SOON = 3.0
"""Seconds while a configuration is missing: `pulumi up` waits for the caBundle."""


class Publisher:
    """Writes `bundle()` (PEM) into our webhooks, while `leading()`.

    Ours are the webhooks of the Service `service` in `namespace`, and those whose URL has one
    of `hosts`.
    """

    def __init__(
        self,
        client: Client,
        *,
        service: str,
        namespace: str,
        hosts: Sequence[str] = (),
        bundle: Callable[[], bytes | None],
        leading: Callable[[], bool],
    ) -> None:
        self._client = client
        self._service = (namespace, service)
        self._hosts = hosts
        self._bundle = bundle
        self._leading = leading
        self._problems: dict[str, str] = {}

    async def run(self) -> None:
        """Keep them up to date until cancelled."""
        while True:
            pause = INTERVAL if await self.step() else SOON
            await asyncio.sleep(pause)

    async def step(self) -> bool:
        """One look; True if nothing is missing."""
        bundle = self._bundle()
        if bundle is None or not self._leading():
            return False
        ca_bundle = base64.b64encode(bundle).decode()
        return all(
            [await self._publish(resource, name, ca_bundle) for resource, name in WEBHOOK_CONFIGURATIONS]
        )

    async def _publish(self, resource: Resource, name: str, ca_bundle: str) -> bool:
        path = resource.path(name=name)
        try:
            configuration = await self._client.get(path)
            if not any(
                self._is_ours(webhook["clientConfig"]) for webhook in configuration.get("webhooks") or ()
            ):
                return False  # it still calls the webhook that we are about to replace
            operations = self._operations(configuration, ca_bundle)
            if operations:
                await self._client.patch(path, operations, kind="json", manager=MANAGER)
                logger.info("%s %s trusts the webhook's authority", resource.kind, name)
        except NotFoundError:
            self._problems.pop(name, None)
            return False
        except ApiError as error:
            if self._problems.get(name) != str(error):
                logger.warning("%s %s: %s", resource.kind, name, error)
            self._problems[name] = str(error)
            return False
        self._problems.pop(name, None)
        return True

    def _operations(self, configuration: dict[str, Any], ca_bundle: str) -> tuple[dict[str, Any], ...]:
        operations = [
            {"op": "add", "path": f"/webhooks/{position}/clientConfig/caBundle", "value": ca_bundle}
            for position, webhook in enumerate(configuration.get("webhooks") or ())
            if self._is_ours(webhook["clientConfig"]) and webhook["clientConfig"].get("caBundle") != ca_bundle
        ]
        if not operations:
            return ()
        # Positions are good only for the version that they were read from.
        version = configuration["metadata"]["resourceVersion"]
        return ({"op": "test", "path": "/metadata/resourceVersion", "value": version}, *operations)

    def _is_ours(self, called: dict[str, Any]) -> bool:
        if service := called.get("service"):
            return (service.get("namespace"), service.get("name")) == self._service
        return urlsplit(called.get("url") or "").hostname in self._hosts
