"""`trainyard run`: a command and a few settings become a TrainJob, after a plan and a yes.

Called by `main`, which adds `command` to the application, and by `clone`. Prints
and asks; `run_workspace` packs its folder, `cluster.run` drafts and sends the
TrainJob, `trainyard_assist.run` makes it, and `attach` follows it.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api import documents
from trainyard_api.errors import InvalidFieldError, UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist.run import plan, settings
from trainyard_assist.run.interactive import IDLE, LIMIT
from trainyard_assist.run.plan import Draft
from trainyard_assist.run.settings import Settings
from trainyard_assist.run.trainjob import SUFFIX, SUFFIX_LENGTH
from trainyard_assist.webhooks import in_words
from trainyard_assist.workspace import Packed
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import Credentials

from ..cluster import connection, job_names
from ..cluster import run as cluster
from ..confirmation import confirmed
from ..files import run_settings
from ..options import Context, Kubeconfig, Namespace, same_place
from ..output import FINE, REFUSED, Form, write_json
from . import attach, run_interactive, run_local, run_volume, run_workspace
from .questions import require_names
from .run_interactive import Shell

_HERE: Final = Path()


def run(
    words: Sequence[str] = (),
    options: Mapping[str, Any] = {},
    *,
    copied: str = "",
    yes: bool = False,
    dry_run: bool = False,
    detach: bool = False,
    local: bool = False,
    shell: Shell | None = None,
    form: Form = Form.TEXT,
    ask: Callable[[str], bool] | None = None,
    folder: Path = _HERE,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Plan a TrainJob, send it once its user has said yes, and follow it; returns the exit code.

    That of the TrainJob, as `attach` has it. Of one that is not followed, 0: it is sent, or was only planned;
    1: admission refuses it, or nobody has said yes.

    Args:
        words: Its command; none for that of `trainyard.yaml`, of the runtime or of `copied`.
        options: Settings by the names of their options; None for those that are not given.
        copied: The TrainJob that it is a copy of; empty for none. A copy has no settings of the folder.
        yes: Send it without a question.
        dry_run: Send nothing.
        detach: Send it, and return without following it.
        local: Run it on this machine, and send nothing.
        shell: Send a TrainJob that waits, and open this in its first rank; None: it runs the command.
        form: YAML and JSON print the TrainJob, and do not follow it: what is stored or, of a dry run, what
            would be sent.
        ask: The answer to a question; None without a terminal.
        folder: Where it is run.
        namespace: Its namespace; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        out: Where the answer goes.
        err: Where the plan goes if the answer is a document, and questions.

    Raises:
        UserError: A setting is wrong, something that it names is not there, or the cluster does not answer.
    """
    out, err = out or sys.stdout, err or sys.stderr
    talk = out if form is Form.TEXT else err
    require_names(copied or None, namespace or None)
    _check_options(local=local, dry_run=dry_run, detach=detach, shell=shell, form=form)
    if not yes and not dry_run and not local and ask is None:
        raise UserError("there is no terminal to ask: --yes sends it, --dry-run only plans it")
    chosen = _settings(words, options, folder, is_copy=bool(copied))
    if local:
        here = run_settings.workspace(folder, chosen) or folder
        return run_local.run(
            chosen, here, namespace=namespace, kubeconfig=kubeconfig, context=context, out=out, err=err
        )
    credentials = connection.load(kubeconfig, context)
    try:
        packed, remarks = _packed(
            folder, chosen, None if yes or dry_run else ask, is_copy=bool(copied), has_shell=shell is not None
        )
        request = cluster.Request(
            namespace=namespace or credentials.namespace,
            settings=chosen,
            suffix=_suffix,
            folder=run_settings.label(folder),
            copied=copied,
            packed=packed,
            remarks=remarks,
            waiting=None if shell is None else shell.waiting,
        )
        draft, lines = _draft(credentials, request)
        talk.writelines(f"{line}\n" for line in lines)
        talk.flush()
        if dry_run:
            _print_draft(draft, packed, form, out, err)
        if draft.refusal or dry_run:
            return REFUSED if draft.refusal else FINE
        if not yes and not (ask is not None and ask("Send it?")):
            print("Nothing has been sent.", file=err)
            return REFUSED
        if draft.carrier is not None and packed is not None:
            run_volume.bring(credentials, draft.carrier, packed, err=err)
    except KeyboardInterrupt:
        print("Nothing has been sent.", file=err)
        return REFUSED
    except ApiError as error:
        raise UserError(clean(f"{credentials.source}: {in_words(str(error))}")) from error
    again = same_place(namespace, kubeconfig, context)
    send = partial(_send, draft=draft, is_generated=not chosen.name)
    if shell is not None:
        return run_interactive.run(credentials, draft.trainjob, send, shell, out=out, err=err)
    try:
        stored = connection.ask(credentials, "run", send)
    except KeyboardInterrupt as interrupt:
        name = draft.trainjob["metadata"]["name"]
        look = shlex.join(["trainyard", "jobs", *again])
        # The first Ctrl-C cancels and waits; a second one ends the wait.
        is_withdrawn = draft.secret and isinstance(interrupt.__context__, asyncio.CancelledError)
        state = "is not sent, or deleted again" if is_withdrawn else "may have been sent"
        print(f"Interrupted: TrainJob {name} {state}. Look: {look}", file=err)
        return REFUSED
    _print([stored], form, out)
    name, within = stored["metadata"]["name"], stored["metadata"]["namespace"]
    print(clean(f"TrainJob {within}/{name} is sent."), file=talk, flush=True)
    if detach or form is not Form.TEXT:
        print(clean(f"To follow it: {shlex.join(['trainyard', 'attach', name, *again])}"), file=talk)
        return FINE
    return attach.attach(credentials, within, name, again=again, out=out, err=err)


def _check_options(*, local: bool, dry_run: bool, detach: bool, shell: Shell | None, form: Form) -> None:
    is_printed = form is not Form.TEXT
    if local and (dry_run or detach or is_printed):
        raise UserError("--local sends nothing, and plans nothing: leave out --dry-run, --detach and -o")
    if shell is not None and (local or detach or (is_printed and not dry_run)):
        raise UserError("--interactive opens a shell: leave out --local, --detach and -o")


def _settings(words: Sequence[str], options: Mapping[str, Any], folder: Path, *, is_copy: bool) -> Settings:
    """The command line, then the head of the script, then the folder's file."""
    of_line = settings.of_options({**options, "command": list(words)})
    if is_copy:
        return of_line
    of_folder = run_settings.of_folder(folder)
    home = folder / (of_line.workspace or of_folder.workspace or "")
    of_script = run_settings.of_script(home, of_line.command or of_folder.command)
    return settings.merged([of_folder, of_script, of_line])


def _packed(
    folder: Path, chosen: Settings, ask: Callable[[str], bool] | None, *, is_copy: bool, has_shell: bool
) -> tuple[Packed | None, tuple[str, ...]]:
    """The folder that travels, and what the plan says of it."""
    workspace = run_settings.workspace(folder, chosen, is_copy=is_copy)
    if workspace is None and has_shell and chosen.workspace is None:
        workspace = folder
    if workspace is None:
        return None, ()
    subject = "the requirements are" if chosen.requirements else "the script is"
    why = "the shell starts" if has_shell else subject
    return run_workspace.packed(
        workspace,
        ask,
        reason="" if chosen.workspace is not None else f"{why} in this folder",
        script=run_settings.script(workspace, chosen),
        requirements=run_settings.requirements(folder, workspace, chosen),
        claim=chosen.workspace_volume or "",
    )


def _suffix() -> str:
    return "".join(secrets.choice(SUFFIX) for _ in range(SUFFIX_LENGTH))


def _draft(credentials: Credentials, request: cluster.Request) -> tuple[Draft, list[str]]:
    warnings: list[str] = []

    async def look(client: Client) -> tuple[Draft, list[str]]:
        draft = await cluster.draft(client, request, warnings)
        return draft, list(plan.lines(draft, client.time.now()))

    try:
        return connection.ask(credentials, "run", look, warned=warnings.append)
    except InvalidFieldError as error:
        raise UserError(clean(str(error))) from error


async def _send(client: Client, draft: Draft, *, is_generated: bool) -> dict[str, Any]:
    base = draft.trainjob["metadata"]["name"][:-SUFFIX_LENGTH]
    try:
        return await cluster.send(client, draft, (lambda: f"{base}{_suffix()}") if is_generated else None)
    except ApiError as error:
        source = client.credentials.source
        raise UserError(clean(f"{source}: nothing has been sent: {in_words(str(error))}")) from error


def _print_draft(draft: Draft, packed: Packed | None, form: Form, out: TextIO, err: TextIO) -> None:
    """Print what would be sent, and say what it lacks if its folder is to be on a volume."""
    _print([draft.trainjob, *([draft.secret] if draft.secret else [])], form, out)
    if draft.carrier is not None and packed is not None and form is not Form.TEXT:
        sentence = (
            f"The folder may not be on PersistentVolumeClaim {packed.claim} yet, and without it the TrainJob "
            "fails: `trainyard run` without --dry-run brings it there first"
        )
        print(clean(sentence), file=err)


def _print(manifests: Sequence[Json], form: Form, out: TextIO) -> None:
    match form:
        case Form.YAML:
            out.write(documents.dump(manifests))
        case Form.JSON if len(manifests) == 1:
            write_json(manifests[0], out)
        case Form.JSON:
            write_json({"apiVersion": "v1", "kind": "List", "items": manifests}, out)
        case Form.TEXT:
            pass


def ask_on_terminal() -> Callable[[str], bool] | None:
    """Asks the user; None if there is no terminal to ask on."""
    return confirmed if sys.stdin.isatty() else None


Words = Annotated[
    list[str] | None, typer.Argument(help="What to run on each node, after --.", metavar="COMMAND")
]
OfRuntime = Annotated[
    str | None,
    typer.Option(
        help=f"The runtime; by default {cluster.DEFAULT_RUNTIME}.",
        autocompletion=job_names.completed_runtimes,
    ),
]
Nodes = Annotated[int | None, typer.Option(help="Number of nodes; by default the runtime's.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs of each node.")]
Cpus = Annotated[str | None, typer.Option(help="CPUs of each node, such as 8 or 500m.")]
Memory = Annotated[str | None, typer.Option(help="Memory of each node, such as 64Gi.")]
OfQueue = Annotated[
    str | None,
    typer.Option(
        help="LocalQueue; by default that of the namespace.", autocompletion=job_names.completed_queues
    ),
]
Priority = Annotated[str | None, typer.Option(help="Its WorkloadPriorityClass.")]
Name = Annotated[str | None, typer.Option(help="Name of the TrainJob; by default from the script's name.")]
Image = Annotated[str | None, typer.Option(help="Image of the nodes; by default the runtime's.")]
Env = Annotated[
    list[str] | None, typer.Option(help="A variable of the nodes; may be repeated.", metavar="KEY=VALUE")
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        help="A Secret whose keys become variables, or NAME:KEY for one of them; may be repeated.",
        metavar="NAME",
    ),
]
OfWorkspace = Annotated[
    str | None,
    typer.Option(
        help="Send this folder too, and start the command in it; by default the current folder, "
        "if it has the command's script.",
        metavar="DIR",
    ),
]
Requirements = Annotated[
    str | None,
    typer.Option(
        help="A file of the folder: pip installs what it names on each node, before the command.",
        metavar="FILE",
    ),
]
WorkspaceVolume = Annotated[
    str | None,
    typer.Option(
        help="A PersistentVolumeClaim of yours, over which a folder travels that is larger than 700 KiB.",
        metavar="CLAIM",
    ),
]
NoWorkspace = Annotated[bool, typer.Option("--no-workspace", help="Send no folder.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Send it without confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and send nothing.")]
Local = Annotated[bool, typer.Option("--local", help="Run it on this machine, without a cluster.")]
Interactive = Annotated[
    bool,
    typer.Option(
        "--interactive", "-i", help="Send a job that waits, and open a shell in rank 0, or run COMMAND there."
    ),
]
KeepJob = Annotated[bool, typer.Option("--keep", help="Of --interactive: the job continues after the shell.")]
TimeLimit = Annotated[
    str | None,
    typer.Option(help=f"Of --interactive: how long the job runs at most; by default {LIMIT}.", metavar="2h"),
]
IdleLimit = Annotated[
    str | None,
    typer.Option(
        help="Of --interactive, on one node: how long the job continues when nobody uses it; "
        f"by default {IDLE}, 0s for no limit.",
        metavar="30m",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Send it, and do not follow it.")]
OfForm = Annotated[
    Form, typer.Option("--output", "-o", help="Print the TrainJob, which may be applied with kubectl.")
]


def of_workspace(workspace: str | None, *, none: bool) -> str | None:
    """The setting that the two options stand for: empty for no folder."""
    if none and workspace:
        raise UserError("--workspace and --no-workspace contradict each other")
    return "" if none else workspace


def command(
    words: Words = None,
    *,
    runtime: OfRuntime = None,
    nodes: Nodes = None,
    gpus: Gpus = None,
    cpus: Cpus = None,
    memory: Memory = None,
    queue: OfQueue = None,
    priority: Priority = None,
    name: Name = None,
    image: Image = None,
    env: Env = None,
    secret: Secrets = None,
    workspace: OfWorkspace = None,
    no_workspace: NoWorkspace = False,
    workspace_volume: WorkspaceVolume = None,
    requirements: Requirements = None,
    interactive: Interactive = False,
    keep: KeepJob = False,
    time_limit: TimeLimit = None,
    idle_limit: IdleLimit = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    local: Local = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OfForm = Form.TEXT,
) -> None:
    """Send a command as a TrainJob, after a plan.

    Says first what it gets, where it would wait and what admission answers, asks, and then follows it
    as attach does. A script of the folder that you are in takes that folder along. Python starts
    under torchrun on runtimes of PyTorch, and any program under mpirun on those of MPI, unless the
    command says so itself. Settings can stand in trainyard.yaml, and in lines #TRAINYARD --nodes 4
    at the head of the script; the command line wins. With --interactive the job waits, a shell opens
    in rank 0 in your folder, and the job ends with the shell. The exit code is the job's or the
    shell's. 130: Ctrl-C while it follows the job, which continues; before the shell opens, it deletes
    the job. 1: it is refused, nobody said yes, or Ctrl-C came before it was sent; 2: a setting is
    wrong, or the cluster could not be queried.

    Example: trainyard run --nodes 2 --gpus 8 -- python train.py --epochs 3

    Example: trainyard run --dry-run -o yaml -- python train.py

    Example: trainyard run --local --nodes 2 -- python train.py

    Example: trainyard run --interactive --gpus 1 --time-limit 2h
    """
    if not interactive and (keep or time_limit is not None or idle_limit is not None):
        raise UserError("--keep, --time-limit and --idle-limit are options of --interactive")
    raise typer.Exit(
        run(
            words or (),
            {
                "runtime": runtime,
                "nodes": nodes,
                "gpus": gpus,
                "cpus": cpus,
                "memory": memory,
                "queue": queue,
                "priority": priority,
                "name": name,
                "image": image,
                "env": env,
                "secret": secret,
                "workspace": of_workspace(workspace, none=no_workspace),
                "workspace-volume": workspace_volume,
                "requirements": requirements,
            },
            yes=yes,
            dry_run=dry_run,
            detach=detach,
            local=local,
            shell=Shell.of(words or (), time_limit, idle_limit, keep=keep) if interactive else None,
            form=output,
            ask=ask_on_terminal(),
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
