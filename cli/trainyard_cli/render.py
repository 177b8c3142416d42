"""`trainyard render`: what a TrainJob turns into, without a cluster.

Called by `main`, which adds `command` to the application. Reads files and
prints; what the children are is `trainyard_operator.render`'s.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_api import documents
from trainyard_operator import framework, plugins
from trainyard_operator import render as core

CATALOG: Final = Path(__file__).resolve().parents[2] / "runtimes"
"""The catalog of the clone that this package runs from."""

FINE: Final = 0
REFUSED: Final = 1
CANNOT_ASK: Final = 2


class _UsageError(Exception):
    """What was asked makes no sense; said to the user as it stands."""


def run(
    files: Sequence[Path],
    *,
    catalog: Path = CATALOG,
    feature_gates: str = "",
    operator_namespace: str = framework.DEFAULT_SETTINGS.operator_namespace,
    service_name: str = framework.DEFAULT_SETTINGS.service_name,
    namespace: str = core.DEFAULT_NAMESPACE,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the child objects of the TrainJobs in `files` as YAML documents; returns the exit code.

    0: printed; 1: they cannot be built; 2: the files cannot be read, hold no
    TrainJob, or a feature gate is unknown. What is wrong goes to `err`, with
    `file:line` where there is one.
    """
    out, err = out or sys.stdout, err or sys.stderr
    try:
        gates = _feature_gates(feature_gates)
        given = _read(files)
        known = _read(sorted(catalog.rglob("*.yaml")))
        settings = framework.Settings(gates, operator_namespace, service_name)
        children = core.render(given, known, settings, namespace)
    except (_UsageError, documents.DocumentError, core.NothingToRenderError) as error:
        print(error, file=err)
        return CANNOT_ASK
    except core.RenderError as error:
        print(error, file=err)
        return REFUSED
    out.write(documents.dump(children))
    return FINE


def command(
    files: Annotated[
        list[Path], typer.Option("--file", "-f", help="A file with TrainJobs or runtimes; may be repeated.")
    ],
    feature_gates: Annotated[
        str, typer.Option(help="Feature gates of the operator, such as TrainJobStatus=true.")
    ] = "",
    operator_namespace: Annotated[
        str, typer.Option(help="Namespace of the operator.")
    ] = framework.DEFAULT_SETTINGS.operator_namespace,
    service_name: Annotated[
        str, typer.Option(help="Name of the operator's Service.")
    ] = framework.DEFAULT_SETTINGS.service_name,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.")
    ] = core.DEFAULT_NAMESPACE,
) -> None:
    """Print the objects that the operator would create for a TrainJob, without a cluster."""
    code = run(
        files,
        feature_gates=feature_gates,
        operator_namespace=operator_namespace,
        service_name=service_name,
        namespace=namespace,
    )
    raise typer.Exit(code)


def _read(files: Iterable[Path]) -> list[documents.Document]:
    found: list[documents.Document] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise _UsageError(f"{file}:1: not UTF-8") from error
        except OSError as error:
            raise _UsageError(f"{file}:1: {error.strerror}") from error
        found += documents.parse(text, str(file))
    return found


def _feature_gates(text: str) -> frozenset[str]:
    """The gates that `Name=true,Other=false` turns on."""
    known = framework.implemented("featureGates", plugins.ALL)
    on = set()
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        if name not in known:
            raise _UsageError(f"unknown feature gate {name}; known: {', '.join(sorted(known)) or 'none'}")
        if value not in ("true", "false"):
            raise _UsageError(f"feature gate {name} must be true or false")
        if value == "true":
            on.add(name)
    return frozenset(on)
