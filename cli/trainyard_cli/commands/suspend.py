"""`trainyard suspend`: have TrainJobs wait until somebody resumes them.

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
    """Suspend TrainJobs; their checkpoints stay.

    One that runs loses its pods, and gives its quota to others. One that waits stays in its queue, and
    is not admitted. Exit code 1: one is refused, such as one that has ended; 2: one could not be queried.

    Example: trainyard suspend my-training

    Example: trainyard suspend sweep-1 sweep-2 -n team-a
    """
    raise typer.Exit(
        answers.run_each(
            "suspend",
            stops.suspend,
            jobs,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
