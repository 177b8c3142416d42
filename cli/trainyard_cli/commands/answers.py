"""How `cancel`, `suspend`, `resume` and `retry` ask and answer: a sentence for each TrainJob.

Called by these commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TextIO

import typer

from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist.stops import Answer, Outcome, Seen
from trainyard_kube.client import ApiError, Client, UnauthorizedError
from trainyard_kube.credentials import Credentials

from ..cluster import connection, job_names, stops
from ..output import CANNOT_ASK, FINE, REFUSED, Output, write_json
from .questions import query, require_names

Jobs = Annotated[
    list[str],
    typer.Argument(help="Names of TrainJobs.", metavar="JOB", autocompletion=job_names.completed),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the TrainJobs; by default that of the context."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

_CODES: Final = {Outcome.REFUSED: REFUSED, Outcome.FAILED: CANNOT_ASK}


def checked(jobs: Sequence[str], namespace: str | None) -> list[str]:
    """The names, each once. Raises `UserError` for an invalid name."""
    require_names(*jobs, namespace)
    return list(dict.fromkeys(jobs))


class Printer:
    """Prints the answers as they come, or as one JSON document at the end."""

    def __init__(self, verb: str, output: Output, out: TextIO | None, err: TextIO | None) -> None:
        """Hold where to print.

        Args:
            verb: The command.
            output: How to print the answers.
            out: Where the answers go.
            err: Where everything else goes.
        """
        self._verb = verb
        self._output = output
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.answers: list[Answer] = []

    def tell(self, sentence: str) -> None:
        """Print a remark; a closed stderr stops nothing."""
        with suppress(BrokenPipeError):
            print(clean(sentence), file=self._err, flush=True)

    def print(self, manifest: Json, text: str) -> None:
        """Print a manifest, which is this as text, in place of answers."""
        if self._output is Output.JSON:
            write_json(manifest, self._out)
        else:
            self._out.write(text)

    def show(self, answer: Answer) -> None:
        """Print what became of a TrainJob."""
        self.answers.append(answer)
        if self._output is Output.TEXT:
            print(
                clean(answer.message), file=self._err if answer.outcome in _CODES else self._out, flush=True
            )

    def end(self) -> int:
        """Print what is still to be printed; returns the exit code."""
        if self._output is Output.JSON:
            write_json(document(self._verb, self.answers), self._out)
        return max((_CODES.get(answer.outcome, FINE) for answer in self.answers), default=FINE)


def document(verb: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """The answers as JSON values."""
    return {
        "apiVersion": f"{verb}.trainyard.dev/v1alpha1",
        "kind": "Answers",
        "trainJobs": [
            {
                "namespace": answer.namespace,
                "name": answer.name,
                "outcome": answer.outcome,
                "message": clean(answer.message),
            }
            for answer in answers
        ],
    }


def look(
    credentials: Credentials, verb: str, jobs: Sequence[str], namespace: str | None
) -> list[Seen | Answer]:
    """Each TrainJob, or why it could not be seen. Raises `UserError` if nobody answers."""
    within = namespace or credentials.namespace
    return query(credentials, verb, lambda client: stops.look_at_all(client, within, jobs))


def act(
    credentials: Credentials,
    verb: str,
    jobs: Sequence[Seen],
    action: Callable[[Client, Seen], Coroutine[Any, Any, Answer]],
    printer: Printer,
) -> int:
    """Do it to one TrainJob after the other, and print what became of each; returns the exit code.

    On an interrupt it prints what is done and what is not.
    """
    left = list(jobs)

    async def each(client: Client) -> None:
        while left:
            try:
                answer = await action(client, left[0])
            except UnauthorizedError:
                raise
            except ApiError as error:
                answer = stops.refused(left[0], error, verb)
            printer.show(answer)
            left.pop(0)

    try:
        query(credentials, verb, each)
    except KeyboardInterrupt:
        _say_what_is_left(left, printer)
        return max(CANNOT_ASK, printer.end())
    except BrokenPipeError:  # nobody reads the answers any more
        _say_what_is_left(left, printer)
        raise
    except UserError:
        printer.end()
        raise
    return printer.end()


def _say_what_is_left(jobs: Sequence[Seen], printer: Printer) -> None:
    names = [f"{seen.namespace}/{seen.name}" for seen in jobs]
    printer.tell(f"Interrupted. Look whether this one is done: {', '.join(names[:1])}")
    if names[1:]:
        printer.tell(f"Left as they are: {', '.join(names[1:])}")


def run_each(
    verb: str,
    action: Callable[[Client, Seen], Coroutine[Any, Any, Answer]],
    jobs: Sequence[str],
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Do it to each TrainJob without a question; returns the exit code.

    0: it is done, or was so before; 1: one is refused; 2: one could not be queried.

    Raises:
        UserError: A name is none, or nobody answers.
    """
    names = checked(jobs, namespace)
    credentials = connection.load(kubeconfig, context)
    printer = Printer(verb, output, out, err)
    seen = []
    for job in look(credentials, verb, names, namespace):
        if isinstance(job, Answer):
            printer.show(job)
        else:
            seen.append(job)
    return act(credentials, verb, seen, action, printer)
