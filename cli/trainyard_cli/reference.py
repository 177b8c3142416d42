"""The reference of the `trainyard` command, made from its commands.

`make generate` writes the page that is checked in; a test fails when the two differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from typer.main import get_command

from trainyard_api.markdown import code, prose, table

from .main import COMMANDS, app

_EXAMPLE: Final = "Example: "
_HEAD: Final = """\
# The trainyard command

<!-- Made from the commands by `make generate`; do not edit. -->

`trainyard COMMAND --help` prints what this page says about a command. The options of \
`trainyard operator run` are on [the operator's page](../configuration.md). Installed beside kubectl, the \
command is also its plugin: `kubectl trainyard jobs`.

The exit code is 0 if all is well, 1 if the answer is no, and 2 if there is no answer: the usage is wrong, a \
file cannot be read, or a cluster cannot be reached. Results go to stdout, everything else to stderr.
"""


def page() -> str:
    """The whole page."""
    group: Any = get_command(app)
    context = group.context_class(group, info_name="trainyard")
    sections = (
        _group(heading, list(names), group, context)
        for heading, names in groupby(COMMANDS, lambda name: COMMANDS[name].heading)
    )
    options = _parameters(group, context, "option")
    return "\n".join((_HEAD, *options, *(line for section in sections for line in section)))


def _group(heading: str, names: list[str], group: Any, context: Any) -> Iterator[str]:
    commands = {name: group.commands[name] for name in names}
    yield from (f"## {heading}", "")
    yield from _contents(commands, context)
    for name, command in commands.items():
        yield from _command(command, name, context)


def _contents(commands: Mapping[str, Any], context: Any) -> Iterator[str]:
    yield from table(
        ("command", "what it does"),
        (
            (f"[{code(path)}](#{path.replace(' ', '-')})", prose(_texts(command)[0][0]))
            for path, command in ((f"{context.command_path} {name}", commands[name]) for name in commands)
        ),
    )


def _command(command: Any, name: str, parent: Any) -> Iterator[str]:
    """The section of a command, and after it those of its own commands."""
    context = command.context_class(command, info_name=name, parent=parent)
    paragraphs, examples = _texts(command)
    yield from (f"### {context.command_path}", "")
    for paragraph in paragraphs:
        yield from (prose(paragraph), "")
    yield from _console([" ".join((context.command_path, *command.collect_usage_pieces(context)))])
    yield from _parameters(command, context, "argument")
    yield from _parameters(command, context, "option")
    if examples:
        yield from ("For example:", "")
        yield from _console(examples)
    if commands := getattr(command, "commands", {}):
        yield from _contents(commands, context)
        for below in commands:
            yield from _command(commands[below], below, context)


def _parameters(command: Any, context: Any, kind: str) -> Iterator[str]:
    """The table of a command's arguments or options; none has its `--help`, which each command takes."""
    records = [
        parameter.get_help_record(context)
        for parameter in command.get_params(context)
        if parameter.param_type_name == kind and parameter.name != "help"
    ]
    if rows := [(code(names), prose(words)) for names, words in filter(None, records)]:
        yield from table((kind, "what it is"), rows)


def _console(commands: list[str]) -> Iterator[str]:
    yield "```console"
    yield from (f"$ {command}" for command in commands)
    yield from ("```", "")


def _texts(command: Any) -> tuple[list[str], list[str]]:
    """The paragraphs of a command's help, and the commands of its examples."""
    lines = inspect.cleandoc(command.help or "").splitlines()
    examples = [line.removeprefix(_EXAMPLE) for line in lines if line.startswith(_EXAMPLE)]
    rest = "\n".join(line for line in lines if not line.startswith(_EXAMPLE))
    return [paragraph for paragraph in rest.split("\n\n") if paragraph.strip()], examples
