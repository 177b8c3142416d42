"""`trainyard clone`: a TrainJob once more, under another name, and with other settings.

Called by `main`, which adds `command` to the application. All else is `run`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..cluster import job_names
from ..options import Context, Kubeconfig
from ..output import Form
from . import run


def command(
    job: Annotated[
        str,
        typer.Argument(help="Name of the TrainJob.", metavar="JOB", autocompletion=job_names.completed),
    ],
    words: run.Words = None,
    *,
    runtime: run.OfRuntime = None,
    nodes: run.Nodes = None,
    gpus: run.Gpus = None,
    cpus: run.Cpus = None,
    memory: run.Memory = None,
    queue: run.OfQueue = None,
    priority: run.Priority = None,
    name: run.Name = None,
    image: run.Image = None,
    env: run.Env = None,
    secret: run.Secrets = None,
    workspace: run.OfWorkspace = None,
    no_workspace: run.NoWorkspace = False,
    workspace_volume: run.WorkspaceVolume = None,
    requirements: run.Requirements = None,
    yes: run.Yes = False,
    dry_run: run.DryRun = False,
    detach: run.Detach = False,
    namespace: run.Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: run.OfForm = Form.TEXT,
) -> None:
    """Send a TrainJob once more, with other settings.

    The new one has all that the old one says, with its folder, changed by the options, and a name of
    its own. As `trainyard run`, it says first what it gets and in what it differs, asks, and follows
    it. The exit code is the job's; 1: it is refused, or nobody said yes; 2: a setting is wrong, or
    the cluster could not be queried.

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
