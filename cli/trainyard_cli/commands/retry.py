"""`trainyard retry`: send a TrainJob again, as its user wrote it.

Called by `main`, which adds `command` to the application. Asks and prints;
`cluster.resend` writes, and `trainyard_assist.resend` makes the manifest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_api import documents
from trainyard_api.errors import UserError
from trainyard_api.json_types import Manifest
from trainyard_assist import read, stops
from trainyard_assist import resend as core
from trainyard_assist.stops import Answer, Outcome, Seen
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials

from ..cluster import connection
from ..cluster.resend import Resending, Stage
from ..confirmation import confirmed
from ..files import unsent
from ..options import Context, Kubeconfig, same_place
from ..output import CANNOT_ASK, FINE, REFUSED, Form, Output
from . import answers
from .questions import Job, query, require_names

VERB: Final = "retry"


def run(
    job: str,
    *,
    ask: Callable[[str], bool],
    name: str | None = None,
    yes: bool = False,
    dry_run: bool = False,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Form = Form.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Send the TrainJob again; returns the exit code.

    0: it is sent, or with `dry_run` printed; 1: nobody has said yes, or it is refused; 2: it could not be
    queried or sent.

    Args:
        job: Its name.
        ask: Gets a question, and returns whether to continue.
        name: The name of the new one; None: its own, which deletes the old one.
        yes: Do not ask.
        dry_run: Print the manifest, and write nothing.
        namespace: Its namespace; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        output: How to print the answer, or the manifest.
        out: Where the answer goes.
        err: Where everything else goes.

    Raises:
        UserError: A name is none or the old one's, the options contradict each other, or nobody answers.
    """
    require_names(job, name, namespace)
    if output is Form.YAML and not dry_run:
        raise UserError("-o yaml prints the manifest: add --dry-run, or leave out -o yaml")
    if name == job:
        raise UserError(
            f"--name {job} is the old TrainJob's own name: choose another one, or leave out --name, "
            "which deletes the old TrainJob first"
        )
    credentials = connection.load(kubeconfig, context)
    form = Output.JSON if output is Form.JSON else Output.TEXT
    printer = answers.Printer(VERB, form, out, err)
    [seen] = answers.look(credentials, VERB, [job], namespace)
    if isinstance(seen, Answer):
        printer.show(seen)
        return printer.end()
    manifest = core.manifest(seen.trainjob, name)
    if dry_run:
        printer.print(manifest, documents.dump([manifest]))
        return FINE
    if refusal := core.refusal(seen.trainjob, name):
        printer.show(seen.answer(Outcome.REFUSED, refusal))
        return printer.end()
    if name is None and stops.loses_something(seen):
        printer.tell(stops.loss(seen))
        if not yes and not ask(f"Delete TrainJob {seen.namespace}/{job}, and send it again?"):
            place = same_place(seen.namespace, kubeconfig, context)
            again = shlex.join(["trainyard", VERB, job, *place])
            printer.tell(f"Nothing has been changed. To do it without confirmation: {again} --yes")
            printer.tell(f"To send it under another name, and delete nothing: {again} --name NAME")
            return max(REFUSED, printer.end())
    cluster = same_place(None, kubeconfig, context)
    return _Sending(seen, manifest, printer, cluster).run(credentials, beside=name is not None)


class _Sending:
    """The progress of sending one TrainJob, with the messages for an interrupt at each step."""

    def __init__(
        self, seen: Seen, manifest: Manifest, printer: answers.Printer, cluster: Sequence[str]
    ) -> None:
        self._seen = seen
        self._manifest = manifest
        self._printer = printer
        self._cluster = cluster  # the options that name it, those of kubectl too
        self._resending: Resending | None = None
        self._file: Path | None = None
        self._warnings: set[str] = set()

    def run(self, credentials: Credentials, *, beside: bool) -> int:
        """Send it in place of the old one, or in addition, and print the answer; returns the exit code."""
        send = self._beside if beside else self._instead
        try:
            answer = query(credentials, VERB, send, warned=self._warn)
        except KeyboardInterrupt:
            self._printer.tell("Interrupted.")
            self._say_how_it_stands()
            return max(CANNOT_ASK, self._printer.end())
        except UserError:
            self._say_how_it_stands()
            raise
        if answer.outcome is Outcome.SENT:
            self._forget()
        self._printer.show(answer)
        if answer.outcome is not Outcome.SENT:
            self._say_how_it_stands()
        return self._printer.end()

    async def _beside(self, client: Client) -> Answer:
        return await self._begun(client).beside()

    async def _instead(self, client: Client) -> Answer:
        resending = self._begun(client)
        if (refusal := await resending.refusal()) is not None:
            return refusal
        self._file = unsent.keep(self._manifest, read.uid(self._seen.trainjob))
        self._printer.tell(f"Until it is sent, its manifest is in {self._file}")
        return await resending.instead()

    def _begun(self, client: Client) -> Resending:
        self._resending = Resending(client, self._seen, self._manifest, self._printer.tell)
        return self._resending

    def _warn(self, warning: str) -> None:
        """Print a warning of admission, once: it comes with the dry run, and with the creation again."""
        if warning not in self._warnings:
            self._warnings.add(warning)
            self._printer.tell(f"Warning: {warning}")

    def _say_how_it_stands(self) -> None:
        """The state after an interrupt, and the commands to continue."""
        stage = Stage.BEFORE if self._resending is None else self._resending.stage
        released = [] if self._resending is None else self._resending.released
        if stage is Stage.BEFORE:
            sentence = (
                f"TrainJob {self._seen.name} is as it was." if released else "Nothing has been changed."
            )
            self._printer.tell(sentence)
            self._forget()
        elif stage is Stage.BETWEEN:
            create = shlex.join(["kubectl", "create", "-f", str(self._file), *self._cluster])
            self._printer.tell(f"To send it, once the old one has gone: {create}")
            self._file = None
        else:
            name, namespace = read.name(self._manifest), self._seen.namespace
            jobs = shlex.join(["trainyard", "jobs", "--all", "-n", namespace, *self._cluster])
            self._printer.tell(f"Look whether TrainJob {name} is there: {jobs}")
            self._forget()
        for child in released:
            self._printer.tell(f"{child} belonged to it, and has no owner now.")

    def _forget(self) -> None:
        """Remove the file: its manifest is in the cluster."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            self._file = None


def command(
    job: Job,
    *,
    name: Annotated[
        str | None, typer.Option(help="Send it under this other name, and leave the old one.", metavar="NAME")
    ] = None,
    yes: answers.Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifest, and send nothing.")] = False,
    namespace: answers.Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print it.")] = Form.TEXT,
) -> None:
    """Send a TrainJob again, as it was written.

    Under its own name the old one is deleted first. Asks first if this loses something, because the job
    still runs or has a volume. Exit code 1: nobody has said yes, or it is refused; 2: it could not be
    queried or sent.

    Example: trainyard retry my-training

    Example: trainyard retry my-training --name my-training-2 --dry-run -o yaml
    """
    raise typer.Exit(
        run(
            job,
            ask=confirmed,
            name=name,
            yes=yes,
            dry_run=dry_run,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
