"""Commands that are imported on demand.

Called by `main` and `runtimes`, which name the module of each of their commands.
No command waits for imports that only another one needs, such as Pulumi or the
sandbox. Only help imports all, since it prints a line about each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group


def group(modules: Mapping[str, str]) -> type[TyperGroup]:
    """A class of groups (`typer.Typer(cls=...)`) that imports these commands on demand.

    Args:
        modules: By the command's name, the module in `commands` and the function or the
            group in it: `{"lint": "lint:command"}`. They come after the commands that the
            group already has.
    """

    class OnDemand(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = _Commands(dict(self.commands), modules)

        def list_commands(self, _context: Any) -> list[str]:
            return list(self.commands)

    return OnDemand


class _Commands(MutableMapping[str, Any]):
    """Commands by name; imports each at its first use."""

    def __init__(self, here: dict[str, Any], modules: Mapping[str, str]) -> None:
        self._here = here
        self._modules = modules

    def __getitem__(self, name: str) -> Any:
        if name not in self._here:
            self._here[name] = _imported(name, self._modules[name])
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
    found = getattr(import_module(f"{__package__}.commands.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    return get_group(alone).commands[name]
