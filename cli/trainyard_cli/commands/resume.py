"""`trainyard resume`: let TrainJobs continue that somebody has suspended.

Called by `main`, which adds `command` to the application. `cluster.stops` writes.
"""

from __future__ import annotations

import typer

from ..cluster import stops
from ..options import Context, Kubeconfig, Printed
from ..output import Output
from . import answers


def command(
    jobs: answers.Jobs,
    *,
    namespace: answers.Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Resume suspended TrainJobs.

    In a queue they wait for quota. They continue from the last checkpoint that they have saved, or
    restart from the beginning. Exit code 1: one is refused, such as one that has ended; 2: one could
    not be queried.

    Example: trainyard resume my-training

    Example: trainyard resume sweep-1 sweep-2 -n team-a
    """
    raise typer.Exit(
        answers.run_each(
            "resume",
            stops.resume,
            jobs,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
