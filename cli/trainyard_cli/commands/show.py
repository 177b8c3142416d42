"""`trainyard show`: what a site has, where each of it comes from, and what it hides.

Called by `main`, which adds `command` to the application. Reads files and prints; docs/adr/0046 has the
rules by which a site joins what comes with Trainyard.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import places, stack_yaml
from trainyard_api.places import Site
from trainyard_api.printable import clean
from trainyard_platform.catalog import images
from trainyard_platform.stack import settings
from trainyard_platform.stack.settings import CONFIG_KEY
from trainyard_policies.parameters import Parameters
from trainyard_policies.site.parameters import PARAMETERS

from ..files import stackfile
from ..options import Printed
from ..output import FINE, Output, aligned, near, write_json

_HAS_NO_DEFAULT: Final = ("operator", "image")
"""The one value that a stack has to set."""
_LONGEST: Final = 60
"""Characters of a value in a table."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that applies."""

    kind: str
    """`runtime`, `image`, `parameter` or `value`."""
    name: str
    value: Any
    origin: str
    """The file that it comes from, with its line where it has one, or the version of Trainyard."""
    hides: Any = None
    """What would apply without it: the file of a runtime, or a value; None: nothing."""

    def document(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {"from" if key == "origin" else key: value for key, value in asdict(self).items()}


def run(
    *,
    stack: str | None = None,
    origin: bool = False,
    output: Output = Output.TEXT,
    site: Site | None = None,
    out: TextIO | None = None,
) -> int:
    """Print the runtimes, digests and parameters of a site, and the values of a stack; returns the exit code.

    Raises:
        UserError: A file is wrong, or the current folder is in no site.
    """
    out, site = out or sys.stdout, site or places.site()
    rows = [*_runtimes(site), *_images(site), *_parameters(site), *(_values(site, stack) if stack else ())]
    if output is Output.JSON:
        write_json([row.document() for row in rows], out)
        return FINE
    columns = ("KIND", "NAME", "VALUE", *(("FROM", "HIDES") if origin else ()))
    cells = [(row.kind, row.name, _short(row.value), row.origin, _short(row.hides)) for row in rows]
    out.writelines(f"{line}\n" for line in aligned(columns, [row[: len(columns)] for row in cells]))
    return FINE


def command(
    *,
    stack: Annotated[
        str | None, typer.Option(help="Also the values of stacks/Pulumi.NAME.yaml.", metavar="NAME")
    ] = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Also where each comes from, and what it hides.")
    ] = False,
    output: Printed = Output.TEXT,
) -> None:
    """Print what a site has, where it comes from and what it hides.

    A runtime of the site replaces the one of its name that comes with Trainyard; a digest, a parameter
    of the rules and a value of a stack replace the one that would apply without them.

    Example: trainyard show --origin --stack prod
    """
    raise typer.Exit(run(stack=stack, origin=origin, output=output))


def _shipped() -> str:
    return f"trainyard {version('trainyard')}"


def _runtimes(site: Site) -> Iterator[Row]:
    beneath = {} if site.beneath is None else {path.stem: path for path in places.catalog(site.beneath)}
    for path in sorted(site.catalog, key=lambda path: path.stem):
        hidden = beneath.get(path.stem)
        if hidden == path:
            yield Row("runtime", path.stem, path.parent.name, _shipped())
            continue
        hides = None if hidden is None else f"{_shipped()}: {hidden.parent.name}/{hidden.name}"
        yield Row("runtime", path.stem, path.parent.name, str(near(path)), hides)


def _images(site: Site) -> Iterator[Row]:
    """The digests that the site itself lists."""
    if site.beneath is None:
        return
    beneath = images.load(site.beneath)
    for image, pin in images.load(site.runtimes).items():
        hidden = beneath.get(image)
        origin = str(near(site.runtimes / images.FILE))
        yield Row("image", image, pin.digest, origin, None if hidden is None else hidden.digest)


def _parameters(site: Site) -> Iterator[Row]:
    """The parameters of rules that the site sets for all of its stacks."""
    folder = site.policies / ("trainyard_policies/site" if site.is_clone else "site")
    for name, value in PARAMETERS.items():
        field = Parameters.model_fields[name]
        origin = str(near(folder / "parameters.py"))
        yield Row("parameter", str(field.alias), _plain(value), origin, _plain(field.get_default()))


def _values(site: Site, stack: str) -> Iterator[Row]:
    """What a stack's file sets, each at its line."""
    read = stackfile.read(stack, site.stacks)
    path = site.stacks / places.stack_file(stack)
    written = stack_yaml.load(path.read_text(encoding="utf-8"))["config"][CONFIG_KEY]
    least = {"operator": {"image": read.operator.image}}
    defaults = settings.of(least, stack).model_dump(mode="json", by_alias=True)
    for steps, value in _leaves(written, ()):
        name = ".".join(steps)
        line = stackfile.line(path, f"{CONFIG_KEY}.{name}")
        hidden = _at(defaults, steps)
        hides = None if hidden == value or steps == _HAS_NO_DEFAULT else hidden
        yield Row("value", name, value, f"{near(path)}:{line}", hides)


def _leaves(value: Any, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*steps, str(key)))
    else:
        yield steps, value


def _at(value: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    return json.loads(json.dumps(value, default=str))


def _short(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return clean(text, _LONGEST)
