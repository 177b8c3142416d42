"""`trainyard manifests`: a stack as plain YAML, for Argo CD, Flux or kubectl.

Called by `main`, which adds `command` to the application. Runs Pulumi on a
temporary state of its own, without a cluster; `trainyard_delivery.plain_manifests` makes
the manifests from that state.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TextIO

import typer

from trainyard_api import documents, places
from trainyard_api.errors import UserError
from trainyard_delivery import plain_manifests

from ..files import rendering, stackfile
from ..output import FINE


def run(stack: str, target: Path, *, out: TextIO | None = None) -> int:
    """Write the manifests of a stack into `target/wave-NN/`; returns the exit code.

    0: they are written, and `out` has their number.

    Raises:
        UserError: There is a problem with the stack file, Pulumi or the folder.
    """
    out = out or sys.stdout
    file = _file(stack)
    # Reports mistakes without Pulumi's words around them.
    plain_manifests.check(stackfile.read(stack, file.parent))
    try:
        with TemporaryDirectory() as folder:
            manifests = plain_manifests.waves(rendering.state(stack, file, Path(folder)))
        _write(manifests, target)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror}") from error
    count = 1 + max((placed.wave for placed in manifests), default=-1)
    print(f"{target}: {len(manifests)} objects in {count} waves", file=out)
    return FINE


def _file(stack: str) -> Path:
    """The stack's file in the site, or on a sandbox that has the stack, the copy that fits the sandbox."""
    file = stackfile.file_of(stack)
    own = places.site().stacks / places.stack_file(stack)
    return file if file.name == own.name else own


def command(
    stack: Annotated[str, typer.Option(help="The stack to render.", metavar="NAME")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the manifests; earlier ones are removed.")
    ],
) -> None:
    """Write a stack as plain manifests, one folder per wave.

    Needs no cluster. Apply a wave when the one before it is healthy: Argo CD does so by the
    annotation on the objects; with kubectl or Flux, apply one folder after the other. Needs the
    pulumi command and the source of the charts.
    """
    raise typer.Exit(run(stack, output))


def _write(manifests: Sequence[plain_manifests.Placed], target: Path) -> None:
    for old in target.glob("wave-*"):
        shutil.rmtree(old)
    for placed in manifests:
        path = target / placed.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(documents.dump([placed.manifest]), encoding="utf-8")
