"""What commands share that query a cluster: the check of names, and the error if there is no answer.

Called by these commands.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer

from trainyard_api.errors import UserError
from trainyard_api.object_names import is_name
from trainyard_api.printable import clean
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import Credentials

from ..cluster import connection, job_names

Job = Annotated[
    str,
    typer.Argument(help="Name of the TrainJob.", metavar="JOB", autocompletion=job_names.completed),
]

T = TypeVar("T")


def require_names(*names: str | None) -> None:
    """Refuse what no object can be called; None is a name that is not given. Raises `UserError`."""
    for name in names:
        if name is not None and not is_name(name):
            raise UserError(f"{name!r} is not a valid name of an object")


@contextmanager
def errors_named(credentials: Credentials) -> Iterator[None]:
    """Raise an `ApiError` as a `UserError` that also names the kubeconfig."""
    try:
        yield
    except ApiError as error:
        raise UserError(clean(f"{credentials.source}: {error}")) from error


def query(
    credentials: Credentials,
    command: str,
    question: Callable[[Client], Coroutine[Any, Any, T]],
    *,
    warned: Callable[[str], None] | None = None,
) -> T:
    """The answer of the cluster; `warned` gets each warning of the API server.

    Raises `UserError`, which names the kubeconfig, if there is no answer.
    """
    with errors_named(credentials):
        return connection.ask(credentials, command, question, warned=warned)
