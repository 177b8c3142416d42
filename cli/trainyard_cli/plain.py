"""`trainyard manifests`: a stack as plain YAML, for Argo CD, Flux or kubectl.

Called by `main`, which adds `command` to the application. Runs Pulumi on a
state of its own that is thrown away, with no cluster; what is made of that
state is `trainyard_platform.plain`'s.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, TextIO

import typer
import yaml

from trainyard_api import documents
from trainyard_platform import plain
from trainyard_platform.errors import PlatformError

from . import stackfile
from .manifests import CANNOT_ASK, FINE
from .stackfile import STACKS

PROJECT: Final = STACKS.parent
RENDER_TO: Final = "trainyard:renderTo"
_LAST_LINES: Final = 30


def run(stack: str, target: Path, *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Write the manifests of a stack into `target/wave-NN/`; returns the exit code.

    0: they are written, and `out` has their number; 2: the stack file, Pulumi
    or the folder is not as it must be, which goes to `err`.
    """
    out, err = out or sys.stdout, err or sys.stderr
    try:
        plain.check(stackfile.read(stack, STACKS))  # what is wrong is said without Pulumi's words around it
        with TemporaryDirectory() as folder:
            placed = plain.waves(_state(stack, Path(folder)))
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


def _state(stack: str, folder: Path) -> Mapping[str, Any]:
    """What Pulumi knows of the stack when it has written everything and asked nobody."""
    settings = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
    config = {**settings["config"], RENDER_TO: str(folder / "rendered")}
    copy = folder / f"Pulumi.{stack}.yaml"
    # Without the salt or the key of the real state, which this one is not encrypted with.
    copy.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    project = yaml.safe_load((PROJECT / "Pulumi.yaml").read_text(encoding="utf-8"))
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": project["name"], "runtime": "python"}))
    (folder / "backend").mkdir()
    environment = {
        **os.environ,
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "nothing secret is in it",
        "PULUMI_OPTION_CONFIG_FILE": str(copy),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # The state counts once, at the end: with the CRDs in it, to write it at every step takes minutes.
        "PULUMI_EXPERIMENTAL": "true",
        "PULUMI_SKIP_CHECKPOINTS": "true",
    }
    for name in ("KUBECONFIG", "PULUMI_CONFIG_PASSPHRASE_FILE"):  # another state's, and no cluster is asked
        environment.pop(name, None)
    # In a project of its own: `stack init` would write into git's stack file.
    _pulumi(["stack", "init", stack], environment, folder)
    _pulumi(["up", "--stack", stack, "--yes", "--skip-preview", "--suppress-progress"], environment, PROJECT)
    exported: Mapping[str, Any] = json.loads(
        _pulumi(["stack", "export", "--stack", stack], environment, PROJECT)
    )
    return exported


def _pulumi(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    command = ["pulumi", *arguments, "--non-interactive", "--color", "never"]
    try:
        answer = subprocess.run(
            command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise PlatformError(f"pulumi cannot be run: {error.strerror}") from error
    if answer.returncode:
        said = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-_LAST_LINES:])
        raise PlatformError(f"pulumi {arguments[0]}: exit code {answer.returncode}:\n{said}")
    return answer.stdout


def _write(placed: Sequence[plain.Placed], target: Path) -> None:
    for old in target.glob("wave-*"):
        shutil.rmtree(old)
    for one in placed:
        path = target / one.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(documents.dump([one.manifest]), encoding="utf-8")
