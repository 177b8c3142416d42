"""`trainyard verify`: whether what a site keeps in git can be rolled out, without a cluster.

Called by `main`, which adds `command` to the application. Reads the stack
files and the catalog, checks each runtime against the rules as each stack
installs it, and prints.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_api import places
from trainyard_api.documents import Document, DocumentError, Position, parse
from trainyard_api.places import Site
from trainyard_delivery import own_images, replacements, stack_names
from trainyard_platform.artifacts import ImagePin
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import CONFIG_KEY, StackSettings
from trainyard_policies import engine
from trainyard_policies.lint import files as linted
from trainyard_policies.lint import formats, report
from trainyard_policies.lint.files import CannotLintError
from trainyard_policies.lint.report import Entry, Report
from trainyard_policies.rule import Finding, Level
from trainyard_policies.settings import Policies

from ..files import catalog_files, causes, git, installs, pin, stackfile
from ..output import FINE, REFUSED, near
from .lint import Format, printed

_PLACE: Final = re.compile(r".*?:(\d+)(?::(\d+))?: (.*)")
"""`file:line: ` or `file:line:column: ` before a sentence."""
_SAY_THE_VERSION: Final = frozenset({pin.FILE, "pyproject.toml"})
"""The files of a site and of a clone that move it to another version of Trainyard."""


def run(
    *,
    since: str | None = None,
    style: Format = Format.TEXT,
    advice: bool = False,
    site: Site | None = None,
    today: date | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print what is wrong with the stacks and the catalog; returns the exit code.

    With `since`, advice is given only for files that have changed since; what
    refuses is reported for all. 0: nothing refuses; 1: something does. Raises
    as `look`.

    As text, what refuses comes last, where a terminal shows it. Without `since` most advice is about
    the runtimes that come with the catalog: it is one line, unless `advice` asks for all of it.
    """
    out, err = out or sys.stdout, err or sys.stderr
    site = site or places.site()
    result, unsound = look(since=since, site=site, today=today)
    shown = result
    if style is Format.TEXT:
        shown = replace(
            result, entries=tuple(sorted(result.entries, key=lambda entry: entry.violation.refuses))
        )
        if since is None and not advice:
            shown, line = _folded(shown, site.stacks)
            out.write(line)
    out.write(printed(shown, style))
    print(summary(result), file=err)
    if unsound:
        print("The rules are checked once the catalog's files are valid", file=err)
    return REFUSED if result.refuses else FINE


def look(
    *,
    since: str | None = None,
    site: Site | None = None,
    today: date | None = None,
) -> tuple[Report, bool]:
    """Errors in the stacks and the catalog, and whether a broken file prevented the check of the rules.

    A finding that a stack causes is reported at its file. Advice is left out where it is about a file that
    comes with Trainyard and, with `since`, about one that has not changed since; a new version of Trainyard
    counts as a change of the images that a stack has of it. Raises `CannotLintError`, `GitError`,
    `PlaceError` or `PlatformError` if git or the folders could not be read.
    """
    site = site or places.site()
    names = stack_names.delivered(site.stacks)
    paths = linted.find([near(path) for path in site.catalog])
    everything = [*paths, *(near(site.stacks / places.stack_file(name)) for name in names)]
    changed = frozenset(map(str, () if since is None else git.touched(everything, since)))
    entries, stacks = _stacks(names, site.stacks)
    before = {} if since is None else stackfile.earlier(stacks, since, site.stacks)
    files: dict[str, tuple[Document, ...]] = {}
    for path in paths:
        namesakes = [other for other in paths if other.name == path.name and other != path]
        problems, documents = _file(path, namesakes, site)
        entries += problems
        # A site cannot change the TrainJob in the header of a file that comes with Trainyard.
        files[path.stem] = documents[:1] if _shipped(path, site) else documents
    unsound = any(not documents for documents in files.values())
    if not unsound:
        every = _Stacks(stacks, site, changed, before)
        entries += _rules(files, every, today or date.today())
    entries += _replaced(stacks, before, site.stacks)
    open_to_advice = {str(path) for path in everything if not _shipped(path, site)}
    entries = [
        entry
        for entry in entries
        if entry.violation.refuses
        or (entry.source in open_to_advice and (since is None or entry.source in changed))
    ]
    moves = since is None or not _SAY_THE_VERSION.isdisjoint(git.changes_of_site(since))
    outdated = _outdated(stacks, site.stacks)
    entries += [entry for entry in outdated if moves or entry.source in changed]
    return Report((), len(paths), len(names)).with_entries(entries), unsound


def refusals(stack: str, settings: StackSettings) -> list[str]:
    """A sentence for each place where the rules refuse a runtime of a stack, as the policy pack would.

    What the pack would repair is left out.

    Raises:
        UserError: A runtime is invalid.
    """
    site, today = places.site(), date.today()
    runtimes, pins = _installed(settings, site)
    paths = {path.stem: near(path) for path in site.catalog}
    files = {
        name: parse(linted.read(path), str(path))
        for name, path in paths.items()
        if name in {runtime.name for runtime in runtimes}
    }
    its_stack = _stack(near(stackfile.file_of(stack)), settings, files, pins, today=today)
    own, of_the_stack = causes.placed(_findings(settings, runtimes, files, today), its_stack)
    return [
        f"{entry.source}:{entry.position.line}: {entry.violation.with_remedy} [{entry.violation.rule.id}]"
        for entry in (*of_the_stack, *own)
        if entry.violation.refuses and entry.violation.level is not Level.REMEDIATE
    ]


def summary(result: Report) -> str:
    """How much was checked, and what was found."""
    words = [formats.word(entry.violation) for entry in result.entries]
    counts = ", ".join(f"{words.count(name)} {name}" for name in ("mandatory", "advisory", "excepted"))
    return f"{result.workloads} runtimes on {result.others} stacks: {counts}"


def _folded(result: Report, stacks_folder: Path) -> tuple[Report, str]:
    """The report without the advice on runtimes, and a line that counts it; no line if there is none."""
    stack_files = near(stacks_folder)
    folded: list[Entry] = []
    kept: list[Entry] = []
    for entry in result.entries:
        is_stack = Path(entry.source).parent == stack_files
        (kept if entry.violation.refuses or is_stack else folded).append(entry)
    if not folded:
        return result, ""
    advised = [entry for entry in folded if entry.violation.exemption is None]
    counts = Counter(entry.violation.rule.id for entry in advised).most_common()
    rules = ", ".join(f"{count} {rule}" for rule, count in counts)
    files = len({entry.source for entry in folded})
    line = (
        f"Advice on {files} runtimes: {len(advised)} findings ({rules}), "
        f"{len(folded) - len(advised)} excepted. To list them: trainyard verify --advice\n"
    )
    return replace(result, entries=tuple(kept)), line


def _stacks(names: Sequence[str], folder: Path) -> tuple[list[Entry], dict[str, StackSettings]]:
    entries, read = [], {}
    for name in names:
        try:
            read[name] = stackfile.read(name, folder)
        except PlatformError as error:
            source = near(folder / places.stack_file(name))
            for line in str(error).splitlines():
                place = _PLACE.match(line)
                at, column, message = place.groups() if place else ("1", None, line)
                entries.append(_entry(source, int(at), message, int(column or 1)))
    return entries, read


def _file(path: Path, namesakes: Sequence[Path], site: Site) -> tuple[list[Entry], tuple[Document, ...]]:
    """Errors in a file of the catalog; without errors, its runtime and the TrainJob in its header."""
    if _is_linked(path, site):
        return [_entry(path, 1, stack_names.LINKED)], ()
    try:
        text = linted.read(path)
        documents = parse(text, str(path))
        problems = list(catalog_files.problems(path, text, documents, namesakes))
    except DocumentError as error:
        return [_entry(path, error.position.line, error.problem, error.position.column)], ()
    except CannotLintError as error:
        line, _, why = str(error).removeprefix(f"{path}:").partition(":")
        return [_entry(path, int(line), why.strip())], ()
    entries = [catalog_files.judged(str(path), position, finding) for position, finding in problems]
    return entries, () if entries else (*documents, *catalog_files.example(path, text))


def _replaced(
    stacks: Mapping[str, StackSettings], before: Mapping[str, StackSettings], folder: Path
) -> Iterator[Entry]:
    """Advice on stacks whose file recreates the whole stack, or leaves it behind."""
    for name, settings in before.items():
        for sentence in replacements.of_stack(name, settings, stacks[name]):
            yield _advice(name, folder, sentence)


def _outdated(stacks: Mapping[str, StackSettings], folder: Path) -> Iterator[Entry]:
    """Advice on images of Trainyard that are of another version than the one that runs."""
    for name, settings in stacks.items():
        for sentence in own_images.of_other_versions(settings, version("trainyard")):
            yield _advice(name, folder, sentence)


def _advice(stack: str, folder: Path, sentence: str) -> Entry:
    """Advice on the place of a stack's file that the sentence begins with."""
    file = folder / places.stack_file(stack)
    entry = _entry(near(file), _line_of(file, sentence), sentence)
    return replace(entry, violation=replace(entry.violation, level=Level.ADVISORY))


def _line_of(file: Path, place: str) -> int:
    return stackfile.line(file, f"{CONFIG_KEY}.{place}")


@dataclass(frozen=True)
class _Stacks:
    """The stacks by name, and what the change does to them."""

    settings: Mapping[str, StackSettings]
    site: Site
    changed: Collection[str]
    before: Mapping[str, StackSettings]


def _shipped(path: Path, site: Site) -> bool:
    """Whether the file comes with Trainyard: the site cannot follow advice about it."""
    return site.beneath is not None and path.is_relative_to(site.beneath)


def _is_linked(path: Path, site: Site) -> bool:
    """Whether a runtime of the site is a symbolic link, or in a folder that is one."""
    file = Path.cwd() / path
    inside = file.is_relative_to(site.runtimes)
    return inside and any(map(Path.is_symlink, (file, file.parent, site.runtimes)))


def _rules(files: Mapping[str, Sequence[Document]], stacks: _Stacks, today: date) -> list[Entry]:
    """Findings about each stack's runtimes, as it installs them; each once, with the stacks named."""
    findings: dict[tuple[object, ...], tuple[Entry, list[str]]] = {}
    entries = []
    site, folder = stacks.site, stacks.site.stacks
    for name, settings in stacks.settings.items():
        file = near(folder / places.stack_file(name))
        try:
            runtimes, pins = _installed(settings, site)
        except PlatformError as error:
            entries.append(_entry(file, stackfile.line(file, str(error)), str(error)))
            continue
        stack = _stack(
            file, settings, files, pins, today=today, changed=stacks.changed, before=stacks.before.get(name)
        )
        own, of_the_stack = causes.placed(_findings(settings, runtimes, files, today), stack)
        entries += of_the_stack
        lines = {entry.position.line for entry in of_the_stack}
        entries += [
            _advice(name, folder, f"{place}: {sentence}")
            for place, sentence in settings.advice().items()
            if stack.line(place) not in lines
        ]
        for entry in own:
            violation = entry.violation
            key = (
                entry.source,
                entry.position,
                violation.rule.id,
                violation.subject,
                violation.message,
                violation.level,
            )
            findings.setdefault(key, (entry, []))[1].append(name)
    return [*entries, *(_on(entry, names, len(stacks.settings)) for entry, names in findings.values())]


def _installed(settings: StackSettings, site: Site) -> tuple[Sequence[Runtime], Mapping[str, ImagePin]]:
    """The runtimes as a stack installs them, and the digests of their images; raises `PlatformError`."""
    registry = stackfile.artifacts(settings).registry
    pins = catalog_images.load(site.runtimes, site.beneath)
    return stack_runtimes.load(site.runtimes, settings, registry, beneath=site.beneath), pins


def _findings(
    settings: StackSettings,
    runtimes: Sequence[Runtime],
    files: Mapping[str, Sequence[Document]],
    today: date,
) -> list[Entry]:
    """What the rules say of a stack's runtimes, and what they refuse in the TrainJobs of their headers."""
    registry, policies = stackfile.artifacts(settings).registry, settings.rules
    installed = [replace(files[runtime.name][0], value=runtime.manifest) for runtime in runtimes]
    entries = list(report.of(installed, today, policies).entries)
    for runtime in runtimes:
        examples = [installs.from_registry(registry, job) for job in files[runtime.name][1:]]
        jobs = report.of(examples, today, policies).entries
        entries += [entry for entry in jobs if entry.violation.refuses]
    return entries


def _stack(
    file: Path,
    settings: StackSettings,
    files: Mapping[str, Sequence[Document]],
    pins: Mapping[str, ImagePin],
    *,
    today: date,
    changed: Collection[str] = (),
    before: StackSettings | None = None,
) -> causes.Stack:
    return causes.Stack(
        settings,
        str(file),
        line=partial(_line_of, file),
        judge=partial(_judged, files=files, policies=settings.rules, pins=pins, today=today),
        touched=changed,
        before=before,
    )


def _judged(
    file: str,
    settings: StackSettings,
    *,
    files: Mapping[str, Sequence[Document]],
    policies: Policies,
    pins: Mapping[str, ImagePin],
    today: date,
) -> Collection[engine.Said]:
    """Findings about a file if these settings install it; raises as `installs.violations`."""
    runtime = catalog.read(Path(file))
    examples = files[runtime.name][1:]
    violations = installs.violations(runtime, examples, settings, policies=policies, pins=pins, today=today)
    return {violation.said for violation in violations}


def _on(entry: Entry, names: Sequence[str], stacks: int) -> Entry:
    """The finding with its stacks, unless it applies to all of them."""
    if len(names) == stacks:
        return entry
    where = f"on {', '.join(names)}"
    note = f"{entry.violation.note}; {where}" if entry.violation.note else where
    return replace(entry, violation=replace(entry.violation, note=note))


def _entry(source: Path, line: int, message: str, column: int = 1) -> Entry:
    return catalog_files.judged(str(source), Position(line, column), Finding(catalog_files.WHOLE, message))


def command(
    since: Annotated[
        str | None,
        typer.Option(
            help="Give advice only on files that have changed since this branch left REF.", metavar="REF"
        ),
    ] = None,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TEXT,
    advice: Annotated[
        bool, typer.Option("--advice", help="List all advice on runtimes; without --since, text counts it.")
    ] = False,
) -> None:
    """Check stack files, runtimes, and the rules on each stack.

    All that a site keeps in git, without a cluster: what a pull request has to pass. Each
    runtime is judged as each stack installs it, with the stack's own levels and parameters.
    Exit code 1: it refuses something.

    Example: trainyard verify --since origin/main
    """
    raise typer.Exit(run(since=since, style=style, advice=advice))
