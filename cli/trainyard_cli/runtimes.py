"""`trainyard runtimes`: the catalog, to look at and to add to.

Called by `main`, which adds `app` to the application. Reads files, prints and
writes new ones; what a runtime is, is `trainyard_platform.catalog`'s.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from rich.console import Console
from rich.table import Table

from trainyard_api import names
from trainyard_api.closed import nearest
from trainyard_platform import catalog, catalog_header, catalog_new, overlay, stack_runtimes
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.catalog import Runtime
from trainyard_platform.catalog_header import Header
from trainyard_platform.errors import PlatformError
from trainyard_platform.model import IMAGE

from . import stackfile
from .manifests import CANNOT_ASK, CATALOG, FINE

app = typer.Typer(help="The catalog: what TrainJobs can run on.", no_args_is_help=True)

PLAIN: Final = "plain"
_NAME: Final = re.compile(r"[a-z]([a-z0-9.-]{0,61}[a-z0-9])?")


class Output(StrEnum):
    """How to print it."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Entry:
    """A runtime and what its file says about it."""

    runtime: Runtime
    header: Header
    file: str

    @property
    def deprecated(self) -> bool:
        """Whether it goes away in a later release."""
        labels = self.runtime.manifest["metadata"].get("labels", {})
        return bool(labels.get(names.SUPPORT_LABEL) == names.SUPPORT_DEPRECATED)

    @property
    def optional(self) -> bool:
        """Whether only those stacks install it that ask for it."""
        return not catalog.installed(self.runtime.manifest, None)

    def document(self) -> dict[str, Any]:
        """What it is, in short."""
        spec = self.runtime.manifest["spec"]
        policy = spec["mlPolicy"]
        return {
            "name": self.runtime.name,
            "framework": self.runtime.framework,
            "summary": self.header.summary,
            "deprecated": self.deprecated,
            "optional": self.optional,
            "policy": next((key for key in policy if key != "numNodes"), None),
            "numNodes": policy.get("numNodes", 1),
            "jobs": [job["name"] for job in spec["template"]["spec"]["replicatedJobs"]],
            "image": _image(self.runtime.manifest),
            "file": self.file,
        }


def entries(folder: Path, stack: str | None = None) -> tuple[Entry, ...]:
    """The catalog by name: as its files have it, or as a stack installs it. Raises `PlatformError`."""
    files = {path.stem: path for path in folder.glob("*/*.yaml")}
    return tuple(
        Entry(runtime, catalog_header.parse(files[runtime.name].read_text()), _near(files[runtime.name]))
        for runtime in of_stack(folder, stack)
    )


def of_stack(folder: Path, stack: str | None = None) -> tuple[Runtime, ...]:
    """The runtimes that a stack installs; without one, all, with the digests that are known."""
    if stack is None:
        return catalog.every(folder)
    settings = stackfile.read(stack)
    return stack_runtimes.load(folder, settings, Artifacts(settings.artifacts, folder.parent).registry)


def run_list(
    *,
    stack: str | None = None,
    framework: str | None = None,
    output: Output = Output.TEXT,
    folder: Path = CATALOG,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the runtimes as a table or as JSON; returns the exit code, 2 if the catalog cannot be read."""
    out, err = out or sys.stdout, err or sys.stderr
    try:
        found = [e for e in entries(folder, stack) if framework in (None, e.runtime.framework)]
    except PlatformError as error:
        print(error, file=err)
        return CANNOT_ASK
    if output is Output.JSON:
        print(json.dumps([entry.document() for entry in found], indent=2), file=out)
        return FINE
    table = Table(box=None, pad_edge=False)
    for column in ("NAME", "FRAMEWORK", "FOR"):
        table.add_column(column, no_wrap=column != "FOR")
    for entry in found:
        mark = "Deprecated: " * entry.deprecated + "Optional: " * entry.optional
        table.add_row(entry.runtime.name, entry.runtime.framework, mark + entry.header.summary)
    Console(file=out, markup=False, highlight=False).print(table)
    return FINE


def run_show(
    name: str,
    *,
    stack: str | None = None,
    output: Output = Output.TEXT,
    folder: Path = CATALOG,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print all about a runtime; returns the exit code, 2 if there is none of that name."""
    out, err = out or sys.stdout, err or sys.stderr
    try:
        entry = _one(name, {entry.runtime.name: entry for entry in entries(folder, stack)})
    except PlatformError as error:
        print(error, file=err)
        return CANNOT_ASK
    if output is Output.JSON:
        more = {
            "about": entry.header.about,
            "example": entry.header.example,
            "manifest": entry.runtime.manifest,
        }
        print(json.dumps({**entry.document(), **more}, indent=2), file=out)
        return FINE
    out.write(_shown(entry))
    return FINE


def run_new(
    name: str,
    *,
    framework: str,
    like: str | None = None,
    purpose: str,
    image: str | None = None,
    folder: Path = CATALOG,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Write a runtime's file and print its path; returns the exit code, 2 if it cannot be written."""
    out, err = out or sys.stdout, err or sys.stderr
    try:
        path = _write(folder, name, framework=framework, like=like, purpose=purpose, image=image)
    except PlatformError as error:
        print(error, file=err)
        return CANNOT_ASK
    print(_near(path), file=out)
    print(f"Say in its header who it is for. Then: trainyard lint {_near(path)}", file=err)
    return FINE


Stack = Annotated[str | None, typer.Option(help="As stacks/Pulumi.NAME.yaml installs it.", metavar="NAME")]
Printed = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]


def names_of(incomplete: str) -> list[str]:
    """Names of runtimes, for completion in a shell."""
    return [path.stem for path in sorted(CATALOG.glob("*/*.yaml")) if path.stem.startswith(incomplete)]


def frameworks_of(incomplete: str) -> list[str]:
    """Names of frameworks, for completion in a shell."""
    folders = sorted({path.parent.name for path in CATALOG.glob("*/*.yaml")})
    return [name for name in folders if name.startswith(incomplete)]


@app.command(name="list")
def list_command(
    framework: Annotated[
        str | None, typer.Option(help="Only those of a framework.", autocompletion=frameworks_of)
    ] = None,
    stack: Stack = None,
    output: Printed = Output.TEXT,
) -> None:
    """List the runtimes: name, framework, and what each is for.

    Example: trainyard runtimes list --framework torch
    """
    raise typer.Exit(run_list(stack=stack, framework=framework, output=output, folder=CATALOG))


@app.command(name="show")
def show_command(
    name: Annotated[str, typer.Argument(help="Name of the runtime.", autocompletion=names_of)],
    stack: Stack = None,
    output: Printed = Output.TEXT,
) -> None:
    """Show a runtime: who it is for, what it is made of, and a TrainJob on it.

    Example: trainyard runtimes show torch-checkpointed
    """
    raise typer.Exit(run_show(name, stack=stack, output=output, folder=CATALOG))


@app.command(name="new")
def new_command(
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
    like: Annotated[
        str | None,
        typer.Option(
            help="The runtime to begin with; the framework's plainest unless given.", autocompletion=names_of
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image of the containers that train; that runtime's unless given.")
    ] = None,
) -> None:
    """Write the file of a new runtime, which passes lint and admission as it is.

    Example: trainyard runtimes new torch-audio --framework torch --for "Speech models."
    """
    raise typer.Exit(
        run_new(name, framework=framework, like=like, purpose=purpose, image=image, folder=CATALOG)
    )


def _write(
    folder: Path, name: str, *, framework: str, like: str | None, purpose: str, image: str | None
) -> Path:
    known = catalog.read_all(folder)
    for word, what in ((name, "a runtime"), (framework, "a framework")):
        if not _NAME.fullmatch(word):
            raise PlatformError(
                f"{word!r} cannot name {what}: small letters, digits, '-' and '.', at most 63"
            )
    if name in known:
        raise PlatformError(f"{_near(_file(folder, known[name]))} is there already: names are unique")
    if image is not None and not re.fullmatch(IMAGE, image):
        raise PlatformError(f"--image {image}: must name its registry and its tag or digest")
    source = _one(like or _first(framework, known), known)
    text = catalog_new.text(
        source,
        _file(folder, source).read_text(),
        name=name,
        framework=framework,
        purpose=purpose,
        image=image,
    )
    path = folder / framework / f"{name}.yaml"
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlatformError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _first(framework: str, known: Mapping[str, Runtime]) -> str:
    """The runtime of a framework that one begins with: the plainest, or `plain` for a new framework."""
    of_it = [name for name, runtime in known.items() if runtime.framework == framework]
    usual = f"{framework}-distributed"
    return usual if usual in of_it else min(of_it, default=PLAIN)


def _file(folder: Path, runtime: Runtime) -> Path:
    return folder / runtime.framework / f"{runtime.name}.yaml"


def _one(name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise PlatformError(
            f"there is no runtime {name!r} (there are: {', '.join(known)}){nearest(name, list(known))}"
        )
    return known[name]


def _image(manifest: Mapping[str, Any]) -> str | None:
    for job in overlay.training_jobs(manifest):
        if overlay.step(job) == names.ANCESTOR_TRAINER:
            for container in job["template"]["spec"]["template"]["spec"]["containers"]:
                if container["name"] == names.NODE:
                    image: str | None = container.get("image")
                    return image
    return None


def _shown(entry: Entry) -> str:
    short = entry.document()
    rows = [
        ("framework", short["framework"]),
        ("policy", f"{short['policy'] or 'none'}, {short['numNodes']} node(s) unless a TrainJob says more"),
        ("jobs", ", ".join(short["jobs"])),
        ("image", short["image"] or "the TrainJob's"),
        ("file", short["file"]),
    ]
    lines = [f"{short['name']}: {short['summary']}"]
    lines += ["Deprecated: it goes away in a later release."] * entry.deprecated
    lines += [f"Optional: a stack has it with runtimes.{short['name']}.enabled: true."] * entry.optional
    lines += ["", *(f"{what + ':':<11}{value}" for what, value in rows), "", entry.header.about, ""]
    return "\n".join(lines) + f"\nExample:\n\n{entry.header.example}"


def _near(path: Path) -> str:
    """The path as one would write it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
