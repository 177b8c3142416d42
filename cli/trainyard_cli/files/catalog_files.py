"""What is wrong with one file of the catalog, before any rule is asked: its shape, its header, its example.

Called by `verify`. Reads nothing; a file is its path and its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from trainyard_api import documents, names
from trainyard_api.documents import Document, DocumentError, Position
from trainyard_api.errors import FieldPath
from trainyard_assist import validate
from trainyard_assist.offline import UnreadableError
from trainyard_platform.catalog import header as catalog_header
from trainyard_policies.engine import Violation
from trainyard_policies.lint.report import Entry
from trainyard_policies.rule import Finding, Level
from trainyard_policies.rules import well_formed

WHOLE: Final = FieldPath()
"""The file itself."""
_FILE: Final = "File"
_EXAMPLE: Final = "the TrainJob in its header"
_KINDS: Final = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "a boolean",
    "integer": "a whole number",
    "number": "a number",
    "null": "nothing",
}


def problems(path: Path, text: str, document: Document, schema: Path) -> Iterator[tuple[Position, Finding]]:
    """What is not as the catalog asks of a file that holds one document, and where.

    Args:
        path: Where it is, `<framework>/<name>.yaml` in the catalog.
        text: What it holds.
        document: The same, read.
        schema: The catalog's JSON Schema.
    """
    found = [_finding(one) for one in _validator(schema).iter_errors(_plain(document.value))]
    found = found or [*_names(path, document), *_admission([document])]
    yield from ((document.position(one.path.steps), one) for one in found)
    if found:
        return
    yield from ((Position(1, 1), Finding(WHOLE, said)) for said in _header(text))
    jobs = example(path, text)
    place = Position(jobs[0].line if jobs else 1, 1)
    named = [(one.value["kind"], one.value.get("spec", {}).get("runtimeRef", {}).get("name")) for one in jobs]
    if named != [(names.TRAINJOB, path.stem)]:
        said = f"the header must end with one TrainJob whose runtimeRef.name is {path.stem}"
        yield place, Finding(WHOLE, said)
        return
    for one in _admission([document, *jobs]):
        where = f"{one.path}: " if one.path.text else ""
        yield place, Finding(WHOLE, f"{_EXAMPLE}: {where}{one.message}")


def misplaced(
    path: Path, documents: Sequence[Document], namesakes: Sequence[Path]
) -> Iterator[tuple[Position, Finding]]:
    """Where a file does not hold what its place in the catalog says: one runtime, of its name and framework.

    Args:
        path: Where it is, `<framework>/<name>.yaml` in the catalog.
        documents: What it holds, read.
        namesakes: Other files of the catalog that have its name.
    """
    if len(documents) != 1:
        yield Position(1, 1), Finding(WHOLE, f"must hold one runtime, and holds {len(documents)}")
        return
    [document] = documents
    kind = document.value.get("kind")
    found = list(_names(path, document))
    if kind != names.CLUSTER_TRAINING_RUNTIME:
        found.append(Finding(FieldPath("kind"), f"must be {names.CLUSTER_TRAINING_RUNTIME}, and is {kind}"))
    if namesakes:
        said = f"must be of one file of the catalog: {namesakes[0]} has it too"
        found.append(Finding(FieldPath("metadata.name"), said))
    yield from ((document.position(one.path.steps), one) for one in found)


def _names(path: Path, document: Document) -> Iterator[Finding]:
    found = document.value.get("metadata")
    metadata = found if isinstance(found, Mapping) else {}
    if metadata.get("name") != path.stem:
        said = f"must be the file's name, {path.stem}, and is {metadata.get('name')}"
        yield Finding(FieldPath("metadata.name"), said)
    labels = metadata.get("labels")
    framework = labels.get(names.FRAMEWORK_LABEL) if isinstance(labels, Mapping) else None
    if framework is not None and framework != path.parent.name:
        said = f"must be the folder's name, {path.parent.name}, and is {framework}"
        yield Finding(FieldPath("metadata.labels").key(names.FRAMEWORK_LABEL), said)


def judged(source: str, position: Position, finding: Finding) -> Entry:
    """The finding about a file, which refuses it."""
    return Entry(source, position, Violation(well_formed.RULE, Level.MANDATORY, _FILE, finding))


def example(path: Path, text: str) -> tuple[Document, ...]:
    """The TrainJob in a file's header, with the place where it begins; raises `DocumentError`."""
    found = catalog_header.parse(text).example
    line = next(
        (at for at, one in enumerate(text.splitlines(), 1) if "apiVersion: trainer" in one and one[0] == "#"),
        1,
    )
    try:
        given = documents.parse("\n" * (line - 1) + found, str(path))
    except DocumentError as error:
        place = replace(error.position, column=error.position.column + len(catalog_header.INDENT))
        raise DocumentError(str(path), place, f"{_EXAMPLE}: {error.problem}") from error
    return tuple(replace(one, line=line, node=None) for one in given)


def _header(text: str) -> Iterator[str]:
    header = catalog_header.parse(text)
    if not text.startswith(f"{catalog_header.SCHEMA}\n"):
        yield f"the first line must be {catalog_header.SCHEMA!r}, for editors"
    if not header.summary.endswith("."):
        yield "the header must begin with a sentence that says what the runtime is for"
    if not header.about:
        yield "the header must say in a second paragraph for whom it is"


def _admission(given: Sequence[Document]) -> Iterator[Finding]:
    try:
        answer = validate.validate(given)
    except (UnreadableError, validate.NothingToValidateError) as error:
        yield Finding(WHOLE, str(error))
        return
    for one in answer.errors:
        yield Finding(FieldPath(one.path), str(one).removeprefix(f"{one.path}: "))


@cache
def _validator(schema: Path) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def _finding(error: ValidationError) -> Finding:
    while error.context:
        error = best_match(error.context) or error.context[0]
    path = WHOLE
    for step in error.absolute_path:
        path = path.index(step) if isinstance(step, int) else _key(path, step)
    schema, value, wanted = (cast(Any, one) for one in (error.schema, error.instance, error.validator_value))
    match error.validator:
        case "additionalProperties":
            known = list(schema.get("properties", ()))
            unknown = next(key for key in value if key not in known)
            return Finding(_key(path, unknown), f"there is no such field{_meant(unknown, known)}")
        case "required":
            missing = next(key for key in wanted if key not in value)
            unknown = [key for key in value if key not in schema["properties"]]
            return Finding(
                path, f"must have the field {missing}" + (f", not {unknown[0]}" if unknown else "")
            )
        case "const":
            return Finding(path, f"must be {wanted}, and is {value!r}")
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            return Finding(path, f"must be {' or '.join(_KINDS[kind] for kind in kinds if kind != 'null')}")
    return Finding(path, error.message)


def _meant(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _key(path: FieldPath, step: str) -> FieldPath:
    return path.key(step) if "." in step or "/" in step else path.child(step)


def _plain(value: Any) -> Any:
    """Mappings and sequences as `jsonschema` knows them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
