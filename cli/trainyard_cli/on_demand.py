"""Commands that are imported on demand.

Called by `main` and `runtimes`, which name the module of each of their commands
and the line that help has for it. No command waits for imports that only
another one needs, such as Pulumi or the sandbox, and help and completion wait
for none.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

READER_GONE: Final = 128 + getattr(signal, "SIGPIPE", 13)  # Windows has none
"""The exit code where nobody reads the output any more, as shells report it of other programs."""
_HEADING: Final = "Commands"
_MARGINS: Final = 6
"""Columns before, between and after the names and the summaries."""


class Listed(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        place: The module in `commands`, and the function or the group in it: `lint:command`.
        summary: The first line of its help, which fits into 80 columns.
        heading: What help lists it under.
    """

    place: str
    summary: str
    heading: str = _HEADING


def group(modules: Mapping[str, Listed]) -> type[TyperGroup]:
    """A class of groups (`typer.Typer(cls=...)`) that imports these commands on demand.

    Args:
        modules: By the command's name. They come after the commands that the group already has.
    """

    class OnDemand(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self._on_demand = _Commands(dict(self.commands), modules)
            self.commands = self._on_demand

        def list_commands(self, _context: Any) -> list[str]:
            return list(self.commands)

        def format_commands(self, _context: Any, formatter: Any) -> None:
            listed = self._on_demand.listed()
            headings = {name: modules[name].heading if name in modules else _HEADING for name in listed}
            width = max(map(len, listed))
            room = formatter.width - width - _MARGINS
            for heading in dict.fromkeys(headings.values()):
                names = [name for name in listed if headings[name] == heading]
                with formatter.section(heading):
                    formatter.write_dl(
                        [(name.ljust(width), listed[name].get_short_help_str(room)) for name in names]
                    )

        def invoke(self, context: Any) -> Any:
            try:
                return super().invoke(context)
            except BrokenPipeError:  # here, because typer ends by 1, the answer no
                raise SystemExit(READER_GONE) from None

        def shell_complete(self, context: Any, incomplete: str) -> Any:
            self.commands = self._on_demand.listed()  # names and summaries are enough
            try:
                return super().shell_complete(context, incomplete)
            finally:
                self.commands = self._on_demand

    return OnDemand


class _Commands(MutableMapping[str, Any]):
    """Commands by name; imports each at its first use."""

    def __init__(self, here: dict[str, Any], modules: Mapping[str, Listed]) -> None:
        self._here = here
        self._modules = modules

    def listed(self) -> dict[str, Any]:
        """All of them; in the place of each that is not imported, its name and its summary."""
        return {
            name: self._here[name]
            if name in self._here
            else TyperCommand(name, help=self._modules[name].summary)
            for name in self
        }

    def __getitem__(self, name: str) -> Any:
        if name not in self._here:
            self._here[name] = _imported(name, self._modules[name].place)
        return self._here[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._here, *self._modules]))

    def __len__(self) -> int:
        return len(set(self._here) | set(self._modules))

    def __setitem__(self, name: str, command: Any) -> None:
        self._here[name] = command

    def __delitem__(self, name: str) -> None:
        del self._here[name]


def _imported(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    command = getattr(import_module(f"{__package__}.commands.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        alone.add_typer(command, name=name)
    else:
        alone.command(name)(command)
    return get_group(alone).commands[name]
