"""`trainyard migrate`: turns jobs of older APIs into TrainJobs, without a cluster.

Called by `main`, which adds `command` to the application. Reads files, and
prints or writes the results, which `trainyard_assist.migrate` makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import documents, names
from trainyard_api.documents import Document
from trainyard_api.errors import UserError
from trainyard_assist.migrate import convert
from trainyard_assist.migrate.convert import Outcome
from trainyard_assist.offline import DEFAULT_NAMESPACE

from ..files import manifests, whole
from ..options import DefaultNamespace
from ..output import FINE, REFUSED, write_json

STDIN: Final = Path("-")


class Output(StrEnum):
    """How the answer is printed."""

    YAML = "yaml"
    JSON = "json"


def run(
    files: Sequence[Path],
    *,
    output: Output = Output.YAML,
    output_dir: Path | None = None,
    catalog: Path | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    finished: bool = False,
    stdin: TextIO | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what the jobs in `files` turn into, or write it to `output_dir`; returns the exit code.

    0: everything is carried over; 1: something is not, which the notes say.

    Raises:
        UserError: The files cannot be read or hold nothing to migrate, or a file that would be written
            exists; with `file:line`.
    """
    out, err = out or sys.stdout, err or sys.stderr
    texts = (_piped(stdin or sys.stdin) if file == STDIN else manifests.read([file]) for file in files)
    given = [document for text in texts for document in text]
    outcomes = convert.migrate(given, manifests.catalog(catalog), namespace, ended=finished)
    if output_dir is not None:
        _write(outcomes, files, output_dir)
    if output is Output.JSON:
        write_json(_report(outcomes), out)
    else:
        if output_dir is None:
            out.write(_text(outcomes))
        for outcome in outcomes:
            for note in outcome.notes:
                print(note, file=err)
    if own := sorted(_runtimes(outcomes)):
        print(f"Data scientists may not create TrainingRuntimes: {', '.join(own)}.", file=err)
        print("Have the platform team create them, or add them to the catalog.", file=err)
    return FINE if all(outcome.complete for outcome in outcomes) else REFUSED


def command(
    files: Annotated[list[Path], typer.Argument(help="Files with jobs; - is the standard input.")],
    output: Annotated[
        Output, typer.Option("--output", "-o", help="YAML with the notes as comments, or everything as JSON.")
    ] = Output.YAML,
    output_dir: Annotated[
        Path | None,
        typer.Option(help="Folder to write to: a file for each input, with its name; overwrites none."),
    ] = None,
    namespace: DefaultNamespace = DEFAULT_NAMESPACE,
    finished: Annotated[bool, typer.Option("--finished", help="Also migrate jobs that have ended.")] = False,
) -> None:
    """Turn jobs of older APIs into TrainJobs.

    Makes a TrainingRuntime where the catalog has none that fits.

    Accepts PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob, TrainJobs of Kubeflow Trainer 2.0 to
    2.2, and those of kubeflow.org/v2alpha1. Reports with its place whatever is not carried over. Everything
    else in the files passes through unchanged. Of an export of a cluster, jobs that have ended are left out.

    Example: kubectl get pytorchjobs -A -o yaml | trainyard migrate - > trainjobs.yaml

    Exit codes: 0 all is carried over; 1 something is not; 2 the files could not be read or written.
    """
    raise typer.Exit(run(files, output=output, output_dir=output_dir, namespace=namespace, finished=finished))


def _piped(stdin: TextIO) -> Sequence[Document]:
    try:
        return documents.parse(stdin.read(), "stdin")
    except UnicodeDecodeError as error:
        raise UserError("stdin:1: not UTF-8") from error


def _text(outcomes: Iterable[Outcome]) -> str:
    """YAML documents, each after the notes about its source."""
    parts = []
    for outcome in outcomes:
        comments = "".join(f"# {note}\n" for note in outcome.notes)
        first, *others = outcome.objects or (None,)
        parts.append(comments + ("" if first is None else documents.dump([first])))
        parts += [documents.dump([value]) for value in others]
    return "---\n".join(parts)


def _write(outcomes: Sequence[Outcome], files: Sequence[Path], folder: Path) -> None:
    """Write one file for each source, with its name; raises `UserError` before writing anything."""
    sources = {"stdin" if file == STDIN else str(file): file for file in files}
    targets: dict[Path, str] = {}
    for source, file in sources.items():
        target = folder / ("stdin.yaml" if file == STDIN else file.name)
        if target in targets:
            raise UserError(f"{source}: would be written to {target}, like {targets[target]}")
        if target.exists():
            raise UserError(f"{target}: exists, and is not overwritten")
        targets[target] = source
    place = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place, source in targets.items():
            whole.write(place, _text(one for one in outcomes if one.source == source))
    except OSError as error:
        raise UserError(f"{place}: {error.strerror}") from error


def _runtimes(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Names of the new TrainingRuntimes."""
    for outcome in outcomes:
        for value in outcome.objects[:-1]:  # a TrainJob comes after the runtime that was made for it
            if value.get("kind") == names.TRAINING_RUNTIME:
                yield str(value["metadata"]["name"])


def _report(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    every = list(outcomes)
    notes = [
        {"level": n.level.value, "file": n.source, "line": n.line, "field": n.path, "message": n.message}
        for outcome in every
        for n in outcome.notes
    ]
    return {"objects": [value for outcome in every for value in outcome.objects], "notes": notes}
