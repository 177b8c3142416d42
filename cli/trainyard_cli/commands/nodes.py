"""`trainyard nodes`: the pools of the cluster, what is free there, who uses it, and what is sick.

Called by `main`, which adds `command` to the application. Prints;
`cluster.nodes` reads the cluster, and `trainyard_assist.nodes` counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_api.shown import listed
from trainyard_assist.nodes import Amount, Pool, Sick
from trainyard_assist.quota.lines import amount
from trainyard_assist.text import duration
from trainyard_kube.client import Client

from ..cluster import connection, queues
from ..cluster.nodes import Seen, look
from ..options import Context, Kubeconfig, Printed
from ..output import FINE, Output, fitted, width_of, write_json
from . import queue as queue_command
from .questions import query, require_names

API_VERSION: Final = "nodes.trainyard.dev/v1alpha1"
_NO_NODES: Final = "you are not allowed to list nodes"
NOT_ALLOWED: Final = f"{_NO_NODES}; your queues say what is free"
MOST: Final = 40
"""Sick nodes that are printed; JSON has all."""
_NAMESPACES: Final = 3
"""The most namespaces to print per pool, those with the highest use."""
_IMPORTANCE: Final = ("POOL", "FREE", "TOTAL", "NODES", "RESOURCE", "USED", "SICK", "BY", "ACCELERATOR")
_OF_SICK: Final = ("NODE", "STATE", "SINCE", "WHY", "POOL")


def run(
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the pools of the cluster, or what the queues say of it; returns the exit code.

    0: they are printed.

    Raises:
        UserError: Neither nodes nor queues can be seen, or the cluster could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(namespace)
    credentials = connection.load_or_sandbox(kubeconfig, context)
    within = namespace or credentials.namespace

    async def answer(client: Client) -> Seen | queues.Seen:
        seen = await look(client)
        if seen is not None:
            return seen
        try:
            return await queues.look(client, within)
        except UserError as error:
            raise UserError(f"{_NO_NODES}: {error}") from error

    seen = query(credentials, "nodes", answer)
    if output is Output.JSON:
        write_json(document(seen), out)
    elif isinstance(seen, Seen):
        _write(seen, out, err)
    else:
        print(f"Not everything is visible: {NOT_ALLOWED}", file=err)
        queue_command.write(seen, within, out, err)
    return FINE


def document(seen: Seen | queues.Seen) -> dict[str, Any]:
    """The answer as JSON values; `pools` is null where nodes cannot be seen, and then there are queues."""
    head = {"apiVersion": API_VERSION, "kind": "Nodes"}
    unseen = [clean(words) for words in seen.unseen]
    if isinstance(seen, queues.Seen):
        doors = [queue_command.door_json(door) for door in seen.doors]
        return {**head, "pools": None, "localQueues": doors, "unseen": [NOT_ALLOWED, *unseen]}
    return {
        **head,
        "pools": [_pool_json(pool, with_use=seen.with_use) for pool in seen.pools],
        "localQueues": None,
        "unseen": unseen,
    }


def _pool_json(pool: Pool, *, with_use: bool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "nodes": pool.nodes,
        "ready": pool.ready,
        "accelerators": sorted(pool.accelerators),
        "resources": {
            resource: {
                "total": amount(resource, of.total),
                "used": amount(resource, of.used) if with_use else None,
                "free": amount(resource, of.free) if with_use else None,
                "by": {clean(name): amount(resource, used) for name, used in sorted(of.by.items())},
            }
            for resource, of in sorted(pool.resources.items())
        },
        "sick": [
            {
                "node": sick.node,
                "state": sick.state,
                "since": None if sick.since is None else f"{sick.since:%Y-%m-%dT%H:%M:%SZ}",
                "why": sick.why,
            }
            for sick in pool.sick
        ],
    }


def _write(seen: Seen, out: TextIO, err: TextIO) -> None:
    width = width_of(out)
    rows = [row for pool in seen.pools for row in _rows(pool, with_use=seen.with_use)]
    if rows:
        out.writelines(f"{line}\n" for line in fitted(rows, _IMPORTANCE, width))
    else:
        print("The cluster has no nodes.", file=err)
    sick = [_cells(ailment, seen.now) for pool in seen.pools for ailment in pool.sick]
    if sick:
        out.write("\n")
        lines = fitted(sick[:MOST], _OF_SICK)
        # What somebody else wrote is as long as it likes, and comes last.
        out.writelines(f"{line if width is None else line[:width]}\n" for line in lines)
    if len(sick) > MOST:
        out.write(f"and {len(sick) - MOST} more\n")
    for words in seen.unseen:
        print(f"Not everything is visible: {words}", file=err)


def _rows(pool: Pool, *, with_use: bool) -> Iterator[dict[str, str]]:
    """A row for each kind of device; for CPUs in a pool without."""
    for resource in pool.devices or ["cpu"]:
        of = pool.resources[resource]
        yield {
            "POOL": pool.name,
            "NODES": str(pool.nodes),
            "SICK": str(len({sick.node for sick in pool.sick}) or ""),
            "ACCELERATOR": ", ".join(sorted(pool.accelerators)),
            "RESOURCE": resource,
            "TOTAL": amount(resource, of.total),
            "USED": amount(resource, of.used) if with_use else "",
            "FREE": amount(resource, of.free) if with_use else "",
            "BY": _by(resource, of),
        }


def _by(resource: str, of: Amount) -> str:
    most = sorted(of.by.items(), key=lambda item: (-item[1], item[0]))
    return listed([f"{clean(name)} {amount(resource, used)}" for name, used in most], _NAMESPACES)


def _cells(sick: Sick, now: datetime) -> dict[str, str]:
    since = "" if sick.since is None else duration((now - sick.since).total_seconds())
    return {"NODE": sick.node, "POOL": sick.pool, "STATE": sick.state, "SINCE": since, "WHY": sick.why}


def command(
    *,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Whose queues are printed where you may not see nodes."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Print the node pools: free and used resources, unhealthy nodes.

    Uses your own rights, and changes nothing. Where these are not enough to see nodes, it prints what
    your queues say instead. FREE counts only nodes that take pods. Without any kubeconfig it looks at
    this site's sandbox. Exit code 2: the cluster could not be queried.

    Example: trainyard nodes

    Example: trainyard nodes -o json
    """
    raise typer.Exit(run(namespace=namespace, kubeconfig=kubeconfig, context=context, output=output))
