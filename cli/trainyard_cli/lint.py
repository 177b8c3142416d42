"""`trainyard lint`: the policy rules over files, for pull requests.

Called by `main`, which adds `command` to the application. Reads files, writes
them with --fix, and prints; what is right and wrong is `trainyard_policies`'.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO

import typer
import yaml

from trainyard_api.documents import Document, DocumentError, parse
from trainyard_platform import settings as stacks
from trainyard_platform.errors import PlatformError
from trainyard_policies import rules
from trainyard_policies.lint import files as found
from trainyard_policies.lint import formats, repair, report
from trainyard_policies.lint.files import CannotLintError
from trainyard_policies.settings import DEFAULT, Policies

from .manifests import CANNOT_ASK, CATALOG, FINE, REFUSED

STACKS = CATALOG.parent / "stacks"


class Format(StrEnum):
    """How a report is printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


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
    cannot be asked, which goes to `err` with `file:line`, after what could be
    said about the others.
    """
    out, err = out or sys.stdout, err or sys.stderr
    today = today or date.today()
    try:
        policies = of_stack(stack) if stack else DEFAULT
        chosen = found.find(paths or [_near(CATALOG)])
        if since is not None:
            chosen = found.changed(chosen, since)
    except CannotLintError as error:
        print(error, file=err)
        return CANNOT_ASK
    documents: list[Document] = []
    unreadable = 0
    for path in chosen:
        try:
            documents += _read(path, today, policies, err if fix else None)
        except (CannotLintError, DocumentError) as error:
            print(error, file=err)
            unreadable += 1
    result = report.of(documents, today, policies)
    out.write(formats.FORMATS[style](result, _root()))
    print(formats.summary(result), file=err)
    if unreadable:
        return CANNOT_ASK
    return REFUSED if result.refuses else FINE


def explain(rule: str, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Print all about a rule; returns the exit code, 2 if there is none of that name."""
    out, err = out or sys.stdout, err or sys.stderr
    if rule not in rules.BY_ID:
        near = get_close_matches(rule, list(rules.BY_ID), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"there is no rule {rule} (there are: {', '.join(rules.BY_ID)}){hint}", file=err)
        return CANNOT_ASK
    out.write(formats.explanation(rules.BY_ID[rule]))
    return FINE


def of_stack(name: str) -> Policies:
    """The policies of `stacks/Pulumi.<name>.yaml`; raises `CannotLintError`."""
    found_stack = stack_in(STACKS, name)
    return found_stack.policies.with_pools(found_stack.node_pools)


def stack_in(folder: Path, name: str) -> stacks.StackSettings:
    """The settings of `Pulumi.<name>.yaml` in a folder; raises `CannotLintError`."""
    path = folder / f"Pulumi.{name}.yaml"
    try:
        # As Pulumi reads it: a stack file may have anchors.
        section = yaml.safe_load(found.read(path))["config"][stacks.CONFIG_KEY]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise CannotLintError(f"{path}: is no stack file with {stacks.CONFIG_KEY}: {why}") from error
    try:
        return stacks.of(section, name)
    except PlatformError as error:
        raise CannotLintError(str(error)) from error


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
    fix: Annotated[bool, typer.Option("--fix", help="Repair what leaves no doubt, in the files.")] = False,
    stack: Annotated[
        str | None, typer.Option(help="Levels and parameters of stacks/Pulumi.NAME.yaml.", metavar="NAME")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--explain", help="Say all about a rule.", metavar="RULE")
    ] = None,
) -> None:
    """Check runtimes and TrainJobs against the policy rules, without a cluster."""
    if rule is not None:
        raise typer.Exit(explain(rule))
    raise typer.Exit(run(paths or [], since=since, style=style, fix=fix, stack=stack))


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
    print(f"{path}: {made} repaired", file=fixing)
    return parse(text, str(path))


def _near(path: Path) -> Path:
    """The path as one would write it here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _root() -> Path:
    """What paths for other programs start from: the repository, or else this folder."""
    try:
        return found.root()
    except CannotLintError:
        return Path.cwd()
