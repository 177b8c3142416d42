"""`trainyard runtimes`: the catalog, to look at and to add to.

Called by `main`, which adds `app` as the group `runtimes`; `app` names the modules of the other commands.
Reads files and prints; `trainyard_platform.catalog` says what a runtime is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import names, places
from trainyard_api.places import Site
from trainyard_api.similar import hint
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import header as catalog_header
from trainyard_platform.catalog import overlay, stack_runtimes
from trainyard_platform.catalog import runs as catalog_runs
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.catalog.header import Header
from trainyard_platform.catalog.runs import Place, Run
from trainyard_platform.errors import PlatformError

from .. import on_demand
from ..files import stackfile
from ..on_demand import Listed
from ..options import Printed
from ..output import FINE, Output, near, write_json, write_table

COMMANDS: Final = {
    "diff": Listed(
        "runtimes_diff:command",
        "Show what a change of the catalog changes.",
    ),
    "jobs": Listed(
        "runtimes_jobs:command",
        "List the TrainJobs on a runtime, and the content each has.",
    ),
    "new": Listed("runtimes_new:command", "Write the file of a new runtime, which passes every check."),
}
"""Commands besides those here."""

app = typer.Typer(
    cls=on_demand.group(COMMANDS), help="The catalog of runtimes for TrainJobs.", no_args_is_help=True
)


@dataclass(frozen=True)
class Entry:
    """A runtime with the header of its file."""

    runtime: Runtime
    header: Header
    file: str
    successors: tuple[str, ...]
    """Runtimes of the catalog that take its place, if it is deprecated."""
    runs: tuple[Run, ...]
    """What of it has run, as the tests recorded it."""

    @property
    def deprecated(self) -> bool:
        """Whether a later release removes it."""
        labels = self.runtime.manifest["metadata"].get("labels", {})
        return bool(labels.get(names.SUPPORT_LABEL) == names.SUPPORT_DEPRECATED)

    @property
    def optional(self) -> bool:
        """Whether only stacks that ask for it install it."""
        return not catalog.installed(self.runtime.manifest, None)

    @property
    def places(self) -> str:
        """Where it has run, as a text."""
        places = {run.place for run in self.runs}
        return ", ".join(place for place in Place if place in places) or "no test"

    def document(self) -> dict[str, Any]:
        """A summary as JSON values."""
        spec = self.runtime.manifest["spec"]
        policy = spec["mlPolicy"]
        return {
            "name": self.runtime.name,
            "framework": self.runtime.framework,
            "summary": self.header.summary,
            "deprecated": self.deprecated,
            "successors": list(self.successors),
            "optional": self.optional,
            "policy": next((key for key in policy if key != "numNodes"), None),
            "numNodes": policy.get("numNodes", 1),
            "jobs": [job["name"] for job in spec["template"]["spec"]["replicatedJobs"]],
            "image": _image(self.runtime.manifest),
            "file": self.file,
            "runs": [run.model_dump(mode="json", exclude={"runtime"}) for run in self.runs],
        }


def entries(site: Site, stack: str | None = None) -> tuple[Entry, ...]:
    """The catalog by name: as in its files, or as a stack installs it. Raises `PlatformError`."""
    files = {path.stem: path for path in site.catalog}
    runs = catalog_runs.load(site.beneath or site.runtimes)

    def entry(runtime: Runtime) -> Entry:
        path = files[runtime.name]
        header = catalog_header.parse(path.read_text(encoding="utf-8"))
        own = tuple(run for run in runs if run.runtime == runtime.name)
        return Entry(runtime, header, str(near(path)), tuple(header.successors(files)), own)

    return tuple(entry(runtime) for runtime in of_stack(site, stack))


def of_stack(site: Site, stack: str | None = None) -> tuple[Runtime, ...]:
    """The runtimes that a stack installs; without a stack, all, with their known digests."""
    if stack is None:
        return catalog.every(site.runtimes, site.beneath)
    settings = stackfile.read_as_pulumi(stack)
    registry = stackfile.artifacts(settings).registry
    return stack_runtimes.load(site.runtimes, settings, registry, beneath=site.beneath)


def run_list(
    *,
    stack: str | None = None,
    framework: str | None = None,
    output: Output = Output.TEXT,
    site: Site | None = None,
    out: TextIO | None = None,
) -> int:
    """Print the runtimes as a table or as JSON; returns the exit code. Raises as `entries`."""
    out = out or sys.stdout
    every = entries(site or places.site_or_shipped(), stack)
    matches = [entry for entry in every if framework in (None, entry.runtime.framework)]
    if output is Output.JSON:
        write_json([entry.document() for entry in matches], out)
        return FINE
    rows = [
        (
            entry.runtime.name,
            entry.runtime.framework,
            entry.places,
            _deprecation(entry) + "Optional: " * entry.optional + entry.header.summary,
        )
        for entry in matches
    ]
    write_table(("NAME", "FRAMEWORK", "RAN ON", "FOR"), rows, out, folds="FOR")
    return FINE


def run_show(
    name: str,
    *,
    stack: str | None = None,
    output: Output = Output.TEXT,
    site: Site | None = None,
    out: TextIO | None = None,
) -> int:
    """Describe a runtime; returns the exit code. Raises as `entries`, and as `one_of`."""
    out = out or sys.stdout
    every = entries(site or places.site_or_shipped(), stack)
    entry = one_of(name, {entry.runtime.name: entry for entry in every})
    if output is Output.JSON:
        more = {
            "about": entry.header.about,
            "example": entry.header.example,
            "manifest": entry.runtime.manifest,
        }
        write_json({**entry.document(), **more}, out)
        return FINE
    out.write(_shown(entry))
    return FINE


Stack = Annotated[str | None, typer.Option(help="As stacks/Pulumi.NAME.yaml installs it.", metavar="NAME")]


def names_of(incomplete: str) -> list[str]:
    """Names of runtimes, for completion in a shell."""
    return [path.stem for path in places.site_or_shipped().catalog if path.stem.startswith(incomplete)]


def frameworks_of(incomplete: str) -> list[str]:
    """Names of frameworks, for completion in a shell."""
    folders = sorted({path.parent.name for path in places.site_or_shipped().catalog})
    return [name for name in folders if name.startswith(incomplete)]


@app.command(name="list")
def list_command(
    framework: Annotated[
        str | None, typer.Option(help="Only those of a framework.", autocompletion=frameworks_of)
    ] = None,
    stack: Stack = None,
    output: Printed = Output.TEXT,
) -> None:
    """List runtimes: name, framework, where each ran, and what it is for.

    `sandbox`: in real pods, on CPUs; `simulated`: scheduled to simulated GPU nodes; `gpu`: on a GPU.

    Example: trainyard runtimes list --framework torch
    """
    raise typer.Exit(run_list(stack=stack, framework=framework, output=output))


@app.command(name="show")
def show_command(
    name: Annotated[str, typer.Argument(help="Name of the runtime.", autocompletion=names_of)],
    stack: Stack = None,
    output: Printed = Output.TEXT,
) -> None:
    """Show a runtime: who it is for, and a TrainJob on it.

    Example: trainyard runtimes show torch-checkpointed
    """
    raise typer.Exit(run_show(name, stack=stack, output=output))


def one_of(name: str, by_name: Mapping[str, Any]) -> Any:
    """The entry with a name; raises `PlatformError` with the nearest name."""
    if name not in by_name:
        raise PlatformError(
            f"there is no runtime {name!r} (there are: {', '.join(by_name)}){hint(name, by_name)}"
        )
    return by_name[name]


def _image(manifest: Mapping[str, Any]) -> str | None:
    for job in overlay.training_jobs(manifest):
        if overlay.step(job) == names.ANCESTOR_TRAINER:
            for container in job["template"]["spec"]["template"]["spec"]["containers"]:
                if container["name"] == names.NODE:
                    image: str | None = container.get("image")
                    return image
    return None


def _deprecation(entry: Entry) -> str:
    """Before what a runtime is for: whether it is deprecated, and what takes its place."""
    successors = f" (use {' or '.join(entry.successors)})" if entry.successors else ""
    return f"Deprecated{successors}: " if entry.deprecated else ""


def _shown(entry: Entry) -> str:
    short = entry.document()
    rows = [
        ("framework", short["framework"]),
        ("policy", f"{short['policy'] or 'none'}, {short['numNodes']} node(s) unless a TrainJob says more"),
        ("jobs", ", ".join(short["jobs"])),
        ("image", short["image"] or "the TrainJob's"),
        ("ran on", entry.places),
        ("file", short["file"]),
    ]
    lines = [f"{short['name']}: {short['summary']}"]
    lines += ["Deprecated: a later release removes it."] * entry.deprecated
    lines += [f"Optional: a stack has it with runtimes.{short['name']}.enabled: true."] * entry.optional
    lines += ["", *(f"{what + ':':<11}{value}" for what, value in rows), "", entry.header.about, ""]
    return "\n".join(lines) + f"\nExample:\n\n{entry.header.example}"
