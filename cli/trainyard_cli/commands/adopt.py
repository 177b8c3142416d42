"""`trainyard adopt`: take a cluster over from Kubeflow Trainer's controller, or give it back.

Called by `main`, which adds `command` to the application. Prints;
`trainyard_assist.adopt` decides what to do, and `cluster.adopt` does it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import names, places
from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist import adopt
from trainyard_assist.adopt.model import NAMESPACE, Level
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import CredentialsError

from ..cluster import connection
from ..cluster.adopt import carry_out, observe
from ..options import Context, Kubeconfig, Printed, same_place
from ..output import FINE, REFUSED, Output, write_json

API_VERSION: Final = "adopt.trainyard.dev/v1alpha1"
_MARKS: Final = {Level.FINE: "ok", Level.NOTE: "--", Level.STOP: "!!"}


def run(
    *,
    yes: bool = False,
    back: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    trainer_namespace: str = NAMESPACE,
    operator_namespace: str = names.SYSTEM_NAMESPACE,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the cluster, its state and the steps, and carry these out with `yes`; returns the exit code.

    0: it can be done, or is done; 1: something must be fixed first.

    Raises:
        UserError: The cluster could not be queried, or refused a step.
    """
    out, err = out or sys.stdout, err or sys.stderr
    done: list[adopt.Step] = []
    given = (
        ("--trainer-namespace", trainer_namespace, NAMESPACE),
        ("--operator-namespace", operator_namespace, names.SYSTEM_NAMESPACE),
    )
    namespaces = [word for option, value, default in given if value != default for word in (option, value)]
    itself = shlex.join(["trainyard", "adopt", *same_place(None, kubeconfig, context), *namespaces])

    async def carried_out(client: Client) -> adopt.Plan:
        runtimes = sorted(path.stem for path in places.site_or_shipped().catalog)
        observed = await observe(
            client,
            runtimes,
            trainer_namespace=trainer_namespace,
            operator_namespace=operator_namespace,
        )
        plan = (adopt.give_back if back else adopt.adopt)(observed, itself)
        if output is Output.TEXT:
            out.write(_lines(_found(plan)))
        for step in plan.steps if yes and not plan.refused else ():
            print(f"{step} ...", file=err)
            note = await carry_out(client, step)
            if note is None:
                done.append(step)
            else:
                print(clean(_checked(note)), file=err)
                plan = replace(plan, checks=(*plan.checks, note))
        return plan

    try:
        credentials = connection.load(kubeconfig, context)
        if output is Output.TEXT:
            print(clean(f"{credentials.server} ({credentials.source})"), file=out, flush=True)
        plan = connection.ask(credentials, "adopt", carried_out)
    except (CredentialsError, ApiError, TimeoutError) as error:
        why = "a Deployment takes too long; see its pods" if isinstance(error, TimeoutError) else str(error)
        again = "; the steps so far are done, and the same command continues from there" if yes else ""
        raise UserError(clean(f"{why}{again}")) from error
    if output is Output.JSON:
        write_json(document(plan, done), out)
    else:
        out.write(_lines(_outcome(plan, done, itself)))
    return REFUSED if plan.refused else FINE


def document(plan: adopt.Plan, done: Sequence[adopt.Step]) -> dict[str, Any]:
    """The plan as JSON values, in the format that docs/adopt.md describes."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Takeover",
        "back": plan.back,
        "refused": plan.refused,
        "checks": [asdict(check) for check in plan.checks],
        "trainJobs": [asdict(fate) for fate in plan.fates],
        "steps": [
            {"action": type(step).__name__, "text": str(step), "done": step in done} for step in plan.steps
        ],
        "next": list(plan.next_steps),
    }


def _found(plan: adopt.Plan) -> Iterator[str]:
    for check in plan.checks:
        yield _checked(check)
    if plan.fates:
        yield ""
        yield f"TrainJobs: {len(plan.fates)}"
        width = max(len(f"{fate.namespace}/{fate.name}") for fate in plan.fates)
        for fate in plan.fates:
            name = f"{fate.namespace}/{fate.name}"
            yield f"{_MARKS[fate.level]}  {name:<{width}} {fate.state:<10} {fate.becomes}"
    if plan.steps:
        yield ""
        yield "Steps:"
        yield from (f"{number:>3}. {step}" for number, step in enumerate(plan.steps, 1))


def _checked(check: adopt.Check) -> str:
    return f"{_MARKS[check.level]}  {check.about:<13} {check.message}"


def _outcome(plan: adopt.Plan, done: Sequence[adopt.Step], itself: str) -> Iterator[str]:
    yield ""
    if plan.refused:
        yield "Nothing has been changed: fix what is marked !! first."
        return
    if plan.steps and not done:
        yield f"Nothing has been changed. To do it: {itself}{' --back' if plan.back else ''} --yes"
        return
    yield "Trainer's controller works again." if plan.back else "Trainer is no longer in the way."
    if plan.next_steps:
        yield "Next:"
        yield from (f"  {step}" for step in plan.next_steps)


def _lines(lines: Iterator[str]) -> str:
    return "".join(f"{clean(line)}\n" for line in lines)


def command(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Apply the steps. Otherwise nothing changes.")] = False,
    back: Annotated[
        bool, typer.Option("--back", help="Give the cluster back to Trainer's controller.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    trainer_namespace: Annotated[str, typer.Option(help="Namespace of Trainer's controller.")] = NAMESPACE,
    operator_namespace: Annotated[
        str, typer.Option(help="Namespace of Trainyard's operator.")
    ] = names.SYSTEM_NAMESPACE,
    output: Printed = Output.TEXT,
) -> None:
    """Take a cluster over from Kubeflow Trainer's own controller.

    Prints what it finds, what happens to each TrainJob, and the steps; --yes
    carries them out. No pod is touched. Afterwards, run pulumi up.

    Exit code 0: it can be done, or is done; 1: something must be fixed first;
    2: the cluster could not be queried, or refused a step.
    """
    raise typer.Exit(
        run(
            yes=yes,
            back=back,
            kubeconfig=kubeconfig,
            context=context,
            trainer_namespace=trainer_namespace,
            operator_namespace=operator_namespace,
            output=output,
        )
    )
