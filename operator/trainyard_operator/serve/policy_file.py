"""The file with what the stack says about policies, read again when it changes.

A tenant or a pool more changes the file. The kubelet puts the new one in place
within a minute or two, and a restart of the operator would be for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trainyard_api.configuration import Webhook
from trainyard_policies.settings import Policies

from ..settings import SettingsError, load_policies

logger = logging.getLogger(__name__)

INTERVAL: Final = 10.0
"""Seconds between two looks at the file."""


class PolicyFile:
    """Follows the policies in a webhook's file.

    `policies` are those at the start; None: the webhook applies none. Raises `SettingsError` if they are
    invalid then. A later mistake goes to the log, and what is served stays.
    """

    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook
        self._bytes = self._read()
        self.policies = load_policies(webhook)

    async def run(self, serve: Callable[[Policies], None]) -> None:
        """Call `serve` with the policies whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.step(serve)

    def step(self, serve: Callable[[Policies], None]) -> None:
        """Look at the file once."""
        content = self._read()
        if content is None or content == self._bytes:
            return
        self._bytes = content
        try:
            policies = load_policies(self._webhook)
        except SettingsError as error:
            logger.warning("the policies stay as they were: %s", error)
            return
        if policies is not None and policies != self.policies:
            self.policies = policies
            serve(policies)
            logger.info("policies read again from %s", self._webhook.policies)

    def _read(self) -> bytes | None:
        """What the file holds; None if there is none, or it is being replaced at this moment."""
        try:
            return Path(self._webhook.policies).read_bytes() if self._webhook.policies else None
        except OSError:
            return None
