"""A TrainJob and the Secret with its folder, sent so that nothing is left behind if one of them is refused.

Or the folder is written onto a claim, before the TrainJob is sent.

Called by `trainyard run --workspace`, with the rights of its user. The TrainJob
comes first, because the Secret belongs to it: its pods wait for what they
mount. Between the two nobody can interrupt: Ctrl-C withdraws both.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, Final

from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist import workspace, workspace_scripts
from trainyard_assist.workspace import Objects, Packed, WorkspaceError
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError, RetriableError
from trainyard_kube.resources import SECRETS, TRAINJOBS

from .copies import Words
from .ranks import Rank
from .remote_command import Streams, execute

_TRIES: Final = 3
"""How often the Secret is sent if the API server does not answer."""
_PAUSE: Final = 1.0
"""Seconds between two tries."""
_PIECE: Final = 64 * 1024
_IS_WHOLE: Final = 'test -f "$1" && test "$(wc -c < "$1")" -eq "$2"\n'
# Whole or not at all: another run may look for it meanwhile, and a connection that is cut ends what `cat`
# reads as its end does.
_WRITE: Final = """\
mkdir -p "$1" || exit
cat > "$1/$3"
size=$(wc -c < "$1/$3") || exit
test "$size" -eq "$4" && mv "$1/$3" "$1/$2" && exit
rm -f "$1/$3"
echo "$size of $4 bytes were written" >&2
exit 1
"""
_NO_RIGHT: Final = "cannot create resource"
"""In the answer to who has not the right; a full quota, too, is a 403."""


async def send(client: Client, namespace: str, objects: Objects) -> dict[str, Any]:
    """Create the TrainJob and its Secret; returns the TrainJob as the API server has stored it.

    Raises:
        UserError: One of them was refused, or nobody answered; says what is left of them, if anything is.
        asyncio.CancelledError: It was interrupted, and nothing is left of them.
    """
    await _rehearse(client, namespace, objects.secret)
    sending = asyncio.ensure_future(_send(client, namespace, objects))
    try:
        return await asyncio.shield(sending)
    except asyncio.CancelledError:
        # What is under way may have happened: only its answer tells.
        if left := await _withdraw(client, namespace, await sending):
            raise WorkspaceError(f"interrupted; {left}") from None
        raise


async def fetch(client: Client, namespace: str, trainjob: Json) -> Packed | None:
    """The folder that a TrainJob was sent with, to send it again; None if it was sent without one.

    Raises:
        UserError: It cannot be read.
    """
    secret_name = workspace.secret_of(trainjob)
    if secret_name is None:
        return workspace.on_volume(trainjob)
    try:
        secret = await client.get(SECRETS.path(namespace, secret_name))
    except ApiError as error:
        raise UserError(
            f"the workspace of TrainJob {trainjob['metadata']['name']} cannot be read: "
            f"Secret {secret_name}: {error.shown}; send the TrainJob with its folder"
        ) from error
    return workspace.packed_in(secret, trainjob)


async def write(client: Client, rank: Rank, packed: Packed) -> bool:
    """Write the archive of a folder onto the claim of a carrier; returns whether it was not there before.

    Args:
        client: Whose rights are used.
        rank: The carrier's.
        packed: The folder.

    Raises:
        UserError: It cannot be written there.
        ApiError: The cluster could not be queried, or the connection was cut.
    """
    said = Words()
    streams = Streams(stdout=said.take, stderr=said.take)
    folder = f"{workspace_scripts.PACKED}/{workspace.ON_VOLUME}/{packed.digest}"
    name, size = workspace_scripts.ARCHIVE, str(len(packed.archive))
    is_there = ("sh", "-c", _IS_WHOLE, "trainyard", f"{folder}/{name}", size)
    if not await execute(client, rank, is_there, streams):
        return False
    # Not by the number of a process: those of two carriers are the same.
    part = f".{secrets.token_hex(8)}.partial"
    command = ("sh", "-c", _WRITE, "trainyard", folder, name, part, size)
    if await execute(client, rank, command, replace(streams, stdin=_pieces(packed.archive))):
        claim = f"PersistentVolumeClaim {packed.claim}"
        raise WorkspaceError(f"nothing has been sent: the folder cannot be written to {claim}: {said}")
    return True


async def _pieces(archive: bytes) -> AsyncGenerator[bytes]:
    for begin in range(0, len(archive), _PIECE):
        yield archive[begin : begin + _PIECE]


async def _rehearse(client: Client, namespace: str, secret: Json) -> None:
    """Whether the Secret would be taken, asked without its content: before the TrainJob, who could start."""
    try:
        await client.create(SECRETS.path(namespace), {**secret, "data": {}}, dry_run=True)
    except RetriableError as error:
        raise UserError(f"nothing is sent: {error.shown}") from error
    except ApiError as error:
        if _NO_RIGHT in error.message:
            raise UserError(
                f"you are not allowed to create Secrets in namespace {namespace}, in which a workspace "
                "travels: ask the platform team for the right `secrets`, or put the files into an image"
            ) from error
        raise UserError(f"nothing is sent: the workspace's Secret is refused: {error.shown}") from error


async def _send(client: Client, namespace: str, objects: Objects) -> dict[str, Any]:
    trainjob = await _create_trainjob(client, namespace, objects)
    try:
        await _create_secret(client, namespace, workspace.owned(objects.secret, trainjob))
    except ApiError as error:
        left = await _withdraw(client, namespace, trainjob) or "the TrainJob is deleted again"
        raise WorkspaceError(
            f"TrainJob {trainjob['metadata']['name']}: its workspace could not be sent: {error.shown}; {left}"
        ) from error
    return trainjob


async def _create_trainjob(client: Client, namespace: str, objects: Objects) -> dict[str, Any]:
    job = f"TrainJob {clean(objects.trainjob['metadata']['name'])}"
    try:
        return await client.create(TRAINJOBS.path(namespace), objects.trainjob)
    except ConflictError as error:
        raise UserError(f"{job}: namespace {namespace} has one of this name: choose another") from error
    except RetriableError as error:
        stored = await _stored(client, namespace, objects)
        if stored is None:
            raise UserError(f"{job} is not sent: {error.shown}") from error
        return stored
    except ApiError as error:
        raise UserError(f"{job} is refused: {error.shown}") from error


async def _stored(client: Client, namespace: str, objects: Objects) -> dict[str, Any] | None:
    """The TrainJob, if it was created though the answer was lost: none but ours names this Secret."""
    name = objects.trainjob["metadata"]["name"]
    try:
        trainjob = await client.get(TRAINJOBS.path(namespace, name))
    except NotFoundError:
        return None
    except ApiError as error:
        look = client.credentials.command("kubectl", "get", "trainjob", name, "-n", namespace)
        raise UserError(
            f"it is unknown whether TrainJob {name} was created: {error.shown}; look with "
            f"`{look}` and delete it: its workspace was not sent"
        ) from error
    return trainjob if workspace.secret_of(trainjob) == objects.secret["metadata"]["name"] else None


async def _create_secret(client: Client, namespace: str, secret: Json) -> None:
    for attempt in range(1, _TRIES + 1):
        try:
            await client.create(SECRETS.path(namespace), secret)
        except RetriableError:
            if attempt == _TRIES:
                raise
            await asyncio.sleep(_PAUSE)
        except ConflictError:
            # No other Secret has its name: only the answer to an earlier attempt was lost.
            if attempt == 1:
                raise
            return
        else:
            return


async def _withdraw(client: Client, namespace: str, trainjob: Json) -> str:
    """Delete the TrainJob, and the Secret with it; returns what is left and how to delete it, if anything."""
    name, uid = trainjob["metadata"]["name"], trainjob["metadata"]["uid"]
    try:
        await client.delete(TRAINJOBS.path(namespace, name), uid=uid)
    except NotFoundError:
        return ""
    except ApiError as error:
        delete = client.credentials.command("kubectl", "delete", "trainjob", name, "-n", namespace)
        return (
            f"TrainJob {name} could not be deleted ({error.shown}), and its pods will wait for the "
            f"workspace: `{delete}`"
        )
    return ""
