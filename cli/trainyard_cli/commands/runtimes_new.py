"""`trainyard runtimes new`: a new file for the catalog, as a copy of an existing one.

Called by `runtimes`, which names this module. Reads and writes files, asks in a
terminal, and prints; `trainyard_platform.catalog.new` makes the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_api import places
from trainyard_api.documents import Document, parse
from trainyard_api.places import Site
from trainyard_delivery import stack_names
from trainyard_platform.artifacts import ImagePin
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog import new as catalog_new
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.value_types import IMAGE
from trainyard_policies import exceptions, manifest
from trainyard_policies.lint import granted

from ..confirmation import says_yes
from ..files import catalog_files, installs, stackfile, whole
from ..output import FINE, near
from .runtimes import frameworks_of, names_of, one_of

PLAIN: Final = "plain"
_NAME: Final = re.compile(r"[a-z]([a-z0-9.-]{0,61}[a-z0-9])?")


def run(
    name: str,
    *,
    framework: str,
    like: str | None = None,
    purpose: str,
    image: str | None = None,
    with_exceptions: Sequence[str] = (),
    ask: Callable[[str], bool] = lambda _: False,
    site: Site | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Write a runtime's file and print its path; returns the exit code.

    Copies an exception of the original runtime if `with_exceptions` names its
    rule, or if `ask` answers the question about it with yes.

    Raises:
        UserError: It cannot be written, or `verify` would refuse it on one of the stacks.
    """
    out, err = out or sys.stdout, err or sys.stderr
    site = site or places.site()
    runtimes = catalog.read_all(site.runtimes, site.beneath)
    files = {path.stem: path for path in site.catalog}
    _require_new(name, framework, image, files)
    source = one_of(like or _first(framework, runtimes), runtimes)
    left_out = _left_out(source, with_exceptions, ask)
    text = catalog_new.text(
        source,
        files[source.name].read_text(encoding="utf-8"),
        name=name,
        framework=framework,
        purpose=purpose,
        image=image,
        without=[f"{exceptions.PREFIX}{rule}" for rule in left_out],
    )
    path = site.runtimes / framework / f"{name}.yaml"
    unfit = _require_verified(path, text, left_out, site)
    _write(path, text)
    print(near(path), file=out)
    for line in (*_copied(source, name, left_out), *unfit):
        print(line, file=err)
    print(f"In its header, describe who it is for. Then: trainyard lint {near(path)}", file=err)
    return FINE


def command(
    name: Annotated[str, typer.Argument(help="Name of the new runtime.")],
    framework: Annotated[
        str,
        typer.Option(
            help="Its framework, one of the catalog's or a new one.",
            prompt="Framework (torch, jax, mpi, ..., or a new one)",
            autocompletion=frameworks_of,
        ),
    ],
    purpose: Annotated[
        str,
        typer.Option("--for", help="What it is for, in a sentence.", prompt="What is it for, in a sentence"),
    ],
    *,
    like: Annotated[
        str | None,
        typer.Option(
            help="The runtime to copy; by default the framework's plainest.", autocompletion=names_of
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image of the containers that train; by default that runtime's.")
    ] = None,
    with_exception: Annotated[
        list[str] | None,
        typer.Option(
            help="Copy the exception from this rule that the copied runtime makes; may be repeated. "
            "In a terminal the command asks.",
            metavar="RULE",
        ),
    ] = None,
) -> None:
    """Write the file of a new runtime, which passes every check.

    It passes verify and admission as it is: nothing is written that verify would refuse on one
    of the stacks. An exception from a rule is a decision about one runtime: none is copied
    unless you say so, and verify then refuses what needs the exception.

    Example: trainyard runtimes new torch-audio --framework torch --for "Speech models."
    """
    raise typer.Exit(
        run(
            name,
            framework=framework,
            like=like,
            purpose=purpose,
            image=image,
            with_exceptions=with_exception or (),
            ask=says_yes,
        )
    )


def _left_out(source: Runtime, rules: Sequence[str], ask: Callable[[str], bool]) -> list[str]:
    """The rules from which the new runtime makes no exception, though the copied one does."""
    made = exceptions.of(manifest.read(source.manifest))
    for rule in rules:
        if rule not in made:
            there = f"it makes: {', '.join(made)}" if made else "it makes none"
            raise PlatformError(f"--with-exception {rule}: {source.name} makes no such exception ({there})")
    return [
        rule
        for rule, exception in made.items()
        if rule not in rules
        and not ask(
            f"{source.name} is exempt from {rule} until {exception.until}: {exception.reason}. "
            "The new one too?"
        )
    ]


def _copied(source: Runtime, name: str, left_out: Sequence[str]) -> Iterator[str]:
    """Remarks about copied and omitted parts."""
    if not catalog.installed(source.manifest, None):
        yield f"It is optional, as {source.name} is: a stack has it with runtimes.{name}.enabled: true."
    for privilege in granted.privileges(source.manifest, date.today()):
        yield f"It has a {privilege}, as {source.name} has. Remove it if {name} does not need it."
    for rule in left_out:
        yield f"Unlike {source.name}, it makes no exception from {rule}: --with-exception {rule} copies it."


def _require_new(name: str, framework: str, image: str | None, files: Mapping[str, Path]) -> None:
    for word, kind in ((name, "a runtime"), (framework, "a framework")):
        if not _NAME.fullmatch(word):
            raise PlatformError(
                f"{word!r} cannot name {kind}: use at most 63 lowercase letters, digits, '-' and '.'"
            )
    if name in files:
        raise PlatformError(f"{near(files[name])} exists already: names are unique")
    if image is not None and not re.fullmatch(IMAGE, image):
        raise PlatformError(f"--image {image}: must name its registry and its tag or digest")


def _require_verified(path: Path, text: str, left_out: Sequence[str], site: Site) -> Sequence[str]:
    """Refuse a file that `verify` would, except for rules from which an exception was left out.

    Returns what is left to say in stack files: a stack can leave out a runtime only once it is there.
    """
    documents = parse(text, str(path))
    lines = [
        f"{finding.path}: {finding.message}" for _, finding in catalog_files.problems(path, text, documents)
    ]
    unfit: list[str] = []
    if not lines:
        runtime = Runtime(name=path.stem, framework=path.parent.name, manifest=dict(documents[0].value))
        examples = catalog_files.example(path, text)
        pins = catalog_images.load(site.runtimes, site.beneath)
        refused, unfit = _refused(runtime, examples, left_out, pins, site.stacks)
        lines = [f"{sentence} (on {', '.join(stacks)})" for sentence, stacks in refused.items()]
    if lines:
        headline = f"{near(path)} is not written, because verify would refuse it:"
        raise PlatformError("\n  ".join([headline, *lines]))
    return unfit


def _refused(
    runtime: Runtime,
    examples: Sequence[Document],
    left_out: Sequence[str],
    pins: Mapping[str, ImagePin],
    stacks_folder: Path,
) -> tuple[dict[str, list[str]], list[str]]:
    """Refusals by the rules of stacks, with their names, and errors of installation."""
    refused: dict[str, list[str]] = {}
    unfit: list[str] = []
    for stack in stack_names.delivered(stacks_folder):
        try:
            settings = stackfile.read(stack, stacks_folder)
        except PlatformError:
            continue  # which is no fault of the runtime's
        try:
            for violation in installs.violations(
                runtime, examples, settings, policies=settings.rules, pins=pins, today=date.today()
            ):
                if violation.refuses and violation.rule.id not in left_out:
                    refused.setdefault(violation.with_remedy, []).append(stack)
        except installs.NotInstalledError:
            continue
        except PlatformError as error:
            unfit.append(f"On {stack}, {error}")
    return {sentence: list(dict.fromkeys(stacks)) for sentence, stacks in refused.items()}, unfit


def _write(path: Path, text: str) -> None:
    try:
        whole.write(path, text)
    except OSError as error:
        raise PlatformError(f"{path}: cannot be written: {error.strerror}") from error


def _first(framework: str, runtimes: Mapping[str, Runtime]) -> str:
    """The runtime of a framework to copy by default: the plainest, or `plain` for a new framework."""
    of_it = [name for name, runtime in runtimes.items() if runtime.framework == framework]
    usual = f"{framework}-distributed"
    return usual if usual in of_it else min(of_it, default=PLAIN)
