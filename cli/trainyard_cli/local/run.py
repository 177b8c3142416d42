"""Runs a TrainJob on this machine, as its pods would run it.

Called by `trainyard run --local`. `trainyard_assist.local` says what runs, and
`together` runs it.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from trainyard_api.documents import Document
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist.local.model import LocalError, Machine, Plan
from trainyard_assist.local.plan import number_of_pods, plan
from trainyard_assist.offline import DEFAULT_NAMESPACE
from trainyard_assist.render import render

from ..files import manifests
from ..printer import Printer
from . import machine, together
from .together import GRACE, Outcome

INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit code after Ctrl-C, as shells have it."""
_INSTALL: Final = {
    "mpirun": "install Open MPI",
    "python": "activate an environment of Python's",
    "torchrun": "install PyTorch (pip install torch)",
}
"""How a program that is not here gets here."""


def run_local(
    trainjob: Json,
    runtime: Json | None,
    workspace: Path,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    grace: float = GRACE,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Run a TrainJob on this machine until it ends; returns its exit code.

    A process stands for each pod, with the command and the variables that the operator would give it, the
    addresses of this machine, and the variables of this shell besides. The first that fails ends the others.
    Call it in the main thread.

    0: the TrainJob is complete; the exit code of the first process that failed, else; 128 and the signal
    that ended it (130: Ctrl-C).

    Args:
        trainjob: The manifest.
        runtime: The manifest of its runtime; None: that of the catalog.
        workspace: The folder in which the processes run.
        namespace: Of manifests that name none.
        grace: Seconds from SIGTERM to SIGKILL for processes that are to end.
        out: Where their lines go, each after the rank.
        err: Where remarks go.

    Raises:
        UserError: It cannot be rendered, it does not run on one machine, or a program is not here. Nothing
            is left running.
    """
    out, err = out or sys.stdout, err or sys.stderr
    if not workspace.is_dir():
        raise UserError(f"{workspace}: there is no such folder")
    shell = dict(os.environ)
    hosts = Path(tempfile.gettempdir(), f"trainyard-{secrets.token_hex(8)}.hosts")
    try:
        local = _plan(_children(trainjob, runtime, namespace), shell, hosts)
        _require_programs(local, workspace, shell)
        for sentence in local.missing:
            print(clean(sentence), file=err)
        if local.hosts:
            _write(local.hosts, hosts)
        outcome = together.run(local, workspace, shell, Printer(out, "", marked=True).show, grace)
    except KeyboardInterrupt:  # before anything was started
        return INTERRUPTED
    finally:
        hosts.unlink(missing_ok=True)
    for sentence in _sentences(outcome):
        print(clean(sentence), file=err)
    return outcome.code


def _plan(children: Sequence[Json], shell: Mapping[str, str], hosts: Path) -> Plan:
    ports = machine.free_ports(number_of_pods(children))
    gpus = machine.gpus(shell)
    return plan(children, Machine(environment=shell, ports=ports, gpus=gpus, hosts=str(hosts)))


def _write(text: str, file: Path) -> None:
    """Write a file that must not exist."""
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def _children(trainjob: Json, runtime: Json | None, namespace: str) -> Sequence[Json]:
    given = [
        Document(source, 1, value)
        for source, value in (("runtime", runtime), ("TrainJob", trainjob))
        if value
    ]
    return render(given, manifests.catalog() if runtime is None else (), namespace=namespace)


def _require_programs(local: Plan, workspace: Path, shell: Mapping[str, str]) -> None:
    for process in local.processes:
        program = process.command[0]
        if machine.has(program, workspace, {**shell, **process.environment}):
            continue
        if os.sep in program:
            raise LocalError(f"{workspace / program}: there is no such program, or it must not be executed")
        way = _INSTALL.get(program, "install it")
        raise LocalError(
            f"{shlex.quote(program)} is not on this machine: {way}, or send the TrainJob to a cluster"
        )


def _sentences(outcome: Outcome) -> list[str]:
    sentences = []
    if outcome.failed is not None:
        sentences.append(
            f"Rank {outcome.failed.label} failed with exit code {outcome.code}: the TrainJob is Failed"
        )
    elif outcome.code:
        rest = "" if outcome.left else ": nothing of it runs any more"
        sentences.append(f"Ended by {signal.Signals(outcome.code - 128).name}{rest}")
    else:
        sentences.append("The TrainJob is Complete")
    sentences += [
        f"Process {pid} does not end: kill it when its device answers again" for pid in outcome.left
    ]
    return sentences
