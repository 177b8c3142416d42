"""The page about the command has what its help has."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_group

from tests.support.checked_in import ROOT, hold
from trainyard_cli import reference
from trainyard_cli.main import app

SECTION = """\
### trainyard resume

Resume suspended TrainJobs.

In a queue they wait for quota. They continue from the last checkpoint that they have saved, or restart from \
the beginning. Exit code 1: one is refused, such as one that has ended; 2: one could not be queried.

```console
$ trainyard resume [OPTIONS] {JOB}...
```

| argument | what it is |
|---|---|
| `JOB <list[str]>` | Names of TrainJobs. [required] |

| option | what it is |
|---|---|
| `-n, --namespace <str>` | Namespace of the TrainJobs; by default that of the context. |
| `--kubeconfig <str>` | Kubeconfig file; by default KUBECONFIG or ~/.kube/config. |
| `--context <str>` | Context of the kubeconfig; by default its current one. |
| `-o, --output <text\\|json>` | How to print it. [default: text] |

For example:

```console
$ trainyard resume my-training
$ trainyard resume sweep-1 sweep-2 -n team-a
```
"""


def paths(group: Any, before: str) -> Iterator[str]:
    """The commands of a group, and those below them, as one types them."""
    for name in group.commands:
        command = group.commands[name]
        yield f"{before} {name}"
        if hasattr(command, "commands"):
            yield from paths(command, f"{before} {name}")


@pytest.fixture(scope="module")
def page() -> str:
    return reference.page()


def test_the_page_that_is_checked_in_is_current(page: str) -> None:
    hold(ROOT / "docs/reference/command.md", page)


def test_each_command_has_a_section(page: str) -> None:
    sections = re.findall(r"^### (.+)$", page, re.MULTILINE)
    assert sections == list(paths(get_group(app), "trainyard"))


def test_a_section_says_what_the_command_does_and_how_to_call_it(page: str) -> None:
    _, heading, rest = page.partition("### trainyard resume\n")
    assert heading + rest.partition("\n### ")[0] == SECTION


def test_no_default_that_the_help_of_clone_states_is_one_of_run() -> None:
    commands: Any = get_group(app).commands
    run, clone = (
        {option.name: option.help for option in commands[name].params if "by default" in (option.help or "")}
        for name in ("run", "clone")
    )
    shared = {name for name in run.keys() & clone.keys() if run[name] == clone[name]}
    assert shared == {"namespace", "kubeconfig", "context"}
    assert run.keys() - clone.keys() == {"time_limit", "idle_limit"}
