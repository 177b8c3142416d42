"""`trainyard render`: what a TrainJob turns into, without a cluster.

Called by `main`, which adds `command` to the application. Reads files and
prints; `trainyard_assist.render` makes the objects.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from trainyard_api import documents
from trainyard_api.errors import UserError
from trainyard_assist import offline
from trainyard_assist import render as core
from trainyard_assist.offline import DEFAULT_NAMESPACE
from trainyard_operator.core.build import info, plugins

from ..files import manifests
from ..options import DefaultNamespace, Files
from ..output import FINE


def run(
    files: Sequence[Path],
    *,
    catalog: Path | None = None,
    feature_gates: str = "",
    operator_namespace: str = info.DEFAULT_SETTINGS.operator_namespace,
    service_name: str = info.DEFAULT_SETTINGS.service_name,
    namespace: str = DEFAULT_NAMESPACE,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the child objects of the TrainJobs in `files` as YAML documents; returns the exit code.

    0: they are printed.

    Raises:
        UserError: They cannot be built (exit code 1), the files cannot be read or hold no TrainJob, or a
            feature gate is unknown; with `file:line` where there is one.
    """
    out, err = out or sys.stdout, err or sys.stderr
    gates = _feature_gates(feature_gates)
    given = list(documents.items(manifests.read(files)))
    runtimes = manifests.catalog(catalog)
    settings = info.Settings(gates, operator_namespace, service_name)
    children = core.render(given, runtimes, settings, namespace)
    out.write(documents.dump(children))
    for sentence in (*offline.generated_names(given), *offline.inside_others(given)):
        print(sentence, file=err)
    return FINE


def command(
    files: Files,
    feature_gates: Annotated[
        str, typer.Option(help="Feature gates of the operator, such as TrainJobStatus=true.")
    ] = "",
    operator_namespace: Annotated[
        str, typer.Option(help="Namespace of the operator.")
    ] = info.DEFAULT_SETTINGS.operator_namespace,
    service_name: Annotated[
        str, typer.Option(help="Name of the operator's Service.")
    ] = info.DEFAULT_SETTINGS.service_name,
    namespace: DefaultNamespace = DEFAULT_NAMESPACE,
) -> None:
    """Print what the operator would create for a TrainJob.

    Needs no cluster.
    """
    code = run(
        files,
        feature_gates=feature_gates,
        operator_namespace=operator_namespace,
        service_name=service_name,
        namespace=namespace,
    )
    raise typer.Exit(code)


def _feature_gates(text: str) -> frozenset[str]:
    """The gates that `Name=true,Other=false` turns on."""
    gates = plugins.ALL.implemented("featureGates")
    on = set()
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        if name not in gates:
            raise UserError(f"unknown feature gate {name}; known: {', '.join(sorted(gates)) or 'none'}")
        if value not in ("true", "false"):
            raise UserError(f"feature gate {name} must be true or false")
        if value == "true":
            on.add(name)
    return frozenset(on)
