"""`trainyard run --local`: the TrainJob of a command, on this machine.

Called by `run`. The runtime is that of the cluster if it answers, and otherwise
that of the site's catalog; no other request goes to a cluster, and nothing is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_api.similar import hint
from trainyard_assist import read
from trainyard_assist.offline import DEFAULT_NAMESPACE
from trainyard_assist.run.runtime import Runtime
from trainyard_assist.run.settings import Settings
from trainyard_assist.run.trainjob import base_name, trainjob
from trainyard_kube.client import Client

from ..cluster import connection
from ..cluster import run as cluster
from ..files import manifests
from ..local.run import INTERRUPTED, run_local

_PATIENCE: Final = 5.0
"""Seconds that a cluster has for its answer."""


def run(
    chosen: Settings,
    workspace: Path,
    *,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    out: TextIO,
    err: TextIO,
) -> int:
    """Run the TrainJob of these settings here, until it ends; returns its exit code.

    Args:
        chosen: What the run says.
        workspace: The folder in which it runs.
        namespace: Of the runtime, where it has one; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        out: Where its lines go.
        err: Where remarks go.

    Raises:
        UserError: There is no such runtime, or the TrainJob does not run on this machine.
    """
    if chosen.requirements:
        file = clean(chosen.requirements)
        print(f"--local uses the packages of this machine: to install them, pip install -r {file}", file=err)
    secret_keys = _secret_keys(chosen)
    try:
        runtime = _runtime(chosen, namespace, kubeconfig, context, err)
    except KeyboardInterrupt:
        return INTERRUPTED
    within = namespace or DEFAULT_NAMESPACE
    name = chosen.name or base_name(chosen.command)
    manifest = trainjob(chosen, runtime, namespace=within, name=name, secret_keys=secret_keys)
    return run_local(manifest, runtime.manifest, workspace, namespace=within, out=out, err=err)


def _runtime(
    chosen: Settings, namespace: str | None, kubeconfig: str | None, context: str | None, err: TextIO
) -> Runtime:
    """The runtime of the cluster; if there is none, that of the catalog."""
    try:
        credentials = connection.load(kubeconfig, context)

        async def question(client: Client) -> Runtime:
            async with asyncio.timeout(_PATIENCE):
                return await cluster.runtime_of(client, namespace or credentials.namespace, chosen)

        return connection.ask(credentials, "run", question)
    except TimeoutError:
        return _of_catalog(chosen, UserError(f"the cluster does not answer within {_PATIENCE:.0f} s"), err)
    except UserError as error:
        return _of_catalog(chosen, error, err)


def _of_catalog(chosen: Settings, why: UserError, err: TextIO) -> Runtime:
    """The runtime of the site's catalog, with the reason why the cluster's is not used."""
    name = chosen.runtime or cluster.DEFAULT_RUNTIME
    runtimes = {
        read.name(document.value): document.value
        for document in manifests.catalog()
        if document.value.get("kind") in names.RUNTIME_KINDS
    }
    if name not in runtimes:
        neither = clean(f"The site's catalog has no runtime {name} either{hint(name, runtimes)}")
        raise UserError(f"{why.shown}\n{neither}") from why
    print(clean(f"Runtime {name} is that of the catalog: {why.shown}"), file=err)
    return Runtime(runtimes[name])


def _secret_keys(chosen: Settings) -> Mapping[str, list[str]]:
    """The named keys of each Secret: their values are variables of this shell."""
    keys: dict[str, list[str]] = {}
    for secret in chosen.secrets:
        name, _, key = secret.partition(":")
        if not key:
            raise UserError(f"--local reads no Secret: name the keys of {name}, as in --secret {name}:KEY")
        keys.setdefault(name, []).append(key)
    return keys
