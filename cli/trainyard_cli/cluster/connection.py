"""How the command reaches a cluster: with the kubeconfig, context and rights of the user who runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from trainyard_operator.kube import credentials
from trainyard_operator.kube.client import Client
from trainyard_operator.kube.credentials import Credentials, NoKubeconfigError
from trainyard_platform.settings import Cluster
from trainyard_sandbox.paths import Instance

from .exec_plugin import Credential

CONNECTIONS: Final = 16
"""Requests at a time."""


def load(kubeconfig: str | None, context: str | None) -> Credentials:
    """Find the cluster and the user; runs the kubeconfig's exec plugin if it has one.

    Raises:
        CredentialsError: One line says what is wrong and where.
    """
    found = credentials.load(kubeconfig, context, Credential)
    return found if found.proxy else replace(found, proxy=_proxy(found.server))


def of_stack(cluster: Cluster, kubeconfig: str | None, context: str | None) -> Credentials:
    """As `load`; what is not given is as the stack file says."""
    file = kubeconfig or (cluster.kubeconfig and str(Path(cluster.kubeconfig).expanduser()))
    return load(file, context or cluster.context)


def load_or_sandbox(kubeconfig: str | None, context: str | None) -> Credentials:
    """As `load`; where there is no kubeconfig at all, that of the sandbox of this clone, if it is up.

    For commands that only look: nobody should change the sandbox for want of a kubeconfig.
    """
    try:
        return load(kubeconfig, context)
    except NoKubeconfigError:
        sandbox = Instance().kubeconfig
        if not sandbox.exists():
            raise
        return load(str(sandbox), context)


def client(found: Credentials, command: str) -> Client:
    """A client of the cluster, which tells the API server the command's name."""
    return Client(replace(found, headers={"User-Agent": f"trainyard-{command}"}), limit=CONNECTIONS)


def _proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY name for a server, as for kubectl."""
    url = urlsplit(server)
    if url.hostname in credentials.LOOPBACK or proxy_bypass(url.netloc):
        return None
    return getproxies().get(url.scheme)
