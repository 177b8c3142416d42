"""What a command answers whose cluster is an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from trainyard_cli.cluster import connection
from trainyard_cli.options import same_place
from trainyard_kube.credentials import Credentials

from .answers import answered
from .fake_api import FakeApi, run


def typed(
    api: FakeApi,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., Any],
    *arguments: Any,
    **options: Any,
) -> tuple[int, str, str]:
    """The exit code of a command's function, and what it prints, in the namespace `team` of this cluster."""

    async def answer() -> tuple[int, str, str]:
        async with api.serving() as url:
            place = tuple(same_place(None, options.get("kubeconfig"), options.get("context")))
            credentials = Credentials(url, None, namespace="team", source="kubeconfig", options=place)
            monkeypatch.setattr(connection, "load", lambda *_: credentials)
            return await asyncio.to_thread(answered, command, *arguments, **options)

    return run(answer, timeout=60)
