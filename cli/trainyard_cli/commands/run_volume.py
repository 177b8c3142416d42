"""The folder of a TrainJob that no Secret has room for, brought onto a claim before the TrainJob is sent.

Called by `run`. A small TrainJob that has the claim waits for the archive, which
`cluster.workspace` writes there as `cp` does, and is deleted again. A folder that
is there already is not sent twice.
"""

from __future__ import annotations

import asyncio
from typing import Any, TextIO

from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist.workspace import Packed, WorkspaceError
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import Credentials

from .. import interrupts
from ..cluster import connection, ranks, workspace
from ..cluster import run as cluster
from ..cluster.attach import States
from ..cluster.logs import Wanted
from . import attach, run_interactive


@interrupts.like_ctrl_c()
def bring(credentials: Credentials, carrier: Json, packed: Packed, *, err: TextIO) -> None:
    """Bring the folder onto its claim. Whatever ends it: nothing is left running, or is said to be.

    Args:
        credentials: The cluster.
        carrier: The TrainJob that has the claim.
        packed: The folder.
        err: Where what is said of it goes.

    Raises:
        UserError: It is not there.
        KeyboardInterrupt: It was interrupted.
    """
    name, namespace = carrier["metadata"]["name"], carrier["metadata"]["namespace"]
    say = attach.Voice(err)

    async def create(client: Client) -> dict[str, Any]:
        return await cluster.create(client, carrier)

    async def write(client: Client, place: str) -> bool:
        return await workspace.write(client, await ranks.running(client, namespace, name, place), packed)

    try:
        stored = run_interactive.send(credentials, carrier, create, say)
    except ApiError as error:
        raise WorkspaceError(
            clean(f"TrainJob {name}, which brings the folder, is not sent: {error}")
        ) from error
    try:
        say(f"TrainJob {namespace}/{name} brings the folder onto PersistentVolumeClaim {packed.claim}")
        place = _ready(credentials, carrier, say, err)
        is_new = connection.ask(credentials, "run", lambda client: write(client, place))
        say("The folder is there" if is_new else "The folder was there already")
    except ApiError as error:
        raise UserError(clean(f"{credentials.source}: nothing has been sent: {error}")) from error
    finally:
        say(run_interactive.cancelled(credentials, stored))


def _ready(credentials: Credentials, carrier: Json, say: attach.Voice, err: TextIO) -> str:
    """The place of the rank that has the claim, once it runs."""
    name, namespace = carrier["metadata"]["name"], carrier["metadata"]["namespace"]
    printer = run_interactive.UntilReady(err, "", marked=True)
    follow = attach.follow(
        credentials, namespace, name, Wanted(), states=States(say), printer=printer, say=say
    )
    try:
        asyncio.run(follow)
    except run_interactive.ReadyError as ready:
        return ready.place
    raise WorkspaceError(
        f"nothing has been sent: TrainJob {namespace}/{name} has ended before it had the folder"
    )
