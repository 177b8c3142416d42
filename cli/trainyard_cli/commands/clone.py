"""`trainyard clone`: a TrainJob once more, under another name, and with other settings.

Called by `main`, which adds `command` to the application. All else is `run`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..cluster import job_names
from ..options import Context, Kubeconfig, Namespace
from ..output import Form
from . import run
from .questions import Job

Words = Annotated[
    list[str] | None,
    typer.Argument(help="What to run on each node, after --; by default as in JOB.", metavar="COMMAND"),
]
OfRuntime = Annotated[
    str | None,
    typer.Option(help="The runtime; by default as in JOB.", autocompletion=job_names.completed_runtimes),
]
Nodes = Annotated[int | None, typer.Option(help="Number of nodes; by default as in JOB.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs of each node; by default as in JOB.")]
Cpus = Annotated[str | None, typer.Option(help="CPUs of each node, such as 8 or 500m; by default as in JOB.")]
Memory = Annotated[str | None, typer.Option(help="Memory of each node, such as 64Gi; by default as in JOB.")]
OfQueue = Annotated[
    str | None,
    typer.Option(help="LocalQueue; by default as in JOB.", autocompletion=job_names.completed_queues),
]
Priority = Annotated[str | None, typer.Option(help="Its WorkloadPriorityClass; by default as in JOB.")]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the new TrainJob; by default from the script of COMMAND, else from JOB."),
]
Image = Annotated[str | None, typer.Option(help="Image of the nodes; by default as in JOB.")]
Env = Annotated[
    list[str] | None,
    typer.Option(
        help="A variable of the nodes, in addition to those of JOB; may be repeated.", metavar="KEY=VALUE"
    ),
]
OfWorkspace = Annotated[
    str | None,
    typer.Option(
        help="Send this folder, and start the command in it; by default the folder that JOB was sent with. "
        "With --requirements, by default the current folder.",
        metavar="DIR",
    ),
]


def command(
    job: Job,
    words: Words = None,
    *,
    runtime: OfRuntime = None,
    nodes: Nodes = None,
    gpus: Gpus = None,
    cpus: Cpus = None,
    memory: Memory = None,
    queue: OfQueue = None,
    priority: Priority = None,
    name: Name = None,
    image: Image = None,
    env: Env = None,
    secret: run.Secrets = None,
    workspace: OfWorkspace = None,
    no_workspace: run.NoWorkspace = False,
    workspace_volume: run.WorkspaceVolume = None,
    requirements: run.Requirements = None,
    yes: run.Yes = False,
    dry_run: run.DryRun = False,
    detach: run.Detach = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: run.OfForm = Form.TEXT,
) -> None:
    """Send a TrainJob once more, with other settings.

    The new one has all that the old one says, with the folder that the old one was sent with, changed
    by the options, and a name of its own. As `trainyard run`, it says first what it gets and in what
    it differs, asks, and follows it. The exit code is the job's; 1: it is refused, or nobody said
    yes; 2: a setting is wrong, or the cluster could not be queried.

    Example: trainyard clone my-training --nodes 4

    Example: trainyard clone my-training --env LR=0.1 --yes
    """
    raise typer.Exit(
        run.run(
            words or (),
            {
                "runtime": runtime,
                "nodes": nodes,
                "gpus": gpus,
                "cpus": cpus,
                "memory": memory,
                "queue": queue,
                "priority": priority,
                "name": name,
                "image": image,
                "env": env,
                "secret": secret,
                "workspace": run.of_workspace(workspace, none=no_workspace),
                "workspace-volume": workspace_volume,
                "requirements": requirements,
            },
            copied=job,
            yes=yes,
            dry_run=dry_run,
            detach=detach,
            form=output,
            ask=run.ask_on_terminal(),
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
