"""`trainyard seff`: what a TrainJob asks for against what it uses, of each rank and of all.

Called by `main`, which adds `command` to the application. Prints; `cluster.seff`
reads the cluster, and `trainyard_assist.seff` makes figures and advice of it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

import typer

from trainyard_api import names
from trainyard_api.printable import clean
from trainyard_api.shown import listed
from trainyard_assist import jobs, read, seff
from trainyard_assist.seff import Amount, Amounts, Kind, Rank

from ..cluster import connection
from ..cluster.seff import Seen, look
from ..options import Context, JobNamespace, Kubeconfig, Printed
from ..output import FINE, REFUSED, Output, fitted, width_of, write_json
from .questions import Job, query, require_names

API_VERSION: Final = "seff.trainyard.dev/v1alpha1"
_RANK: Final = "RANK"
_COLUMNS: Final = {Kind.CPU: "CPU", Kind.MEMORY: "MEMORY", Kind.GPUS: "GPUS"}
_LAST_TO_GO: Final = (_RANK, "MEMORY", "CPU", "GPUS")
"""The columns by importance: on a narrow terminal the last are left out first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The output about a TrainJob."""

    row: jobs.Row
    ranks: Sequence[Rank]
    advice: Sequence[str]
    unmeasured: Sequence[str]
    """Sentences that say of whom or of what nobody knows what it uses."""


def run(
    job: str,
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what the TrainJob asks for and what it uses; returns the exit code.

    0: it is printed; 1: nobody measures it.

    Raises:
        UserError: There is no such TrainJob, or the cluster could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(job, namespace)
    credentials = connection.load_or_sandbox(kubeconfig, context)
    within = namespace or credentials.namespace
    seen = query(credentials, "seff", lambda client: look(client, within, job))
    answer = answer_of(seen)
    if output is Output.JSON:
        write_json(document(answer), out)
    else:
        width = width_of(out)
        out.writelines(f"{line}\n" for line in table(answer.ranks, width))
        out.writelines(f"{clean(sentence)}\n" for sentence in answer.advice)
        for sentence in answer.unmeasured:
            print(clean(sentence), file=err)
    return FINE if any(rank.is_measured for rank in answer.ranks) else REFUSED


def answer_of(seen: Seen) -> Answer:
    """The figures and the sentences for what was seen."""
    row = jobs.row(seen.trainjob)
    ranks = seff.ranks(seen.pods, seen.metrics, seen.jobset, seen.now)
    return Answer(row, ranks, seff.advice(ranks), tuple(_unmeasured(seen, row, ranks)))


def _unmeasured(seen: Seen, row: jobs.Row, ranks: Sequence[Rank]) -> Iterator[str]:
    who = f"TrainJob {row.namespace}/{row.name} is {row.state}"
    place = (row.name, "-n", row.namespace, *seen.options)
    missing = [rank.label for rank in ranks if not rank.is_measured]
    if row.is_over:
        end = next((c for kind in jobs.ENDED if (c := read.condition(seen.trainjob, kind)) is not None), None)
        message = read.text(end, "message")
        how = f" ({clean(message, 300)})" if message else ""
        yield f"{who}{how}: what it used was measured only while it ran, and nothing has recorded it."
    elif seen.unmeasured:
        yield f"What it uses is not known: {seen.unmeasured}."
    elif not any(rank.pod for rank in ranks):
        yield f"{who}, and has no pods yet. See why: {shlex.join(['trainyard', 'explain', *place])}"
    elif missing:
        yield f"Not measured: {listed(missing)}. That begins up to a minute after a pod starts."
    if not row.is_over and any(rank.amounts.get(Kind.GPUS, Amount()).requested for rank in ranks):
        ask = shlex.join(["trainyard", "exec", *place, "--", "nvidia-smi"])
        yield f"{names.METRICS_GROUP} does not measure GPUs. Ask a rank that runs: {ask}"


def document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON values."""
    row = answer.row
    return {
        "apiVersion": API_VERSION,
        "kind": "Efficiency",
        "trainJob": {"namespace": row.namespace, "name": row.name},
        "state": row.state,
        "ranks": [
            {"rank": rank.label, "pod": rank.pod or None, **_values(rank.amounts)} for rank in answer.ranks
        ],
        "total": _values(seff.total(answer.ranks)),
        "advice": [clean(sentence) for sentence in answer.advice],
        "unmeasured": [clean(sentence) for sentence in answer.unmeasured],
    }


def _values(amounts: Amounts) -> dict[str, Any]:
    return {kind.value: _value(amounts.get(kind, Amount())) for kind in Kind}


def _value(amount: Amount) -> dict[str, Any]:
    return {"requested": amount.requested, "used": amount.used, "percent": amount.percent}


def table(ranks: Sequence[Rank], width: int | None) -> list[str]:
    """The lines of the table: all columns, or as many as fit into so many characters; none without ranks."""
    rows = [{_RANK: rank.label, **_cells(rank.amounts)} for rank in ranks]
    if len(rows) > 1:
        rows.append({_RANK: "all", **_cells(seff.total(ranks))})
    columns = [column for column in (_RANK, *_COLUMNS.values()) if any(row[column] for row in rows)]
    filled = [{column: row[column] for column in columns} for row in rows]
    return fitted(filled, _LAST_TO_GO, width) if filled else []


def _cells(amounts: Amounts) -> Mapping[str, str]:
    return {column: _cell(kind, amounts.get(kind, Amount())) for kind, column in _COLUMNS.items()}


def _cell(kind: Kind, amount: Amount) -> str:
    """`3.9/16 24%`: used, requested, and the percentage."""
    if amount.requested is None and amount.used is None:
        return ""
    used = "?" if amount.used is None else seff.shown(kind, amount.used)
    requested = "-" if amount.requested is None else seff.shown(kind, amount.requested)
    return f"{used}/{requested}" + ("" if amount.percent is None else f" {amount.percent}%")


def command(
    job: Job,
    *,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Compare what a TrainJob uses with what it requests.

    Of each rank and of all: used/requested and the percentage, at this moment, where the cluster
    measures pods (metrics.k8s.io). Uses your own rights, and changes nothing. Exit code 1: nobody
    measures it; 2: the cluster could not be queried.

    Example: trainyard seff my-training

    Example: trainyard seff my-training -n team-a -o json
    """
    raise typer.Exit(run(job, namespace=namespace, kubeconfig=kubeconfig, context=context, output=output))
