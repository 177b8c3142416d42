"""`trainyard explain`, asked about a TrainJob of a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.answers import answered
from tests.support.cluster import Cluster, Object
from trainyard_cli.commands import explain
from trainyard_cli.output import Output

from .explained import JOB


@dataclass
class Answer:
    """What was said last, whether the cause was there, and whether it had been there for too long then."""

    code: int
    document: Object
    there: bool = False
    late: bool = False


def ask(platform: Cluster, namespace: str, *, kubeconfig: Path | None = None) -> Answer:
    """What the command says, in this process."""
    code, out, err = answered(
        explain.run,
        JOB,
        namespace=namespace,
        kubeconfig=str(kubeconfig or platform.sandbox.instance.kubeconfig),
        output=Output.JSON,
    )
    assert code in (0, 1), err
    return Answer(code, json.loads(out))


@contextmanager
def namespace(platform: Cluster, name: str) -> Iterator[str]:
    platform.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        platform.kubectl("delete", "namespace", name, "--wait=false")
