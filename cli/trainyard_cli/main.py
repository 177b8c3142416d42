"""Assembles the `trainyard` command, and turns its errors into exit codes.

0: fine. 1: the answer is no. 2: there is no answer. 141: nobody reads the output any more.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from typer.main import get_command

from trainyard_api import places
from trainyard_api.errors import UserError
from trainyard_api.printable import clean

from . import on_demand
from .on_demand import Listed

_DATA_SCIENTISTS: Final = "For data scientists"
_PLATFORM_TEAMS: Final = "For platform teams"
_PULL_REQUESTS: Final = "For pull requests and pipelines"
_TRIALS: Final = "To try it out"

COMMANDS: Final = {
    "run": Listed("run:command", "Send a command as a TrainJob, after a plan.", _DATA_SCIENTISTS),
    "clone": Listed("clone:command", "Send a TrainJob once more, with other settings.", _DATA_SCIENTISTS),
    "jobs": Listed("jobs:command", "List TrainJobs, with state and place in the queue.", _DATA_SCIENTISTS),
    "attach": Listed(
        "attach:command", "Follow a TrainJob to its end: its states, then its logs.", _DATA_SCIENTISTS
    ),
    "logs": Listed("logs:command", "Print the logs of all ranks of a TrainJob.", _DATA_SCIENTISTS),
    "explain": Listed(
        "explain:command", "Show why a TrainJob does not run, and the next step.", _DATA_SCIENTISTS
    ),
    "queue": Listed(
        "queue:command", "Print your queues: quota, free quota and waiting jobs.", _DATA_SCIENTISTS
    ),
    "nodes": Listed(
        "nodes:command", "Print the node pools: free and used resources, unhealthy nodes.", _DATA_SCIENTISTS
    ),
    "cancel": Listed("cancel:command", "Delete TrainJobs, after showing what they lose.", _DATA_SCIENTISTS),
    "suspend": Listed("suspend:command", "Suspend TrainJobs; their checkpoints stay.", _DATA_SCIENTISTS),
    "resume": Listed("resume:command", "Resume suspended TrainJobs.", _DATA_SCIENTISTS),
    "retry": Listed("retry:command", "Send a TrainJob again, as it was written.", _DATA_SCIENTISTS),
    "exec": Listed("exec:command", "Open a shell in the pod of a rank.", _DATA_SCIENTISTS),
    "cp": Listed("cp:command", "Copy files from or to a rank of a TrainJob.", _DATA_SCIENTISTS),
    "ports": Listed(
        "ports:command", "Forward ports of this machine to a rank of a TrainJob.", _DATA_SCIENTISTS
    ),
    "seff": Listed("seff:command", "Compare what a TrainJob uses with what it requests.", _DATA_SCIENTISTS),
    "dump": Listed("dump:command", "Collect the state of a TrainJob for support.", _DATA_SCIENTISTS),
    "runtimes": Listed("runtimes:app", "The catalog of runtimes for TrainJobs.", _DATA_SCIENTISTS),
    "validate": Listed(
        "validate:command", "Print whether admission would accept a TrainJob or runtime.", _DATA_SCIENTISTS
    ),
    "render": Listed(
        "render:command", "Print what the operator would create for a TrainJob.", _DATA_SCIENTISTS
    ),
    "migrate": Listed("migrate:command", "Turn jobs of older APIs into TrainJobs.", _DATA_SCIENTISTS),
    "init": Listed("init:command", "Make a repository for a site of your own.", _PLATFORM_TEAMS),
    "show": Listed(
        "show:command", "Print what a site has, where it comes from and what it hides.", _PLATFORM_TEAMS
    ),
    "preview": Listed(
        "preview:command", "Preview what `up` would change, and its effect on TrainJobs.", _PLATFORM_TEAMS
    ),
    "up": Listed("up:command", "Roll out a stack, after showing the changes.", _PLATFORM_TEAMS),
    "drift": Listed(
        "drift:command", "Show where the cluster differs from git, and who changed it.", _PLATFORM_TEAMS
    ),
    "manifests": Listed(
        "manifests:command", "Write a stack as plain manifests, one folder per wave.", _PLATFORM_TEAMS
    ),
    "adopt": Listed(
        "adopt:command", "Take a cluster over from Kubeflow Trainer's own controller.", _PLATFORM_TEAMS
    ),
    "destroy": Listed(
        "destroy:command", "Remove a stack's platform from its cluster; TrainJobs stay.", _PLATFORM_TEAMS
    ),
    "verify": Listed(
        "verify:command", "Check stack files, runtimes, and the rules on each stack.", _PULL_REQUESTS
    ),
    "lint": Listed("lint:command", "Check runtimes and TrainJobs against the policy rules.", _PULL_REQUESTS),
    "impact": Listed(
        "impact:command", "List the TrainJobs that a change of stack or catalog affects.", _PULL_REQUESTS
    ),
    "stacks": Listed(
        "stacks:command", "Print the stacks, or those that a change affects, as JSON.", _PULL_REQUESTS
    ),
    "report": Listed("report:command", "Report the effects of a pull request, as Markdown.", _PULL_REQUESTS),
    "sandbox": Listed("sandbox:app", "A real Kubernetes on this machine, without Docker.", _TRIALS),
    "operator": Listed("operator:app", "The operator, run from a shell.", _TRIALS),
}
"""Each command. Help lists them in this order."""

_OF_A_SITE: Final = (_PLATFORM_TEAMS, _PULL_REQUESTS)
"""Headings of the commands that work on a site, and so need the version that it pins."""

app = typer.Typer(
    cls=on_demand.group(COMMANDS),
    help="Distributed AI training on Kubernetes, declared in git.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def version(clone: Path) -> str:
    """The version of the package, and in a clone that is not at its tag also the commit.

    Args:
        clone: The folder that the package's source root is in. Without a repository of its own, as where a
            wheel is installed, it is no clone.
    """
    from importlib import metadata  # noqa: PLC0415 - nobody else needs it

    package = metadata.version("trainyard")
    commit = _describe(clone) if (clone / ".git").exists() else ""
    return f"trainyard {package}" + (f" ({commit})" if commit not in ("", f"v{package}") else "")


def _describe(clone: Path) -> str:
    """The last version tag of a clone and its commit, or only the commit; empty where git cannot say."""
    import subprocess  # noqa: PLC0415 - nobody else needs it

    command = ["git", "-C", str(clone), "describe", "--tags", "--match=v*", "--always", "--abbrev=12"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _print_version(flag: bool) -> None:
    if flag:
        typer.echo(version(Path(__file__).parents[2]))
        raise typer.Exit


@app.callback()
def trainyard(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Keep this a group, though commands are registered only on demand."""
    if (note := elsewhere()) is not None:
        print(note, file=sys.stderr)
    listed = COMMANDS.get(context.invoked_subcommand or "")
    if listed is not None and listed.heading in _OF_A_SITE and (why := other_version()) is not None:
        raise UserError(why)


def other_version() -> str | None:
    """Why this version is not the one that the site pins; None if it is, or if it pins none."""
    from importlib.metadata import version  # noqa: PLC0415 - nobody else needs it

    from .files import pin  # noqa: PLC0415 - nor this

    try:
        file = places.site().root / pin.FILE
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, places.PlaceError):
        return None
    own = version("trainyard")
    pinned = pin.read(text)
    if pinned is None or pinned.version == own:
        return None
    return (
        f"{places.shown(file)}:{pinned.line}: pins trainyard {pinned.version}, and this is {own}: install "
        "the pinned one (make environment) and call it as .venv/bin/trainyard"
    )


def elsewhere() -> str | None:
    """What to say first where the files of one clone are read by the code of another; None elsewhere."""
    try:
        site = places.site()
    except places.PlaceError:
        return None  # which the commands that need a site report
    if site.root == places.DATA or not (site.is_clone or places.SHIPPED.is_clone):
        return None
    return f"Working on {site.root}, with the Trainyard of {places.DATA}"


_PLUGIN: Final = "kubectl-trainyard"
"""The name of the command on PATH by which `kubectl trainyard` finds it."""
_COMPLETE: Final = "_TRAINYARD_COMPLETE"
"""The variable by which a shell asks for completions, under whichever name the command is called."""

_COMPLETION_OPTIONS: Final = ("install_completion", "show_completion")
"""What typer adds to the command."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""What a write says on a full disk."""


def main() -> None:
    """Entry point of the command, also as a plugin of kubectl."""
    _open_what_is_closed()
    _write_any_character()
    called = Path(sys.argv[0]).stem
    name = "kubectl trainyard" if called == _PLUGIN else None
    command = get_command(app)
    if called.startswith("kubectl"):
        # Typer's script would complete kubectl itself; kubectl asks `complete_for_kubectl`.
        command.params = [param for param in command.params if param.name not in _COMPLETION_OPTIONS]
    first = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    _add_rules(first)
    run = partial(command, prog_name=name, complete_var=_COMPLETE)
    if first == "sandbox" and sys.platform != "linux":  # elsewhere, it cannot even be imported
        run = _refuse_sandbox
    try:
        sys.exit(exit_code(lambda: _written(run)))
    except BrokenPipeError:
        sys.exit(on_demand.READER_GONE)


def _written(command: Callable[[], int]) -> int:
    """Run a command, and write all of its output."""
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.errno in _FULL:
            # Python flushes once more at its end, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _refuse_sandbox() -> int:
    raise UserError("trainyard sandbox needs Linux: run it in a virtual machine with Debian or Ubuntu")


def _open_what_is_closed() -> None:
    """Where an input or output is closed, as by `<&-`, have an empty one, also for who uses its number.

    Otherwise the next file that is opened would get the number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - to the end


def _write_any_character() -> None:
    """Write as an escape what the output's encoding lacks: on stderr, Python does so itself."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")


def _add_rules(command: str) -> None:
    """Have a command that works on a site hold to the site's own rules (docs/adr/0046).

    Before it is imported, for that takes the rules in; and only then, for rules are code, and not every
    folder in which somebody looks at a TrainJob deserves the trust that a site does.
    """
    listed = COMMANDS.get(command)
    if listed is None or listed.heading not in _OF_A_SITE:
        return
    try:
        site = places.site()
    except places.PlaceError:
        return
    if site.beneath is not None:
        from trainyard_policies import site as rules  # noqa: PLC0415 - only where there may be some

        rules.__path__.insert(0, str(site.policies / "site"))


def complete_for_kubectl() -> None:
    """Entry point of `kubectl_complete-trainyard`: the completions of the last argument, one a line."""
    words = ["trainyard", *sys.argv[1:]]
    os.environ.update(
        {
            _COMPLETE: "complete_bash",
            "COMP_WORDS": shlex.join(words),
            "COMP_CWORD": str(max(1, len(words) - 1)),
        }
    )
    main()


def _missing_without_name(error: OSError) -> str | None:
    """The message if the current folder is missing, or one for temporary files: errors without a name."""
    if error.errno != errno.ENOENT or error.filename is not None:
        return None
    if error.strerror != os.strerror(errno.ENOENT):  # as of tempfile, which lists the folders that it tried
        return clean(f"{error.strerror}: make one of them writable and make room, or set TMPDIR")
    try:
        os.getcwd()
    except FileNotFoundError:
        return places.GONE
    return None


def exit_code(command: Callable[[], int]) -> int:
    """The exit code of a command; that of the error that ends it, which goes to stderr."""
    try:
        return command()
    except UserError as error:
        print(error.shown, file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("trainyard_"):
            raise
        if error.name in sys.stdlib_module_names:
            print(
                f"This command needs Linux or macOS: Python has no {error.name} here. On Windows, use WSL",
                file=sys.stderr,
            )
            return UserError.exit_code
        print(
            f"The Python package {error.name.partition('.')[0]} is missing, which only some commands need: "
            "pip install 'trainyard[site,operator]'",
            file=sys.stderr,
        )
        return UserError.exit_code
    except OSError as error:
        # Asking whether a file exists raises too, where a folder may not be searched or a name is too long.
        is_full, has_name = error.errno in _FULL, isinstance(error.filename, str)
        if sentence := _missing_without_name(error):
            print(sentence, file=sys.stderr)
            return UserError.exit_code
        if isinstance(error, BrokenPipeError) or not (is_full or has_name):
            raise
        place = f"{error.filename}: " if has_name else ""  # a write does not know the file
        way_out = ": make room (`df -h` and `quota` show where), then run it again" if is_full else ""
        print(clean(f"{place}{error.strerror}{way_out}"), file=sys.stderr)
        return UserError.exit_code
