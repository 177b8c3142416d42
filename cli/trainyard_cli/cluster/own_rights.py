"""Whether the user has a right in the pods of a namespace: asked before something is done in vain.

Called by what forwards ports, and by what sends a TrainJob only to run commands in its pods.
"""

from __future__ import annotations

import asyncio

from trainyard_assist import read
from trainyard_kube.client import Client
from trainyard_kube.resources import SELF_ACCESS_REVIEWS

from .patience import in_time


async def may(client: Client, namespace: str, subresource: str) -> bool:
    """Whether the user may connect to such a subresource of pods there. Raises the client's errors."""
    # A connection is a GET, for which each Kubernetes checks `get`; from 1.35 on, it checks `create` too.
    answers = await asyncio.gather(
        *(_is_allowed(client, namespace, subresource, verb) for verb in ("get", "create"))
    )
    return all(answers)


async def _is_allowed(client: Client, namespace: str, subresource: str, verb: str) -> bool:
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "resource": "pods",
        "subresource": subresource,
    }
    review = {
        "apiVersion": SELF_ACCESS_REVIEWS.api_version,
        "kind": SELF_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    answer = await in_time(client.create(SELF_ACCESS_REVIEWS.path(), review))
    return read.at(answer, "status", "allowed") is True
