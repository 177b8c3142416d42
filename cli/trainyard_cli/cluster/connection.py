"""How the command connects to a cluster: with the kubeconfig, context and rights of its user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trainyard_api.places import NoSiteError
from trainyard_kube import credentials as kube_credentials
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials, NoKubeconfigError
from trainyard_platform.errors import PlatformError
from trainyard_sandbox.paths import Instance

from ..options import same_place
from .exec_plugin import Credential
from .proxies import proxy

if TYPE_CHECKING:  # most commands have no stack, and would wait a sixth of a second for its settings
    from trainyard_platform.stack.settings import Cluster

T = TypeVar("T")

Connect = Callable[[], Credentials]
"""Finds the cluster of a stack, and the user; raises `CredentialsError`."""

CONNECTIONS: Final = 16
"""Concurrent requests."""


def load(kubeconfig: str | None, context: str | None, until: float | None = None) -> Credentials:
    """Find the cluster and the user; runs the kubeconfig's exec plugin if it has not given credentials yet.

    `until`: see `exec_plugin.Credential`.

    Raises:
        CredentialsError: A line names the problem and its place.
    """
    credentials = kube_credentials.load(kubeconfig, context, partial(Credential, until=until))
    return replace(
        credentials,
        proxy=credentials.proxy or proxy(credentials.server, os.environ),
        options=tuple(same_place(None, kubeconfig, context)),
    )


def of_stack(cluster: Cluster, kubeconfig: str | None, context: str | None) -> Credentials:
    """The cluster of a stack: like `load`, with the settings of the stack file.

    Every command that is given a stack connects by this, so that none reads or
    writes another cluster than the one that the stack is rolled out to.

    Raises:
        PlatformError: An option names another cluster than the stack file.
        CredentialsError: As `load`.
    """
    return load(*choose(cluster, kubeconfig, context))


def choose(cluster: Cluster, kubeconfig: str | None, context: str | None) -> tuple[str | None, str | None]:
    """The kubeconfig and the context of a stack's cluster; None where nobody says one.

    Raises:
        PlatformError: An option says something else than the stack file.
    """
    file, kubeconfig = expanded(cluster.kubeconfig), expanded(kubeconfig)
    if file and kubeconfig and Path(kubeconfig).resolve() != Path(file).resolve():
        raise _contradiction("kubeconfig", kubeconfig, file)
    if cluster.context and context and context != cluster.context:
        raise _contradiction("context", context, cluster.context)
    return kubeconfig or file, context or cluster.context


def expanded(kubeconfig: str | None) -> str | None:
    """The path of a kubeconfig, with the home folder of the user for `~`."""
    return None if kubeconfig is None else os.path.expanduser(kubeconfig)


def absolute(kubeconfigs: str) -> str:
    """The value of KUBECONFIG for a program that runs in another folder, and knows no `~`."""
    paths = filter(None, kubeconfigs.split(os.pathsep))
    return os.pathsep.join(str(Path.cwd() / os.path.expanduser(path)) for path in paths)


def _contradiction(field: str, option: str, setting: str) -> PlatformError:
    return PlatformError(
        f"--{field} {option}: cluster.{field} of the stack file is {setting}, and a stack has one cluster. "
        f"Leave --{field} out, or change the stack file."
    )


def load_or_sandbox(kubeconfig: str | None, context: str | None, until: float | None = None) -> Credentials:
    """Like `load`; without any kubeconfig, uses that of the site's sandbox, if it is up.

    Only for commands that read: without a kubeconfig, none should change the sandbox by accident.
    """
    try:
        return load(kubeconfig, context, until)
    except NoKubeconfigError:
        with suppress(NoSiteError):
            if (sandbox := Instance().kubeconfig).exists():
                return load(str(sandbox), context, until)
        raise


def client(
    credentials: Credentials,
    command: str,
    *,
    limit: int = CONNECTIONS,
    warned: Callable[[str], None] | None = None,
) -> Client:
    """A client of the cluster that tells it the command's name, for so many requests at a time.

    `warned`: called with each warning of the API server.
    """
    headers = {"User-Agent": f"trainyard-{command}"}
    return Client(replace(credentials, headers=headers), limit=limit, warned=warned)


def ask(
    credentials: Credentials,
    command: str,
    question: Callable[[Client], Coroutine[Any, Any, T]],
    *,
    warned: Callable[[str], None] | None = None,
) -> T:
    """The answer to a question to the cluster; `warned` as for `client`. Raises what the question raises."""

    async def answer() -> T:
        async with client(credentials, command, warned=warned) as connected:
            return await question(connected)

    return asyncio.run(answer())
