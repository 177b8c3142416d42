"""`trainyard runtimes jobs`: which content of a runtime each TrainJob on it has.

Called by `runtimes`, which names this module. Queries the cluster, with only
read rights, and prints.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_delivery.impact import Job, Ref
from trainyard_kube.client import Client, NotFoundError
from trainyard_kube.resources import CLUSTER_TRAINING_RUNTIMES
from trainyard_operator.core.decide import revisions

from ..cluster import connection
from ..cluster.workloads import Seen, look
from ..files import stackfile
from ..options import Context, Kubeconfig, OnStack, Printed
from ..output import FINE, Output, write_json, write_table
from .questions import query
from .runtimes import names_of

NEWEST: Final = "newest"
OLDER: Final = "older"
NONE_YET: Final = "none yet"
"""It has no JobSet, and so no content of its own."""
UNKNOWN: Final = "unknown"
"""Its JobSet names none, or could not be seen."""


def run(
    name: str,
    *,
    stack: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the TrainJobs on a runtime that have not finished; returns the exit code.

    0: they are printed, even if there are none.

    Raises:
        UserError: There is neither such a runtime nor a job on it, or the cluster could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    credentials = connection.of_stack(stackfile.cluster_of(stack), kubeconfig, context)
    seen, newest = query(credentials, "runtimes", lambda client: _asked(client, name))
    runtime = Ref(names.CLUSTER_TRAINING_RUNTIME, "", name)
    jobs = sorted(
        (job for job in seen.jobs if job.runtime == runtime), key=lambda job: (job.namespace, job.name)
    )
    if not newest and not jobs:
        raise UserError(clean(f"there is no {runtime}, and no TrainJob on it"))
    for resource, why in sorted(seen.unseen.items()):
        print(clean(f"Could not see {resource}: {why}"), file=err)
    if output is Output.JSON:
        write_json(document(name, jobs, newest), out)
        return FINE
    _print(jobs, newest, out)
    for line in _remarks(name, jobs, newest):
        print(line, file=err)
    return FINE


def document(name: str, jobs: Sequence[Job], newest: str) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "runtime": name,
        "newest": newest or None,
        "trainJobs": [
            {
                "namespace": job.namespace,
                "name": job.name,
                "state": job.state.value,
                "revision": job.revision or None,
                "content": _content(job, newest),
            }
            for job in jobs
        ],
    }


async def _asked(client: Client, name: str) -> tuple[Seen, str]:
    return await look(client, pools=False), await newest_of(client, name)


async def newest_of(client: Client, name: str) -> str:
    """The revision that a job would start with now; empty if there is no such runtime."""
    try:
        return revisions.name_of(revisions.live(await client.get(CLUSTER_TRAINING_RUNTIMES.path(name=name))))
    except NotFoundError:
        return ""


def _content(job: Job, newest: str) -> str:
    if not job.revision:
        return UNKNOWN if job.started else NONE_YET
    return NEWEST if job.revision == newest else OLDER


def _print(jobs: Sequence[Job], newest: str, out: TextIO) -> None:
    rows = [
        (clean(f"{job.namespace}/{job.name}"), job.state.value, _content(job, newest), clean(job.revision))
        for job in jobs
    ]
    write_table(("TRAINJOB", "STATE", "CONTENT", "REVISION"), rows, out, width=200)


def _remarks(name: str, jobs: Sequence[Job], newest: str) -> list[str]:
    if not newest:
        return [f"The runtime {name} no longer exists: TrainJobs without a JobSet are Blocked."]
    if not any(_content(job, newest) == OLDER for job in jobs):
        return []
    return [
        "A TrainJob keeps the content that it started with, even while it is suspended. "
        "To get the newest content, delete the TrainJob and create it again."
    ]


def command(
    name: Annotated[str, typer.Argument(help="Name of the runtime.", autocompletion=names_of)],
    *,
    stack: OnStack = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """List the TrainJobs on a runtime, and the content each has.

    Lists those that have not finished. Exit code 2: there is no such runtime, or the cluster
    could not be queried.

    Example: trainyard runtimes jobs torch-distributed

    Example: trainyard runtimes jobs torch-distributed --stack prod
    """
    raise typer.Exit(run(name, stack=stack, kubeconfig=kubeconfig, context=context, output=output))
