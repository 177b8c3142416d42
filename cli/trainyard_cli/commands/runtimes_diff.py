"""`trainyard runtimes diff`: what a change of the catalog changes, before the roll-out.

Called by `runtimes`, which names this module. Queries the cluster or git and
prints; `trainyard_platform.catalog.changes` finds the differences.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import msgspec
import typer

from trainyard_api import names, places
from trainyard_api.json_types import Json
from trainyard_api.places import Site
from trainyard_assist import offline
from trainyard_kube.client import Client, NotFoundError
from trainyard_kube.resources import CLUSTER_TRAINING_RUNTIMES
from trainyard_platform.catalog import changes as catalog_changes
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog.changes import ABSENT, Change, Kind
from trainyard_platform.errors import PlatformError

from ..cluster import connection
from ..files import stackfile
from ..files.git import at_revision
from ..options import Context, Kubeconfig, Printed
from ..output import FINE, REFUSED, Output, write_json
from .questions import query
from .runtimes import Stack, names_of, of_stack, one_of

_MARKS: Final = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~"}
_OF_TOOLS: Final = ("pulumi.com/", "kubectl.kubernetes.io/")
"""Annotations that a tool leaves on what it applies."""


@dataclass(frozen=True)
class Comparison:
    """Two catalogs, and the runtimes that are in the cluster but not in the catalog."""

    before: Mapping[str, Json]
    after: Mapping[str, Json]
    others: tuple[str, ...] = ()


def run(
    runtimes: Sequence[str] = (),
    *,
    since: str | None = None,
    until: str | None = None,
    stack: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    site: Site | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what differs; returns the exit code.

    0: nothing; 1: something.

    Raises:
        UserError: There is no such runtime, or the cluster or git could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    site = site or (places.site() if since or stack else places.site_or_shipped())
    if since is not None:
        comparison = Comparison(_at(since, site), _at(until, site) if until else _forms(of_stack(site)))
    else:
        credentials = connection.of_stack(stackfile.cluster_of(stack), kubeconfig, context)
        expected = _forms(_expected(site, stack))
        comparison = query(credentials, "runtimes", lambda client: compared(client, expected))
    everything = dict.fromkeys(sorted({*comparison.before, *comparison.after}))
    for name in runtimes:
        one_of(name, everything)
    changes = [
        c
        for c in catalog_changes.between(comparison.before, comparison.after)
        if c.runtime in runtimes or not runtimes
    ]
    if output is Output.JSON:
        fields = [asdict(change) for change in changes]
        write_json({"changes": fields, "others": list(comparison.others)}, out)
    else:
        out.writelines(_lines(changes))
        if comparison.others:
            print(f"In the cluster, but not in this catalog: {', '.join(comparison.others)}", file=err)
        if not changes:
            print("Nothing differs.", file=err)
    return REFUSED if changes else FINE


def command(
    runtimes: Annotated[
        list[str] | None,
        typer.Argument(help="Only these runtimes.", metavar="[NAME]...", autocompletion=names_of),
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", help="Compare with this revision in git, not with the cluster.", metavar="REF"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--to", help="With --from: this revision; by default the files as they are.", metavar="REF"
        ),
    ] = None,
    stack: Stack = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Show what a change of the catalog changes.

    Compares the cluster with the catalog, or two revisions of the catalog. A running TrainJob
    keeps the runtime that it started with. Exit code 0: nothing differs; 1: something does; 2:
    the cluster or git could not be queried.

    Example: trainyard runtimes diff --stack prod

    Example: trainyard runtimes diff --from origin/main torch-distributed
    """
    if until is not None and since is None:
        raise typer.BadParameter("needs --from.", param_hint="--to")
    if since is not None and (stack, kubeconfig, context) != (None, None, None):
        raise typer.BadParameter("compares files: no stack and no cluster.", param_hint="--from")
    raise typer.Exit(
        run(
            runtimes or (),
            since=since,
            until=until,
            stack=stack,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )


def _expected(site: Site, stack: str | None) -> Sequence[catalog.Runtime]:
    """The expected runtimes of a cluster: those of the stack, or of a stack without overlays."""
    return of_stack(site, stack) if stack else catalog.load(site.runtimes, {}, beneath=site.beneath)


def _at(revision: str, site: Site) -> dict[str, Json]:
    """The catalog of a revision."""
    with tempfile.TemporaryDirectory(prefix="trainyard-") as target:
        [copy] = at_revision(revision, [site.runtimes], Path(target))
        if not copy.is_dir():
            return {}
        try:
            return _forms(catalog.every(copy, site.beneath))
        except PlatformError as error:
            raise PlatformError(f"at {revision}: {str(error).replace(f'{copy}/', '')}") from error


async def compared(client: Client, expected: Mapping[str, Json]) -> Comparison:
    """The runtimes in the cluster, and those of the stack; raises `PlatformError` without their CRD."""
    there: dict[str, Json] = {}
    try:
        async for page in client.list(CLUSTER_TRAINING_RUNTIMES.path()):
            for item in page.items or ():
                runtime = msgspec.json.decode(item)
                there[runtime["metadata"]["name"]] = _form(runtime)
    except NotFoundError as error:
        raise PlatformError(
            f"the cluster knows no {names.CLUSTER_TRAINING_RUNTIME}: Trainer's CRDs are not installed. If it "
            "is the right cluster, roll the stack out: make up STACK=NAME"
        ) from error
    others = tuple(name for name in there if name not in expected)
    return Comparison({name: form for name, form in there.items() if name in expected}, expected, others)


def _forms(runtimes: Sequence[catalog.Runtime]) -> dict[str, Json]:
    return {runtime.name: _form(runtime.manifest) for runtime in runtimes}


def _form(manifest: Json) -> Json:
    """The comparable part of a runtime: without what a cluster or the tool that applies it adds."""
    metadata = manifest["metadata"]
    labels = {k: v for k, v in metadata.get("labels", {}).items() if k != names.WEBHOOK_VALIDATION_LABEL}
    annotations = {
        k: v for k, v in (metadata.get("annotations") or {}).items() if not k.startswith(_OF_TOOLS)
    }
    spec = offline.with_runtime_defaults(manifest)["spec"]
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _lines(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        yield f"{_MARKS[change.kind]} {change.runtime}\n"
        for field in change.fields:
            before, after = (_value(side) for side in (field.before, field.after))
            yield f"    {field.path}: {before} -> {after}\n"


def _value(value: Any) -> str:
    return "(none)" if value is ABSENT else json.dumps(value)
