"""`trainyard manifests`: a stack as plain YAML, for Argo CD, Flux or kubectl.

Called by `main`, which adds `command` to the application. Runs Pulumi on a
state of its own that is thrown away, with no cluster; what is made of that
state is `trainyard_platform.plain`'s.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TextIO

import typer

from trainyard_api import documents
from trainyard_platform import plain
from trainyard_platform.errors import PlatformError

from ..answers import CANNOT_ASK, FINE
from ..files import rendering, stackfile
from ..files.stackfile import STACKS


def run(stack: str, target: Path, *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Write the manifests of a stack into `target/wave-NN/`; returns the exit code.

    0: they are written, and `out` has their number; 2: the stack file, Pulumi
    or the folder is not as it must be, which goes to `err`.
    """
    out, err = out or sys.stdout, err or sys.stderr
    try:
        plain.check(stackfile.read(stack, STACKS))  # what is wrong is said without Pulumi's words around it
        with TemporaryDirectory() as folder:
            placed = plain.waves(rendering.state(stack, STACKS / f"Pulumi.{stack}.yaml", Path(folder)))
        _write(placed, target)
    except PlatformError as error:
        print(error, file=err)
        return CANNOT_ASK
    except OSError as error:
        print(f"{target}: {error.strerror}", file=err)
        return CANNOT_ASK
    count = 1 + max((one.wave for one in placed), default=-1)
    print(f"{target}: {len(placed)} objects in {count} waves", file=out)
    return FINE


def command(
    stack: Annotated[str, typer.Option(help="The stack to render.", metavar="NAME")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the manifests; what was rendered there goes.")
    ],
) -> None:
    """Write a stack as plain manifests, a folder for each wave, without a cluster.

    A wave is applied when the one before it is healthy: the objects have Argo
    CD's annotation for it, and with kubectl or Flux it is one folder after the
    other. Needs Pulumi's command, and what the charts come from.
    """
    raise typer.Exit(run(stack, output))


def _write(placed: Sequence[plain.Placed], target: Path) -> None:
    for old in target.glob("wave-*"):
        shutil.rmtree(old)
    for one in placed:
        path = target / one.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(documents.dump([one.manifest]), encoding="utf-8")
