"""`trainyard explain`: why a TrainJob does not run.

Called by `main`, which adds `command` to the application. Prints; `observe`
reads the cluster, and `trainyard_assist.explain` decides what follows from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import names
from trainyard_assist.explain import Diagnosis, State, explain
from trainyard_kube.client import Client, NotFoundError
from trainyard_operator.core.decide.last_lines import Kept

from ..cluster import connection, job_names, last_lines
from ..cluster.observe import observe
from ..options import Context, JobNamespace, Kubeconfig, OperatorNamespace, Printed
from ..output import FINE, REFUSED, Output, write_json
from . import explain_logs
from .questions import Job, query, require_names

API_VERSION: Final = "explain.trainyard.dev/v1alpha1"
_MARKS: Final = {"fine": "ok", "held": "!!", "unseen": "??", "absent": "--"}


def run(
    job: str,
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    operator_namespace: str = names.SYSTEM_NAMESPACE,
    output: Output = Output.TEXT,
    logs: bool = False,
    out: TextIO | None = None,
) -> int:
    """Print why the TrainJob does not run; returns the exit code.

    0: nothing is wrong; 1: something holds it up, or it has failed. With
    `logs`, what is kept of the last failed attempt's logs is printed too.

    Raises:
        UserError: The cluster could not be queried, or has no such TrainJob.
    """
    out = out or sys.stdout
    require_names(job, namespace)
    credentials = connection.load_or_sandbox(kubeconfig, context)
    where = namespace or credentials.namespace
    diagnosis, kept = query(
        credentials, "explain", lambda client: _diagnose(client, where, job, operator_namespace, logs=logs)
    )
    if output is Output.JSON:
        write_json(document(diagnosis, kept), out)
    else:
        out.write(as_text(diagnosis, kept))
    return FINE if diagnosis.state in (State.COMPLETE, State.RUNNING, State.STARTING) else REFUSED


async def _diagnose(
    client: Client, namespace: str, job: str, operator_namespace: str, *, logs: bool
) -> tuple[Diagnosis, Kept | str | None]:
    try:
        observation = await observe(client, namespace, job, operator_namespace)
    except NotFoundError as error:
        raise await job_names.not_found(client, namespace, job, error) from error
    lines = await last_lines.kept(client, observation.trainjob) if logs else None
    return explain(observation), lines


def as_text(diagnosis: Diagnosis, kept: Kept | str | None = None) -> str:
    """The answer first, then its object and next step, the walk, what could not be seen, and the logs.

    `kept` is what is kept of its logs, or why nothing is; None if nobody asked.
    """
    lines = [*_lines(diagnosis), *(() if kept is None else ("", *explain_logs.lines(kept)))]
    return "".join(f"{line}\n" for line in lines)


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield diagnosis.answer
    if finding := diagnosis.finding:
        yield f"Cause:      {finding.object}"
        yield f"Next step:  {finding.next_step}"
        if finding.log:
            yield "Last lines of its log:"
            yield from (f"  | {line}" for line in finding.log)
    yield ""
    yield from (f"{_MARKS[stage.mark]}  {stage.stage:<9} {stage.text}" for stage in diagnosis.walk)
    if diagnosis.unseen:
        yield ""
        yield from (f"Could not see the {unseen.what}: {unseen.why}" for unseen in diagnosis.unseen)


def document(diagnosis: Diagnosis, kept: Kept | str | None = None) -> dict[str, Any]:
    """The diagnosis as JSON values, in the format that docs/explain.md describes; `kept` as in `as_text`."""
    finding = diagnosis.finding
    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "trainJob": {"namespace": diagnosis.trainjob.namespace, "name": diagnosis.trainjob.name},
        "state": diagnosis.state.value,
        "answer": diagnosis.answer,
        "finding": None
        if finding is None
        else {
            "cause": finding.cause.value,
            "object": asdict(finding.object),
            "message": finding.message,
            "nextStep": finding.next_step,
            "ranks": list(finding.ranks),
            "log": list(finding.log),
        },
        "walk": [asdict(stage) for stage in diagnosis.walk],
        "unseen": [asdict(unseen) for unseen in diagnosis.unseen],
        **({} if kept is None else {"lastLines": explain_logs.document(kept)}),
    }


def command(
    job: Job,
    *,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    operator_namespace: OperatorNamespace = names.SYSTEM_NAMESPACE,
    output: Printed = Output.TEXT,
    logs: Annotated[
        bool,
        typer.Option("--logs", help="Also print the last lines of each node of the last failed attempt."),
    ] = False,
) -> None:
    """Show why a TrainJob does not run, and the next step.

    Uses your own rights, changes nothing, and says what it was not allowed to
    see. Without any kubeconfig it looks at this site's sandbox. Exit code 0:
    nothing is wrong; 1: something holds the job up, or it has failed; 2: the
    cluster could not be queried.

    Example: trainyard explain my-training -n team-a
    """
    raise typer.Exit(
        run(
            job,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            operator_namespace=operator_namespace,
            output=output,
            logs=logs,
        )
    )
