"""`trainyard drift`: whether the cluster matches git, including fields that others have added.

Called by `main`, which adds `command` to the application. Renders the stack,
queries the cluster (`drift_judge`) and prints.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import shown
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_delivery import pulumi_state
from trainyard_delivery.drift import expected, writers
from trainyard_delivery.drift.comparison import Row
from trainyard_delivery.drift.differences import ABSENT
from trainyard_delivery.drift.verdicts import Ref, State, Verdict, exit_code, kept
from trainyard_kube.client import Client
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.drift import Drift

from ..cluster import connection, drift_unmanaged, moves
from ..cluster.drift_judge import judge, put_right
from ..cluster.drift_unmanaged import Beside
from ..files import basis, rendering, stackfile, whole
from ..options import Context, Keep, Kubeconfig, Printed, StackOfCluster
from ..output import Output, write_json
from .questions import query

API_VERSION: Final = "drift.trainyard.dev/v1alpha1"
_LEGEND: Final = (
    "+ only in the cluster, - only in git, ~ differs; by: the client that wrote it, as it names itself"
)
_NEXT: Final = (
    "Git has none of these. Delete those that should not exist; list the others in drift.known of the stack"
)
_LONGEST: Final = 120
"""Characters of a value that is shown."""
_MOST: Final = 10
"""Objects that could not be judged and are listed; if none can be judged, there are hundreds."""


def run(
    stack: str,
    *,
    repair: bool = False,
    keep: Sequence[str] = (),
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    state: Callable[[], Json] | None = None,
    metrics: Path | None = None,
    now: Callable[[], float] = time.time,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print where a stack's objects differ from git; returns the exit code.

    With `repair` it then repairs them, except the objects that `keep` names.
    What git says is rendered, or is in the `state` of a roll-out that has just ended. Nothing is repaired if
    that has changed once there are differences to repair: another roll-out has written the objects.
    `metrics` is a file that then has the answer as Prometheus reads it, with the time that `now` returns.
    0: there is no drift. 1: there is. 2: an object could not be judged, or a kind not be listed; the reason
    goes to `out`. With `repair` only the objects of the stack count.

    Raises:
        UserError: None could be judged, the `state` has changed, that of the last roll-out cannot be read
            before a repair, or names another cluster, or `metrics` cannot be written.
    """
    out, err = out or sys.stdout, err or sys.stderr

    def tell(verdicts: Sequence[Verdict], beside: Beside) -> None:
        if output is Output.TEXT:
            out.write(as_text(document(stack, verdicts, beside)))
            out.flush()
        number = sum(verdict.state is State.DIFFERENT for verdict in verdicts)
        if number and state is not None and basis.of_state(state()) != basis.of_state(exported):
            raise UserError(
                f"Nothing has been repaired: Pulumi's state of {stack} has changed since this roll-out, by "
                "one of somebody else, whose changes would be undone. To see what differs then: trainyard "
                f"drift --stack {stack}"
            )
        if number:
            print(f"Repairing {number} of them ...", file=err)

    settings = stackfile.read_as_pulumi(stack)  # reports mistakes without Pulumi's words around them
    credentials = connection.of_stack(settings.cluster, kubeconfig, context)
    exported = state() if state is not None else _rendered(stack, err)
    if repair:
        rolled_out = exported if state is not None else rendering.rolled_out(stack)
        moves.expected(pulumi_state.identity(rolled_out), credentials, "drift", err)
    manifests = expected.objects(exported)
    staying = named(keep, map(Ref.of, manifests))
    print(f"Comparing {len(manifests)} objects with the cluster ...", file=err)
    verdicts, beside = query(
        credentials,
        "drift",
        lambda client: _judged(client, manifests, settings.drift, staying, tell if repair else None),
    )
    value = document(stack, verdicts, beside)
    if metrics is not None:
        _write(metrics, as_metrics(value, now()))
    if output is Output.JSON:
        write_json(value, out)
    elif not repair:
        out.write(as_text(value))
    elif any(verdict.state is not State.SAME for verdict in verdicts):
        out.write(_printed(_outcome(value)))
    # A roll-out cannot repair what git does not have.
    return exit_code(verdicts) if repair else exit_code(verdicts, beside.unmanaged, beside.unseen)


def _rendered(stack: str, err: TextIO) -> Json:
    print(f"Rendering the stack {stack} ...", file=err)
    with TemporaryDirectory() as folder:
        return rendering.state(stack, stackfile.file_of(stack), Path(folder))


def document(stack: str, verdicts: Sequence[Verdict], beside: Beside) -> dict[str, Any]:
    """The answer as JSON values, in the format that docs/drift.md describes; by kind, namespace and name."""
    findings = [verdict for verdict in verdicts if verdict.state is not State.SAME]
    return {
        "apiVersion": API_VERSION,
        "kind": "Drift",
        "stack": stack,
        "objects": dict(sorted(Counter(verdict.state.value for verdict in verdicts).items())),
        "findings": [
            {
                "apiVersion": verdict.ref.api_version,
                "kind": verdict.ref.kind,
                "namespace": verdict.ref.namespace,
                "name": verdict.ref.name,
                "state": verdict.state.value,
                "why": verdict.why,
                "fields": [_field(row) for row in verdict.rows],
            }
            for verdict in sorted(findings, key=lambda verdict: verdict.ref[1:])
        ],
        "unmanaged": [
            {
                "apiVersion": unmanaged.ref.api_version,
                "kind": unmanaged.ref.kind,
                "namespace": unmanaged.ref.namespace,
                "name": unmanaged.ref.name,
                "why": unmanaged.why,
            }
            for unmanaged in beside.unmanaged
        ],
        "unseen": [{"what": what, "why": why} for what, why in sorted(beside.unseen.items())],
    }


def as_metrics(value: Json, now: float) -> str:
    """The answer in Prometheus' text format, for a Pushgateway or a node exporter's folder of text files."""
    well = {State.SAME, State.REPAIRED, State.KEPT}
    objects = sum(count for state, count in value["objects"].items() if state not in well)
    objects += len(value["unmanaged"]) + len(value["unseen"])
    stack = value["stack"]
    return (
        "# HELP trainyard_drift_objects Objects of a stack that are not what git says, or cannot be judged\n"
        "# TYPE trainyard_drift_objects gauge\n"
        f'trainyard_drift_objects{{stack="{stack}"}} {objects}\n'
        "# HELP trainyard_drift_checked_timestamp_seconds When that was seen, in seconds since 1970\n"
        "# TYPE trainyard_drift_checked_timestamp_seconds gauge\n"
        f'trainyard_drift_checked_timestamp_seconds{{stack="{stack}"}} {now:.0f}\n'
    )


def _write(file: Path, text: str) -> None:
    try:
        whole.write(file, text)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}. Name another file") from error


def _field(row: Row) -> dict[str, Any]:
    values = {
        name: value for name, value in (("git", row.git), ("there", row.cluster)) if value is not ABSENT
    }
    writer = row.writer
    by = (
        None
        if writer is None
        else {"manager": writer.manager, "operation": writer.operation, "at": writer.at}
    )
    return {"path": row.path, **values, "writer": by}


def as_text(value: Json) -> str:
    """The answer for people."""
    return _printed(_lines(value))


def _printed(lines: Iterable[str]) -> str:
    return "".join(f"{clean(line)}\n" for line in lines)


def _lines(value: Json) -> Iterator[str]:
    yield from _beside(value)
    if not value["findings"]:
        yield f"{value['stack']}: all {sum(value['objects'].values())} objects match git"
        return
    judged = [finding for finding in value["findings"] if finding["state"] != State.UNJUDGED]
    unjudged = [finding for finding in value["findings"] if finding["state"] == State.UNJUDGED]
    for finding in judged:
        yield _heading(finding)
        for field in finding["fields"]:
            yield f"  {_change(field)}{_by(field['writer'])}"
        yield ""
    for finding in unjudged[:_MOST]:
        yield _heading(finding)
    if unjudged[_MOST:]:
        yield f"and {len(unjudged) - _MOST} more that are not judged: --output json has them all"
    if unjudged:
        yield ""
    if any(finding["fields"] for finding in judged):
        yield _LEGEND
    yield _counted(value)


def _beside(value: Json) -> Iterator[str]:
    """Foreign objects that affect the stack."""
    for unmanaged in value["unmanaged"]:
        yield f"{_name(unmanaged)}: unmanaged, {unmanaged['why']}"
    if value["unmanaged"]:
        yield _NEXT
        yield ""
    for unseen in value["unseen"]:
        yield f"Could not see whether any {unseen['what']} affects the stack: {unseen['why']}"
    if value["unseen"]:
        yield ""


def _outcome(value: Json) -> Iterator[str]:
    """The outcome of a repair, after the answer itself has been printed."""
    yield ""
    yield from map(_heading, value["findings"])
    yield _counted(value)


def _counted(value: Json) -> str:
    states = value["objects"]
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{value['stack']}, of {sum(states.values())} objects: {counted}"


def _heading(finding: Json) -> str:
    return f"{_name(finding)}: {finding['state']}" + (f", {finding['why']}" if finding["why"] else "")


def _name(ref: Json) -> str:
    return f"{ref['kind']} " + (f"{ref['namespace']}/{ref['name']}" if ref["namespace"] else ref["name"])


def _change(field: Json) -> str:
    if "there" not in field:
        return f"- {field['path']}: {shown.cut(_text(field['git']), _LONGEST)}"
    if "git" not in field:
        return f"+ {field['path']}: {shown.cut(_text(field['there']), _LONGEST)}"
    git, there = shown.apart(_text(field["git"]), _text(field["there"]), _LONGEST)
    return f"~ {field['path']}: {git} in git, {there} in the cluster"


def _by(writer: Mapping[str, str] | None) -> str:
    if writer is None:
        return ""
    at = f", {writer['at']}" if writer["at"] else ""
    return f" (by {writer['manager'] or 'a client without a name'}{at})"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def named(keep: Sequence[str], refs: Iterable[Ref]) -> frozenset[str]:
    """The keys of the objects to keep; each argument may name several.

    Args:
        keep: The arguments.
        refs: All objects of the stack.

    Raises:
        PlatformError: The stack has no such object.
    """
    keys = frozenset(key for argument in keep for key in argument.split())
    if unknown := sorted(keys - {ref.key for ref in refs}):
        raise PlatformError(
            f"--keep {unknown[0]}: the stack has no such object; use Kind/name or Kind/namespace/name"
        )
    return keys


async def _judged(
    client: Client,
    manifests: Sequence[Json],
    settings: Drift,
    keep: frozenset[str],
    tell: Callable[[Sequence[Verdict], Beside], None] | None,
) -> tuple[list[Verdict], Beside]:
    """The verdicts, and foreign objects in the cluster; repairs after `tell`, and only with it."""
    await client.get("/version")  # an unreachable cluster is reported once, not for each object
    verdicts = [
        kept(verdict) if verdict.ref.key in keep else verdict
        for verdict in await judge(client, manifests, writers.table())
    ]
    beside = await drift_unmanaged.look(client, manifests, settings)
    if tell is not None:
        tell(verdicts, beside)
        verdicts = [verdict async for verdict in put_right(client, manifests, verdicts, writers.table())]
    return verdicts, beside


def command(
    stack: StackOfCluster,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the cluster match git. Without --repair, nothing changes.")
    ] = False,
    keep: Keep = None,
    metrics: Annotated[
        Path | None,
        typer.Option(help="Also write how many objects differ, as Prometheus reads it.", metavar="FILE"),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Show where the cluster differs from git, and who changed it.

    Compares field by field: replaces each object in a dry run with its manifest in git, which needs the
    rights of a rollout. What others may write, such as an autoscaler or a controller of
    certificates, is not drift. --repair prints the differences first and then restores what is in git: it
    removes fields that others have added. Objects that git does not have and that
    give rights into what it has are reported, never removed. Exit code 1: there is drift. Exit
    code 2: some objects, or all, could not be judged.

    Example: trainyard drift --stack prod
    """
    raise typer.Exit(
        run(
            stack,
            repair=repair,
            keep=keep or (),
            metrics=metrics,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
