"""`trainyard runtimes new`: a file of the catalog, begun as a copy of one that is there.

Called by `main`, which adds `command` to `runtimes`. Reads and writes files,
asks in a terminal, and prints; the text is `trainyard_platform.catalog.new`'s.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import new as catalog_new
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.errors import PlatformError
from trainyard_platform.model import IMAGE
from trainyard_policies import exceptions, manifest
from trainyard_policies.lint import granted

from ..answers import CANNOT_ASK, FINE
from ..files.manifests import CATALOG
from .runtimes import file_of, frameworks_of, names_of, near_here, one_of

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
    folder: Path = CATALOG,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Write a runtime's file and print its path; returns the exit code, 2 if it cannot be written.

    An exception of the runtime to begin with is copied if `with_exceptions`
    names its rule, or else if `ask` answers a question about it with yes.
    """
    out, err = out or sys.stdout, err or sys.stderr
    try:
        known = catalog.read_all(folder)
        _require_new(name, framework, image, folder, known)
        source = one_of(like or _first(framework, known), known)
        left_out = _left_out(source, with_exceptions, ask)
        text = catalog_new.text(
            source,
            file_of(folder, source).read_text(encoding="utf-8"),
            name=name,
            framework=framework,
            purpose=purpose,
            image=image,
            without=[f"{exceptions.PREFIX}{rule}" for rule in left_out],
        )
        path = folder / framework / f"{name}.yaml"
        _write(path, text)
    except PlatformError as error:
        print(error, file=err)
        return CANNOT_ASK
    print(near_here(path), file=out)
    for line in _copied(source, name, left_out):
        print(line, file=err)
    print(f"Say in its header who it is for. Then: trainyard lint {near_here(path)}", file=err)
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
            help="The runtime to begin with; the framework's plainest unless given.", autocompletion=names_of
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image of the containers that train; that runtime's unless given.")
    ] = None,
    with_exception: Annotated[
        list[str] | None,
        typer.Option(
            help="Copy the exception from a rule that the runtime to begin with makes; may be repeated. "
            "In a terminal you are asked.",
            metavar="RULE",
        ),
    ] = None,
) -> None:
    """Write the file of a new runtime, which passes lint and admission as it is.

    An exception from a rule is a decision about one runtime: none is copied
    unless you say so, and what the runtime asks for is then refused by lint.

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
            ask=lambda question: sys.stdin.isatty() and typer.confirm(question, err=True),
            folder=CATALOG,
        )
    )


def _left_out(source: Runtime, wanted: Sequence[str], ask: Callable[[str], bool]) -> list[str]:
    """The rules from which the new runtime makes no exception, though the one to begin with does."""
    made = exceptions.of(manifest.read(source.manifest))
    for rule in wanted:
        if rule not in made:
            there = f"it makes: {', '.join(made)}" if made else "it makes none"
            raise PlatformError(f"--with-exception {rule}: {source.name} makes no such exception ({there})")
    return [
        rule
        for rule, one in made.items()
        if rule not in wanted
        and not ask(f"{source.name} is let off {rule} until {one.until}: {one.reason}. The new one too?")
    ]


def _copied(source: Runtime, name: str, left_out: Sequence[str]) -> Iterator[str]:
    """What somebody should know has come with the copy, and what has not."""
    if not catalog.installed(source.manifest, None):
        yield f"It is optional, as {source.name} is: a stack has it with runtimes.{name}.enabled: true."
    for one in granted.privileges(source.manifest, date.today()):
        yield f"It has a {one}, as {source.name} has. Take it away if {name} does without."
    for rule in left_out:
        yield f"It makes no exception from {rule}, as {source.name} does: --with-exception {rule} copies it."


def _require_new(
    name: str, framework: str, image: str | None, folder: Path, known: Mapping[str, Runtime]
) -> None:
    for word, what in ((name, "a runtime"), (framework, "a framework")):
        if not _NAME.fullmatch(word):
            raise PlatformError(
                f"{word!r} cannot name {what}: small letters, digits, '-' and '.', at most 63"
            )
    if name in known:
        raise PlatformError(f"{near_here(file_of(folder, known[name]))} is there already: names are unique")
    if image is not None and not re.fullmatch(IMAGE, image):
        raise PlatformError(f"--image {image}: must name its registry and its tag or digest")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlatformError(f"{path}: cannot be written: {error.strerror}") from error


def _first(framework: str, known: Mapping[str, Runtime]) -> str:
    """The runtime of a framework that one begins with: the plainest, or `plain` for a new framework."""
    of_it = [name for name, runtime in known.items() if runtime.framework == framework]
    usual = f"{framework}-distributed"
    return usual if usual in of_it else min(of_it, default=PLAIN)
