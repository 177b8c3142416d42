"""Options that several commands share, with the same help."""

import os
from pathlib import Path
from typing import Annotated

import typer

from .output import Output


def same_place(namespace: str | None, kubeconfig: str | None, context: str | None) -> list[str]:
    """The options that lead another command to the same place."""
    # A shell does not read the ~ of a quoted path, nor that of --kubeconfig=~/config.
    file = None if kubeconfig is None else os.path.expanduser(kubeconfig)
    given = (("-n", namespace), ("--kubeconfig", file), ("--context", context))
    return [word for option, value in given if value is not None for word in (option, value)]


Kubeconfig = Annotated[
    str | None, typer.Option(help="Kubeconfig file; by default KUBECONFIG or ~/.kube/config.")
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; by default its current one.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace; by default that of the context.")
]
JobNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the TrainJob; by default that of the context."),
]
OperatorNamespace = Annotated[str, typer.Option(help="Namespace of the operator and its Lease.")]
Rank = Annotated[
    str | None,
    typer.Option(help="Rank: its number, or its name such as launcher-0; by default 0.", metavar="N"),
]
OnlyRank = Annotated[
    str | None,
    typer.Option(help="Only this rank: its number, or its name such as launcher-0.", metavar="N"),
]
Grep = Annotated[str, typer.Option(help="Only lines with this text.", metavar="TEXT")]
OnStack = Annotated[
    str | None, typer.Option("--stack", help="The cluster of stacks/Pulumi.NAME.yaml.", metavar="NAME")
]
StackName = Annotated[str, typer.Option("--stack", help="The stack.", metavar="NAME")]
StackOfCluster = Annotated[
    str, typer.Option("--stack", help="The stack that the cluster belongs to.", metavar="NAME")
]
Since = Annotated[str, typer.Option(help="What has changed since this branch left REF.", metavar="REF")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", envvar="VERBOSE", help="Print Pulumi's own output instead."),
]
Printed = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]
Files = Annotated[
    list[Path], typer.Option("--file", "-f", help="A file with TrainJobs or runtimes; may be repeated.")
]
DefaultNamespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.")
]
Replace = Annotated[
    list[str] | None,
    typer.Option(
        help="Objects with jobs or quotas that may be replaced: Kind/name or "
        "Kind/namespace/name, separated by spaces, or all. A stack that moves to another cluster: "
        "cluster.context, cluster.kubeconfig or both.",
        metavar="OBJECT",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Objects that --repair does not change: Kind/name or Kind/namespace/name, separated by spaces.",
        metavar="OBJECT",
    ),
]
