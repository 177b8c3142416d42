"""`trainyard dump`: one archive with all that somebody needs to help with a TrainJob.

Called by `main`, which adds `command` to the application. Writes and prints;
`cluster.dump` reads the cluster, `trainyard_assist.dump` makes the files, and
`trainyard_assist.redaction` removes what looks like a secret.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from trainyard_api import names
from trainyard_api.printable import clean
from trainyard_assist import dump
from trainyard_assist.explain import explain
from trainyard_kube.client import Client

from ..cluster import connection, last_lines
from ..cluster.dump import Reading
from ..files import archive
from ..files.archive import Archive
from ..options import Context, JobNamespace, Kubeconfig, OperatorNamespace
from ..output import FINE, REFUSED
from .explain import as_text, document
from .questions import Job, query, require_names

LOG: Final = 1
"""MiB of each log."""
_MOST: Final = 100
_ENDING: Final = ".tar.gz"
_TOLD: Final = 10
"""The most unreadable objects to print; the archive lists all."""


def run(
    job: str,
    *,
    file: Path | None = None,
    force: bool = False,
    log: int = LOG,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    operator_namespace: str = names.SYSTEM_NAMESPACE,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Write the archive of a TrainJob and say what is in it; returns the exit code.

    0: it is written, also if something could not be read; 1: it was interrupted, and nothing is written.

    Args:
        job: Its name.
        file: Where the archive goes; None: a name of its own, here.
        force: Replace an existing file.
        log: MiB from the end of each log; 0: no logs.
        namespace: Its namespace; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        operator_namespace: Where the operator runs.
        out: Where it says what is in the archive.
        err: Where it says what is not.

    Raises:
        UserError: There is no such TrainJob, the cluster could not be queried, or the file not be written.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(job, namespace, operator_namespace)
    credentials = connection.load_or_sandbox(kubeconfig, context)
    within = namespace or credentials.namespace
    created = datetime.now(UTC)
    stem = f"trainyard-dump-{within}-{job}-{created:%Y%m%dT%H%M%SZ}"
    path = Path(f"{stem}{_ENDING}") if file is None else Path(os.path.expanduser(file))
    try:
        with archive.written(path, stem, force=force) as target:
            reading = _Dump(target, within, job, operator_namespace, created)
            unread = query(credentials, "dump", lambda client: reading.write(client, log * 2**20))
    except KeyboardInterrupt:
        print("Interrupted: nothing is written.", file=err)
        return REFUSED
    _tell(path, target.files, unread, out, err)
    return FINE


class _Dump:
    """Writes one TrainJob into an archive."""

    def __init__(
        self, target: Archive, namespace: str, job: str, operator_namespace: str, created: datetime
    ) -> None:
        self._target = target
        self._namespace = namespace
        self._job = job
        self._operator_namespace = operator_namespace
        self._created = created

    async def write(self, client: Client, log: int) -> Mapping[str, str]:
        """All of it; returns what could not be read, and why."""
        reading = Reading(client, self._namespace, self._job, self._operator_namespace)
        seen = await reading.seen()
        kept = await last_lines.kept(client, seen.observation.trainjob)
        diagnosis = explain(seen.observation)
        self._target.add(*dump.text("explain.txt", as_text(diagnosis, kept)))
        self._target.add(*dump.document("explain.json", document(diagnosis, kept)))
        for file in dump.objects(seen):
            self._target.add(*file)
        if log:
            async with aclosing(reading.logs(seen.observation.pods, log)) as logs:
                async for source, lines in logs:
                    self._target.add(*dump.text(source.path, lines))
        who = f"{self._namespace}/{self._job}"
        for about in (dump.contents, dump.about):
            self._target.add(*about(seen, who, self._created, dict(self._target.files), reading.unread))
        return reading.unread


def _tell(path: Path, files: Mapping[str, int], unread: Mapping[str, str], out: TextIO, err: TextIO) -> None:
    objects = [Path(name).stem for name in files if name.startswith("objects/")]
    logs = sum(name.startswith("logs/") for name in files)
    print(
        f"{path}: {len(files)} files, {path.stat().st_size // 1024 + 1} KiB; only you may read it.", file=out
    )
    print(f"In it: {', '.join(objects)}; {logs} logs; explain's answer; versions; README.txt.", file=out)
    for subject, why in islice(unread.items(), _TOLD):
        print(clean(f"Could not read {subject}: {why}"), file=err)
    if len(unread) > _TOLD:
        print(f"Could not read {len(unread) - _TOLD} more: see README.txt.", file=err)
    print(f"Values that look like secrets are removed. {dump.READ_IT}", file=out)


def command(
    job: Job,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--output", help="Where the archive goes; by default a file here.", metavar="FILE"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    log: Annotated[
        int, typer.Option("--log", help="MiB from the end of each log; 0: no logs.", min=0, max=_MOST)
    ] = LOG,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    operator_namespace: OperatorNamespace = names.SYSTEM_NAMESPACE,
) -> None:
    """Collect the state of a TrainJob for support.

    One archive: its objects and events, the logs of all pods, explain's answer, versions, and what
    could not be read. Without Secrets, and without values that look like secrets: read it before you
    send it. Uses your own rights, and changes nothing. Exit code 2: the cluster could not be queried,
    or the file could not be written.

    Example: trainyard dump my-training

    Example: trainyard dump my-training -n team-a --output for-support.tar.gz
    """
    raise typer.Exit(
        run(
            job,
            file=file,
            force=force,
            log=log,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            operator_namespace=operator_namespace,
        )
    )
