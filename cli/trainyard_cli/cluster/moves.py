"""Whether a stack was rolled out to another cluster than the one that its file names now.

Called by `rollout`, `destroy` and `drift`, before Pulumi runs and before anything is
changed. A refresh goes by Pulumi's state: where the file has got another kubeconfig or
context since, it reads the old cluster. And what a kubeconfig calls by a name, or has as
its current context, can be another cluster today: therefore each roll-out leaves the
cluster's uid in the state. It can also become another one while a command waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TextIO

from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_delivery import pulumi_state, replacements
from trainyard_delivery.pulumi_state import Identity
from trainyard_delivery.replacements import Move
from trainyard_kube.client import ApiError
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_kube.resources import NAMESPACES
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import IDENTITY_VARIABLE, Cluster

from . import connection

UNSEEN: Final = "Could not see whether it is the cluster of the last roll-out"
_NEVER_DELETED: Final = "kube-system"


class Place(NamedTuple):
    """Where a stack is rolled out to."""

    move: Move | None = None
    """How it moves; None if it stays, or was never rolled out."""
    identity: Identity | None = None
    """The cluster; if it cannot be seen, that of the last roll-out, unless the stack moves."""
    unseen: str = ""
    """Why it cannot be seen."""
    shown: str = ""
    """The address that the command has shown, if no roll-out has left the cluster's uid."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment by which Pulumi's program keeps the cluster in the state."""
        return {} if self.identity is None else {IDENTITY_VARIABLE: json.dumps(self.identity._asdict())}


def identity(credentials: Credentials, command: str) -> Identity:
    """Which cluster it is.

    Raises:
        ApiError, CredentialsError: The cluster cannot be queried, or the user may not read kube-system.
    """
    path = NAMESPACES.path(name=_NEVER_DELETED)
    namespace = connection.ask(credentials, command, lambda client: client.get(path))
    return Identity(namespace["metadata"]["uid"], credentials.server)


def found(state: Json, cluster: Cluster, connect: connection.Connect, kubeconfig: str | None) -> Place:
    """The place of a stack with this state, and whether it has moved since the last roll-out.

    Another way to the same server is no move, unless another cluster is there now.
    """
    rolled_out, here, unseen = pulumi_state.identity(state), None, ""
    try:
        here = identity(connect(), "preview")
    except (ApiError, CredentialsError) as error:
        unseen = str(error)
    before = pulumi_state.provider(state)
    if before is None:
        return Place(None, here, unseen)
    move = _move(before, rolled_out, here, cluster, connect=connect, kubeconfig=kubeconfig)
    return Place(move, here or (rolled_out if move is None else None), unseen)


def expected(rolled_out: Identity | None, credentials: Credentials, command: str, err: TextIO) -> Place:
    """The place that a command changes: that of the last roll-out. What cannot be seen goes to `err`.

    Raises:
        PlatformError: It is another cluster.
    """
    if rolled_out is None:
        return Place()
    try:
        here = identity(credentials, command)
    except (ApiError, CredentialsError) as error:
        print(clean(f"{UNSEEN}: {error}"), file=err)
        return Place(None, rolled_out, str(error))
    for sentence in replacements.another_cluster(rolled_out, here, credentials.source, command):
        raise PlatformError(clean(sentence))
    return Place(None, here)


def shown(credentials: Credentials, command: str) -> Place:
    """The place that a command shows before it changes it, for a state that has no uid of a cluster."""
    try:
        return Place(None, identity(credentials, command), shown=credentials.server)
    except (ApiError, CredentialsError) as error:
        return Place(None, None, str(error), shown=credentials.server)


def leads_to(rolled_out: Identity | None, credentials: Credentials, command: str) -> bool:
    """Whether that is the cluster of the last roll-out; False if nobody can see it."""
    try:
        return rolled_out is not None and identity(credentials, command).uid == rolled_out.uid
    except (ApiError, CredentialsError):
        return False


def refusals(place: Place, connect: connection.Connect, command: str) -> list[str]:
    """Why the command would change another cluster than the `place` that it has shown.

    What could be seen then has to be seen now: otherwise it may be the cluster of somebody else. So `connect`
    has to read the stack file and the kubeconfig again.
    """
    if place.identity is None:
        return _readdressed(place, connect, command)
    try:
        credentials = connect()
        here = identity(credentials, command)
    except (ApiError, CredentialsError) as error:
        if place.unseen:
            return []
        still = f"whether it is still {place.identity.server}"
        return [f"refused: could not see {still}: {error}. Run the same command again"]
    return replacements.another_cluster(
        place.identity, here, credentials.source, command, previewed=bool(place.shown)
    )


def _readdressed(place: Place, connect: connection.Connect, command: str) -> list[str]:
    """Why it would do so, if only the address can be compared."""
    if not place.shown:
        return []
    try:
        credentials = connect()
    except CredentialsError:
        return []  # which Pulumi reports
    return replacements.another_address(place.shown, credentials.server, credentials.source, command)


def _move(
    before: pulumi_state.Provider,
    rolled_out: Identity | None,
    here: Identity | None,
    cluster: Cluster,
    *,
    connect: connection.Connect,
    kubeconfig: str | None,
) -> Move | None:
    before = replace(before, kubeconfig=connection.expanded(before.kubeconfig))
    after_kubeconfig, after_context = connection.choose(cluster, None, None)
    is_another = rolled_out is not None and here is not None and rolled_out.uid != here.uid
    is_same = rolled_out is not None and here is not None and not is_another
    same_file = (before.kubeconfig, before.context) == (after_kubeconfig, after_context)
    if same_file and not is_another:
        return None
    changed = [
        f"cluster.{field}"
        for field, old, new in (
            ("kubeconfig", before.kubeconfig, after_kubeconfig),
            ("context", before.context, after_context),
        )
        if old != new
    ]
    was = _server(lambda: connection.load(before.kubeconfig or kubeconfig, before.context))
    becomes = _server(connect)
    if was == becomes and not isinstance(was, CredentialsError) and not is_another:
        return None
    return Move(
        before.urn,
        tuple(changed) or ("cluster.context",),
        _shown(rolled_out.server if rolled_out else was, before.kubeconfig, before.context),
        _shown(becomes, after_kubeconfig, after_context),
        same_file=same_file,
        same_cluster=is_same,
    )


def _server(connect: connection.Connect) -> str | CredentialsError:
    try:
        return connect().server
    except CredentialsError as error:
        return error


def _shown(server: str | CredentialsError, kubeconfig: str | None, context: str | None) -> str:
    where = server if isinstance(server, str) else "an unknown server"
    by = f"context {context}" if context else "the current context"
    return f"{where} ({by}{f' of {kubeconfig}' if kubeconfig else ''})"
