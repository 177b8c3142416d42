"""`trainyard cancel`: end TrainJobs, after saying what they lose.

Called by `main`, which adds `command` to the application. Asks and prints;
`cluster.stops` writes, and `trainyard_assist.stops` says what is lost.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TextIO

import typer

from trainyard_assist import stops as core
from trainyard_assist.stops import Answer

from ..cluster import connection, stops
from ..confirmation import confirmed
from ..options import Context, Kubeconfig, Printed, same_place
from ..output import REFUSED, Output
from . import answers

VERB: Final = "cancel"


def run(
    jobs: Sequence[str],
    *,
    ask: Callable[[str], bool],
    suspend: bool = False,
    yes: bool = False,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Say what the TrainJobs lose, ask, and delete them; returns the exit code.

    0: they are cancelled, or have ended or gone before; 1: nobody has said yes, or one is refused; 2: one
    could not be queried.

    Args:
        jobs: Their names.
        ask: Gets a question, and returns whether to continue.
        suspend: Suspend them, and delete none.
        yes: Do not ask.
        namespace: Their namespace; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        output: How to print the answers.
        out: Where the answers go.
        err: Where everything else goes.

    Raises:
        UserError: A name is none, or nobody answers.
    """
    names = answers.checked(jobs, namespace)
    credentials = connection.load(kubeconfig, context)
    printer = answers.Printer(VERB, output, out, err)
    seen = []
    for job in answers.look(credentials, VERB, names, namespace):
        refusal = core.not_suspended if suspend else core.not_cancelled
        answer = job if isinstance(job, Answer) else refusal(job)
        if answer is not None:
            printer.show(answer)
        elif not isinstance(job, Answer):
            printer.tell(core.loss(job, kept=suspend))
            seen.append(job)
    verb = "Suspend" if suspend else "Cancel"
    which = f"TrainJob {seen[0].namespace}/{seen[0].name}" if len(seen) == 1 else f"{len(seen)} TrainJobs"
    if seen and not yes and not ask(f"{verb} {which}?"):
        place = same_place(seen[0].namespace, kubeconfig, context)
        again = shlex.join(["trainyard", VERB, *names, *place, *["--suspend"] * suspend, "--yes"])
        printer.tell(f"Nothing has been changed. To do it without confirmation: {again}")
        return max(REFUSED, printer.end())
    return answers.act(credentials, VERB, seen, stops.suspend if suspend else stops.cancel, printer)


def command(
    jobs: answers.Jobs,
    *,
    suspend: Annotated[
        bool, typer.Option("--suspend", help="Suspend the TrainJobs instead of deleting them.")
    ] = False,
    yes: answers.Yes = False,
    namespace: answers.Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Delete TrainJobs, after showing what they lose.

    A TrainJob that is cancelled is deleted with its pods, and with its volume if it has one. One that
    has ended stays as it is. Exit code 1: nobody has said yes, or one is refused; 2: one could not be
    queried.

    Example: trainyard cancel my-training

    Example: trainyard cancel sweep-1 sweep-2 --suspend --yes
    """
    raise typer.Exit(
        run(
            jobs,
            ask=confirmed,
            suspend=suspend,
            yes=yes,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
