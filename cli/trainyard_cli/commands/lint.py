"""`trainyard lint`: the policy rules over files, for pull requests.

Called by `main`, which adds `command` to the application. Reads files, writes
them with --fix, and prints; `trainyard_policies` decides what is wrong.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO

import typer

from trainyard_api import names, similar
from trainyard_api.documents import Document, DocumentError, parse
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog import installed as stack_runtimes
from trainyard_platform.catalog.images import Images
from trainyard_platform.errors import PlatformError
from trainyard_platform.settings import StackSettings
from trainyard_policies import rules
from trainyard_policies.lint import files as found
from trainyard_policies.lint import formats, repair, report
from trainyard_policies.lint.files import CannotLintError
from trainyard_policies.lint.report import Entry
from trainyard_policies.settings import DEFAULT, Policies

from ..answers import CANNOT_ASK, FINE, REFUSED
from ..files import catalog_files, stackfile
from ..files.manifests import CATALOG
from ..files.stackfile import PROJECT, STACKS


class Format(StrEnum):
    """How a report is printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    GITLAB = "gitlab"


def run(
    paths: Sequence[Path],
    *,
    since: str | None = None,
    style: Format = Format.TEXT,
    fix: bool = False,
    stack: str | None = None,
    today: date | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what the rules say about the manifests in `paths`; returns the exit code.

    0: nothing mandatory; 1: something mandatory; 2: a file, the stack or git
    could not be read, which goes to `err` with `file:line`; the others are
    still checked.
    """
    out, err = out or sys.stdout, err or sys.stderr
    today = today or date.today()
    try:
        settings = stackfile.read(stack, STACKS) if stack else None
        pins = Images(catalog_images.load(CATALOG))
        chosen = found.find(paths or [near(CATALOG)])
        if since is not None:
            chosen = found.changed(chosen, since)
    except (CannotLintError, PlatformError) as error:
        print(error, file=err)
        return CANNOT_ASK
    policies = DEFAULT if settings is None else _policies(settings)
    documents: list[Document] = []
    misplaced: list[Entry] = []
    unreadable = 0
    for path in chosen:
        try:
            held = _read(path, today, policies, err if fix else None)
        except (CannotLintError, DocumentError) as error:
            print(error, file=err)
            unreadable += 1
            continue
        documents += held
        if _is_catalogs(path):
            misplaced += _misplaced(path, held)
    if settings is None:
        documents = [_pinned(one, pins) for one in documents]
    else:
        documents, wrong = _of_stack(documents, settings, pins)
        for problem in wrong:
            print(problem, file=err)
        unreadable += len(wrong)
    result = report.of(documents, today, policies, _deprecated(documents)).with_entries(misplaced)
    out.write(formats.FORMATS[style](result, root()))
    print(formats.summary(result), file=err)
    if unreadable:
        return CANNOT_ASK
    return REFUSED if result.refuses else FINE


def explain(rule: str, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Describe a rule; returns the exit code, 2 if there is none of that name."""
    out, err = out or sys.stdout, err or sys.stderr
    if rule not in rules.BY_ID:
        hint = similar.hint(rule, rules.BY_ID)
        print(f"there is no rule {rule} (there are: {', '.join(rules.BY_ID)}){hint}", file=err)
        return CANNOT_ASK
    out.write(formats.explanation(rules.BY_ID[rule]))
    return FINE


def command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files and folders; the catalog if left out.", metavar="[PATH]..."),
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(help="Only files that have changed since this branch left REF.", metavar="REF"),
    ] = None,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TEXT,
    fix: Annotated[bool, typer.Option("--fix", help="Repair the files where only one fix is right.")] = False,
    stack: Annotated[
        str | None,
        typer.Option(help="As stacks/Pulumi.NAME.yaml installs them, with its levels.", metavar="NAME"),
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--explain", help="Explain one rule in full.", metavar="RULE")
    ] = None,
) -> None:
    """Check runtimes and TrainJobs against the policy rules, without a cluster."""
    if rule is not None:
        raise typer.Exit(explain(rule))
    raise typer.Exit(run(paths or [], since=since, style=style, fix=fix, stack=stack))


def _policies(settings: StackSettings) -> Policies:
    return settings.policies.with_pools(settings.node_pools)


def _of_stack(
    documents: Sequence[Document], settings: StackSettings, pins: Images
) -> tuple[list[Document], list[PlatformError]]:
    """The documents as the stack installs them, without those that it leaves out; and what it cannot install.

    Those of the catalog get the stack's overlays, images, storage and
    accelerators; a finding still has its place in the file. A document that
    is not a runtime stays unchanged: the rules say more about it.
    """
    found, wrong = [], []
    images = replace(pins, registry=Artifacts(settings.artifacts, PROJECT).registry)
    for document in documents:
        path = Path(document.source)
        if not _is_catalogs(path):
            found += [] if _left_out(document, settings) else [_pinned(document, pins)]
            continue
        try:
            runtime = catalog.read(path)
        except PlatformError:
            found.append(document)
            continue
        try:
            installed = stack_runtimes.one(runtime, settings, images)
        except PlatformError as error:
            wrong.append(error)
            continue
        if installed is not None:
            found.append(replace(document, value=installed.manifest))
    return found, wrong


def _is_catalogs(path: Path) -> bool:
    return path.resolve().parent.parent == CATALOG.resolve()


def _misplaced(path: Path, documents: Sequence[Document]) -> Iterator[Entry]:
    """What is wrong with the place of a file in the catalog."""
    folders = path.resolve().parent.parent
    namesakes = [near(one) for one in sorted(folders.glob(f"*/{path.name}")) if one != path.resolve()]
    for position, finding in catalog_files.misplaced(path.resolve(), documents, namesakes):
        yield catalog_files.judged(str(path), position, finding)


def _left_out(document: Document, settings: StackSettings) -> bool:
    """Whether it is a runtime that the stack does not install."""
    kind, name = _identity(document)
    if kind != names.CLUSTER_TRAINING_RUNTIME or not isinstance(document.value.get("metadata"), Mapping):
        return False
    return not catalog.installed(document.value, settings.runtimes.get(name))


def _pinned(document: Document, pins: Images) -> Document:
    """The document as it is installed: a runtime's images with the digests that the catalog knows."""
    if _identity(document)[0] != names.CLUSTER_TRAINING_RUNTIME:
        return document
    value = copy.deepcopy(dict(document.value))
    try:
        catalog_images.apply(value, pins)
    except (AttributeError, KeyError, TypeError):
        return document  # which the rules say more about
    return replace(document, value=value)


def _deprecated(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The deprecated runtimes of the catalog that are not among the documents."""
    given = {_identity(document) for document in documents}
    read = {Path(document.source).resolve() for document in documents}
    going_away = []
    for path in sorted(set(CATALOG.glob("*/*.yaml")) - read):
        try:
            [document] = parse(found.read(path), str(path))
        except (CannotLintError, DocumentError, ValueError):
            continue  # one that is broken is no reason not to lint others
        metadata = document.value.get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
        going = isinstance(labels, Mapping) and labels.get(names.SUPPORT_LABEL) == names.SUPPORT_DEPRECATED
        if going and _identity(document) not in given:
            going_away.append(document)
    return tuple(going_away)


def _identity(document: Document) -> tuple[str, str]:
    metadata = document.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return str(document.value.get("kind")), str(name)


def _read(path: Path, today: date, policies: Policies, fixing: TextIO | None) -> Sequence[Document]:
    text = found.read(path)
    given = parse(text, str(path))
    for document in given:
        report.require_known(document)
    if fixing is None:
        return given
    text, made = repair.repaired(text, str(path), today, policies)
    if not made:
        return given
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise CannotLintError(f"{path}: cannot be written: {error.strerror}") from error
    for one in made:
        print(f"{path}:{one.line}: {one.edit} [{one.rule}]", file=fixing)
    return parse(text, str(path))


def near(path: Path) -> Path:
    """The path, relative to the current folder if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def root() -> Path:
    """The folder that paths for other programs start from: the repository, or the current folder."""
    try:
        return found.root()
    except CannotLintError:
        return Path.cwd()
