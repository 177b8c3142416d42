"""`trainyard validate`: what admission would answer, without a cluster.

Called by `main`, which adds `command` to the application. Reads files and
prints; the answer comes from `trainyard_assist.validate`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

import typer

from trainyard_api import documents
from trainyard_assist import offline
from trainyard_assist import validate as core
from trainyard_assist.offline import DEFAULT_NAMESPACE

from ..files import manifests
from ..options import DefaultNamespace, Files
from ..output import FINE, REFUSED, write_json

_NOT_TRIED: Final = (
    "Not tried: the schemas and rules, what Kubernetes and JobSet say in a dry run, queues and quotas. To "
    "check the schemas and the rules of a stack:"
)


def run(
    files: Sequence[Path],
    *,
    catalog: Path | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what admission would answer about the objects in `files`, as JSON; returns the exit code.

    0: it would admit them; 1: it would not. If it would, `err` says what was
    not tried.

    Raises:
        UserError: The files cannot be read or hold nothing to validate; with `file:line`.
    """
    out, err = out or sys.stdout, err or sys.stderr
    given = list(documents.items(manifests.read(files)))
    answer = core.validate(given, manifests.catalog(catalog), namespace)
    errors = [{"field": e.path, "type": e.type.value, "message": str(e)} for e in answer.errors]
    write_json({"warnings": list(answer.warnings), "errors": errors}, out)
    for sentence in (*offline.generated_names(given), *offline.inside_others(given)):
        print(sentence, file=err)
    if not errors:
        print(f"{_NOT_TRIED} trainyard lint --stack NAME {' '.join(map(str, files))}", file=err)
    return REFUSED if errors else FINE


def command(
    files: Files,
    namespace: DefaultNamespace = DEFAULT_NAMESPACE,
) -> None:
    """Print whether admission would accept a TrainJob or runtime.

    Needs no cluster. `trainyard lint --stack` checks the rules of a stack, and `trainyard
    verify` all that a site keeps in git. Of two TrainJobs in a file, the second is the old
    object of an update.
    """
    raise typer.Exit(run(files, namespace=namespace))
