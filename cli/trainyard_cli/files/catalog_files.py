"""Errors in one file of the catalog: its runtime, its header, its example.

Called by `lint` and `verify`. Reads nothing; a file is its path and its text.
`trainyard_platform.catalog.judge` decides about the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trainyard_api import documents, names
from trainyard_api.documents import Document, DocumentError, Position
from trainyard_api.errors import FieldPath
from trainyard_assist import validate
from trainyard_assist.offline import UnreadableError
from trainyard_platform.catalog import header as catalog_header
from trainyard_platform.catalog import judge
from trainyard_policies.engine import Violation
from trainyard_policies.lint.report import Entry
from trainyard_policies.rule import Finding, Level
from trainyard_policies.rules import well_formed

WHOLE: Final = FieldPath()
"""The file itself."""
FILE: Final = "File"
"""The subject of a finding about a whole file."""
_EXAMPLE: Final = "the TrainJob in its header"


def problems(
    path: Path, text: str, documents: Sequence[Document], namesakes: Sequence[Path] = ()
) -> Iterator[tuple[Position, Finding]]:
    """An error in a file, with its place.

    Args:
        path: Where it is, `<framework>/<name>.yaml` in the catalog.
        text: What it holds.
        documents: The same, read.
        namesakes: Other files of the catalog that have its name.
    """
    findings = list(_placed(judge.findings, path, documents, namesakes))
    yield from findings
    if findings:
        return
    yield from ((Position(1, 1), Finding(WHOLE, message)) for message in _header(text))
    jobs = example(path, text)
    place = Position(jobs[0].line if jobs else 1, 1)
    named = [(job.value["kind"], job.value.get("spec", {}).get("runtimeRef", {}).get("name")) for job in jobs]
    if named != [(names.TRAINJOB, path.stem)]:
        message = f"the header must end with one TrainJob whose runtimeRef.name is {path.stem}"
        yield place, Finding(WHOLE, message)
        return
    [runtime] = documents
    refused = list(_admission([runtime]))
    yield from ((runtime.position(finding.path.steps), finding) for finding in refused)
    for finding in () if refused else _admission([runtime, *jobs]):
        where = f"{finding.path}: " if finding.path.text else ""
        yield place, Finding(WHOLE, f"{_EXAMPLE}: {where}{finding.message}")


def misplaced(
    path: Path, documents: Sequence[Document], namesakes: Sequence[Path]
) -> Iterator[tuple[Position, Finding]]:
    """Where a file does not hold what its place in the catalog says, for a caller that checks the rules too.

    Arguments as `problems` has them.
    """
    yield from _placed(judge.place, path, documents, namesakes)


def _placed(
    ask: Callable[[Path, Mapping[str, Any], str], Iterable[Finding]],
    path: Path,
    documents: Sequence[Document],
    namesakes: Sequence[Path],
) -> Iterator[tuple[Position, Finding]]:
    if len(documents) != 1:
        yield Position(1, 1), Finding(WHOLE, f"must hold one runtime, and holds {len(documents)}")
        return
    [document] = documents
    namesake = str(namesakes[0]) if namesakes else ""
    yield from (
        (document.position(finding.path.steps), finding) for finding in ask(path, document.value, namesake)
    )


def judged(source: str, position: Position, finding: Finding) -> Entry:
    """The finding about a file, which refuses it."""
    return Entry(source, position, Violation(well_formed.RULE, Level.MANDATORY, FILE, finding))


def example(path: Path, text: str) -> tuple[Document, ...]:
    """The TrainJob in a file's header, with the place where it begins; raises `DocumentError`."""
    trainjob = catalog_header.parse(text).example
    lines = enumerate(text.splitlines(), 1)
    line = next(
        (at for at, content in lines if "apiVersion: trainer" in content and content[0] == "#"),
        1,
    )
    try:
        given = documents.parse("\n" * (line - 1) + trainjob, str(path))
    except DocumentError as error:
        place = replace(error.position, column=error.position.column + len(catalog_header.INDENT))
        raise DocumentError(str(path), place, f"{_EXAMPLE}: {error.problem}") from error
    return tuple(replace(document, line=line, node=None) for document in given)


def _header(text: str) -> Iterator[str]:
    header = catalog_header.parse(text)
    if not text.startswith(f"{catalog_header.SCHEMA}\n"):
        yield f"the first line must be {catalog_header.SCHEMA!r}, for editors"
    if not header.summary.endswith("."):
        yield "the header must begin with a sentence that says what the runtime is for"
    if not header.about:
        yield "the header must say in a second paragraph who it is for"


def _admission(given: Sequence[Document]) -> Iterator[Finding]:
    try:
        answer = validate.validate(given)
    except (UnreadableError, validate.NothingToValidateError) as error:
        yield Finding(WHOLE, str(error))
        return
    for problem in answer.errors:
        yield Finding(FieldPath(problem.path), str(problem).removeprefix(f"{problem.path}: "))
