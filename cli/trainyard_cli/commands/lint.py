"""`trainyard lint`: the policy rules over files, for pull requests.

Called by `main`, which adds `command` to the application. Reads files, writes
them with --fix, and prints; `trainyard_policies` decides what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_api import names, places, similar
from trainyard_api.documents import Document, DocumentError, items, parse
from trainyard_api.errors import UserError
from trainyard_api.json_types import copied
from trainyard_api.places import Site
from trainyard_assist.offline import inside_others
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog import judge as catalog_judge
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.catalog.images import Images
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import CONFIG_KEY, StackSettings
from trainyard_policies import engine, rules
from trainyard_policies.engine import Said, Violation
from trainyard_policies.lint import files as linted
from trainyard_policies.lint import formats, repair, report
from trainyard_policies.lint.files import CannotLintError
from trainyard_policies.lint.report import Entry, Report
from trainyard_policies.settings import DEFAULT, Policies

from ..files import catalog_files, causes, git, stackfile, whole
from ..files.git import GitError
from ..files.installs import NotInstalledError
from ..output import CANNOT_ASK, FINE, REFUSED, near


class Format(StrEnum):
    """How a report is printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    GITLAB = "gitlab"


_AS_GIVEN: Final = (Format.TEXT, Format.JSON)
"""The formats with paths as they were given."""


def run(
    paths: Sequence[Path],
    *,
    since: str | None = None,
    style: Format = Format.TEXT,
    fix: bool = False,
    stack: str | None = None,
    site: Site | None = None,
    today: date | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what the rules say about the manifests in `paths`; returns the exit code.

    0: nothing mandatory; 1: something mandatory; 2: a file could not be read,
    which goes to `err` with `file:line`; the others are still checked.

    Raises:
        UserError: The stack or git could not be read.
    """
    out, err = out or sys.stdout, err or sys.stderr
    today = today or date.today()
    site = site or (places.site_or_shipped() if paths and not stack else places.site())
    chosen = linted.find(paths or [near(site.runtimes)])
    gate: _Gate = _Gate(today, Images(catalog_images.load(site.runtimes, site.beneath)), site)
    if stack:
        gate = _of_stack(stack, chosen, since, gate)
    if since is not None:
        chosen = git.changed(chosen, since)
    documents: dict[Path, Sequence[Document]] = {}
    problems: list[UserError] = []
    for path in chosen:
        try:
            documents[path] = _read(path, linted.read(path))
        except (CannotLintError, DocumentError) as error:
            problems.append(error)
    if fix:
        for path, repaired in _fixed(documents, gate, err):
            if isinstance(repaired, UserError):
                problems.append(repaired)
                del documents[path]
            else:
                documents[path] = repaired
    given = [document for held in documents.values() for document in held]
    for sentence in inside_others(given):
        print(sentence, file=err)
    result, wrong = gate.report(given)
    misplaced = [
        entry for path, held in documents.items() if gate.has(path) for entry in _misplaced(path, held)
    ]
    result = result.with_entries(misplaced)
    for problem in (*problems, *wrong):
        print(problem.shown, file=err)
    out.write(printed(result, style))
    print(formats.summary(result), file=err)
    if problems or wrong:
        return CANNOT_ASK
    return REFUSED if result.refuses else FINE


def explain(rule: str, out: TextIO | None = None) -> int:
    """Describe a rule; returns the exit code. Raises `UserError` if there is none of that name."""
    out = out or sys.stdout
    if rule not in rules.BY_ID:
        hint = similar.hint(rule, rules.BY_ID)
        raise UserError(f"there is no rule {rule} (there are: {', '.join(rules.BY_ID)}){hint}")
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
    """Check runtimes and TrainJobs against the policy rules.

    Needs no cluster.
    """
    if rule is not None:
        raise typer.Exit(explain(rule))
    raise typer.Exit(run(paths or [], since=since, style=style, fix=fix, stack=stack))


@dataclass(frozen=True)
class _Gate:
    """The rules for documents: as shipped, or with a stack's settings."""

    today: date
    pins: Images
    site: Site

    def has(self, path: Path) -> bool:
        """Whether the file is one of the site's part of the catalog."""
        return path.resolve().parent.parent == self.site.runtimes.resolve()

    @property
    def policies(self) -> Policies:
        """The levels and parameters."""
        return DEFAULT

    def installed(self, document: Document) -> Document | None:
        """The document as it is installed; None if it is not."""
        return _pinned(document, self.pins)

    def report(self, given: Sequence[Document]) -> tuple[Report, list[PlatformError]]:
        """The rules' findings about the documents, and errors of installation."""
        documents, wrong = [], []
        for document in given:
            try:
                installed = self.installed(document)
            except PlatformError as error:
                wrong.append(error)
                continue
            documents += [] if installed is None else [installed]
        return report.of(
            documents, self.today, self.policies, _deprecated(documents, self.site.catalog)
        ), wrong

    def repairs(self, document: Document) -> Iterable[Violation]:
        """The repairs of a document."""
        return engine.check(document.value, self.today, self.policies)


@dataclass(frozen=True)
class _StackGate(_Gate):
    """As a stack installs documents of the catalog, with what it causes told at its own file.

    They get its overlays, images, storage and accelerators; a finding still
    has its place in the file. A document that is not a runtime stays
    unchanged: the rules say more about it.
    """

    name: str
    settings: StackSettings
    touched: Collection[str]
    """The files that the change touches."""
    before: StackSettings | None
    its_own: Collection[tuple[str, Said]] = frozenset()
    """Findings that the stack causes, by file."""

    @property
    def policies(self) -> Policies:
        return self.settings.rules

    def installed(self, document: Document) -> Document | None:
        return self._under(self.settings, document)

    def report(self, given: Sequence[Document]) -> tuple[Report, list[PlatformError]]:
        result, wrong = super().report(given)
        own, of_the_stack = self._placed(result.entries, given)
        return replace(result, entries=()).with_entries([*own, *of_the_stack]), wrong

    def repairs(self, document: Document) -> Iterable[Violation]:
        edits = {violation.said: violation.finding.edits for violation in super().repairs(document)}
        try:
            installed = self.installed(document)
        except PlatformError:
            return
        violations = () if installed is None else engine.check(installed.value, self.today, self.policies)
        entries = [Entry(document.source, document.position(()), violation) for violation in violations]
        for entry in self._placed(entries, [document])[0]:
            violation = entry.violation
            is_own = (entry.source, violation.said) not in self.its_own
            own_edits = edits.get(violation.said, ()) if is_own else ()
            yield replace(violation, finding=replace(violation.finding, edits=own_edits))

    def caused(self, given: Sequence[Document]) -> set[tuple[str, Said]]:
        """Findings that the stack causes, by file."""
        entries = super().report(given)[0].entries
        own = {id(entry) for entry in self._placed(entries, given)[0]}
        return {(entry.source, entry.violation.said) for entry in entries if id(entry) not in own}

    def _placed(self, entries: Sequence[Entry], given: Sequence[Document]) -> tuple[list[Entry], list[Entry]]:
        by_source = {document.source: document for document in given}

        def judge(source: str, other: StackSettings) -> Collection[Said]:
            installed = self._under(other, by_source[source])
            if installed is None:
                raise NotInstalledError(source)
            return {violation.said for violation in engine.check(installed.value, self.today, self.policies)}

        stack = causes.Stack(
            self.settings,
            str(_stack_file(self.site, self.name)),
            line=lambda place: stackfile.line(_stack_file(self.site, self.name), f"{CONFIG_KEY}.{place}"),
            judge=judge,
            touched=self.touched,
            before=self.before,
        )
        others = [entry for entry in entries if not self.has(Path(entry.source))]
        runtimes = [entry for entry in entries if self.has(Path(entry.source))]
        own, of_the_stack = causes.placed(runtimes, stack)
        return [*others, *own], of_the_stack

    def _under(self, settings: StackSettings, document: Document) -> Document | None:
        path = Path(document.source)
        if not self.has(path):
            return None if _left_out(document, settings) else _pinned(document, self.pins)
        if any(catalog_judge.findings(path, document.value)):
            return document
        runtime = Runtime(name=path.stem, framework=path.parent.name, manifest=dict(document.value))
        images = replace(self.pins, registry=stackfile.artifacts(settings).registry)
        installed = stack_runtimes.adapt(runtime, settings, images)
        return None if installed is None else replace(document, value=installed.manifest)


def _of_stack(name: str, chosen: Sequence[Path], since: str | None, gate: _Gate) -> _StackGate:
    """The gate as a stack has it; raises `GitError` or `PlatformError` if git or it cannot be read."""
    site = gate.site
    settings = stackfile.read(name, site.stacks)
    if since is None:
        return _StackGate(gate.today, gate.pins, site, name, settings, (), None)
    touched = map(str, git.touched([*chosen, _stack_file(site, name)], since))
    before = stackfile.earlier([name], since, site.stacks).get(name)
    return _StackGate(gate.today, gate.pins, site, name, settings, frozenset(touched), before)


def _stack_file(site: Site, name: str) -> Path:
    return near(site.stacks / places.stack_file(name))


def _fixed(
    documents: Mapping[Path, Sequence[Document]], gate: _Gate, out: TextIO
) -> list[tuple[Path, Sequence[Document] | UserError]]:
    """Files that were repaired, with what they hold now, or with why they could not be."""
    if isinstance(gate, _StackGate):
        every = [document for held in documents.values() for document in held]
        gate = replace(gate, its_own=frozenset(gate.caused(every)))
    results: list[tuple[Path, Sequence[Document] | UserError]] = []
    for path in documents:
        try:
            text, made = repair.repaired(linted.read(path), str(path), gate.repairs)
            if made:
                _write(path, text)
                results.append((path, parse(text, str(path))))
        except (CannotLintError, DocumentError) as error:
            results.append((path, error))
            continue
        for change in made:
            print(f"{path}:{change.line}: {change.edit} [{change.rule}]", file=out)
    return results


def _misplaced(path: Path, documents: Sequence[Document]) -> Iterator[Entry]:
    """Errors in a file's place in the catalog."""
    folders = path.resolve().parent.parent
    namesakes = [near(other) for other in sorted(folders.glob(f"*/{path.name}")) if other != path.resolve()]
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
    value = copied(dict(document.value))
    try:
        catalog_images.apply(value, pins)
    except (AttributeError, KeyError, TypeError):
        return document  # which the rules say more about
    return replace(document, value=value)


def _deprecated(documents: Sequence[Document], catalog: Sequence[Path]) -> tuple[Document, ...]:
    """The deprecated runtimes of the catalog that are not among the documents."""
    given = {_identity(document) for document in documents}
    read = {Path(document.source).resolve() for document in documents}
    going_away = []
    for path in (path for path in catalog if path not in read):
        try:
            text = linted.read(path)
            if names.SUPPORT_LABEL not in text:
                continue  # most of them: to parse them all takes longer than to lint a file
            [document] = parse(text, str(path))
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


def _read(path: Path, text: str) -> Sequence[Document]:
    given = tuple(items(parse(text, str(path))))
    for document in given:
        report.require_known(document)
    return given


def _write(path: Path, text: str) -> None:
    file = path.resolve()  # a link stays one
    try:
        whole.write(file, text, like=file.stat())
    except OSError as error:
        raise CannotLintError(f"{path}: cannot be written: {error.strerror}") from error


def printed(result: Report, style: Format) -> str:
    """The report in this format; runs git only where other programs read the paths."""
    return formats.FORMATS[style](result, Path() if style in _AS_GIVEN else _root())


def _root() -> Path:
    """The folder that paths for other programs start from: the repository, or the current folder."""
    try:
        return git.root()
    except GitError:
        return Path.cwd()
