"""Pulumi's state of a stack: as it would be without a cluster, and as the last roll-out left it.

Called by the commands that need the objects of a stack: `manifests`, `drift` and `up`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard_api import places, stack_yaml
from trainyard_delivery import stack_names
from trainyard_platform.errors import PlatformError

from . import stackfile

_LAST_LINES: Final = 30
_UNREADABLE: Final = (
    "\nWithout Pulumi's state of {stack}, nobody knows which cluster {stack} was rolled out to. If the stack "
    "was never created: make stack STACK={stack}. If its state is lost or damaged: "
    'docs/upgrade-and-removal.md, "Restore a lost state". Otherwise run the same command again when this '
    "succeeds: pulumi stack export --stack {stack}"
)
"""What follows from a state that cannot be read, and the ways out."""
_OF_A_SANDBOX: Final = (
    "\nPulumi's state of {stack} is in the sandbox. Run the same command with `trainyard sandbox exec --` "
    "before it. If it fails there, too, create the sandbox again: trainyard sandbox down, then trainyard "
    "sandbox up"
)
"""The same of the sandbox's own stack, which nobody creates elsewhere."""


def state(stack: str, file: Path, folder: Path) -> Mapping[str, Any]:
    """Pulumi's state of the stack after writing everything to files, without a cluster.

    It does not include the node groups of a cloud: they are not Kubernetes objects.

    Args:
        stack: Its name.
        file: Its stack file.
        folder: An empty folder for Pulumi's state and what the provider writes.

    Raises:
        PlatformError: `Pulumi.yaml` is wrong, or Pulumi cannot be run, or fails; with its output.
    """
    settings = stack_yaml.load(file.read_text(encoding="utf-8"))
    ours = {key: value for key, value in settings["config"].items() if key.startswith(stackfile.OURS)}
    config = {**ours, stackfile.RENDER_TO: str(folder / "rendered")}
    copy = folder / places.stack_file(stack)
    # Without the salt or the key of the real state, and without what they encrypt.
    copy.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    root = places.site().root
    name = stackfile.project(root)["name"]
    (folder / places.PROJECT_FILE).write_text(yaml.safe_dump({"name": name, "runtime": "python"}))
    (folder / "backend").mkdir()
    environment = {
        **os.environ,
        "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "nothing secret is in it",
        "PULUMI_OPTION_CONFIG_FILE": str(copy),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Only the final state matters: with the CRDs in it, writing it at every step would take minutes.
        "PULUMI_EXPERIMENTAL": "true",
        "PULUMI_SKIP_CHECKPOINTS": "true",
    }
    for name in ("KUBECONFIG", "PULUMI_CONFIG_PASSPHRASE_FILE"):  # of a cluster and of another state
        environment.pop(name, None)
    # In a project of its own: `stack init` would write into git's stack file.
    _pulumi(["stack", "init", stack], environment, folder)
    _pulumi(["up", "--stack", stack, "--yes", "--skip-preview", "--suppress-progress"], environment, root)
    return _exported(stack, environment)


def rolled_out(stack: str) -> Mapping[str, Any]:
    """Pulumi's state of a stack, where it has been rolled out.

    Raises:
        PlatformError: Pulumi cannot be run, or cannot read it; with its output, and the way out.
    """
    way_out = _OF_A_SANDBOX if stack == stack_names.SANDBOX else _UNREADABLE
    return _exported(stack, os.environ, way_out.format(stack=stack))


def _exported(stack: str, environment: Mapping[str, str], way_out: str = "") -> Mapping[str, Any]:
    exported: Mapping[str, Any] = json.loads(
        _pulumi(["stack", "export", "--stack", stack], environment, places.site().root, way_out)
    )
    return exported


def _pulumi(arguments: Sequence[str], environment: Mapping[str, str], folder: Path, way_out: str = "") -> str:
    command = ["pulumi", *arguments, "--non-interactive", "--color", "never"]
    try:
        answer = subprocess.run(
            command,
            cwd=folder,
            env=dict(environment),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise PlatformError(f"pulumi cannot be run: {error.strerror}") from error
    if answer.returncode:
        output = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-_LAST_LINES:])
        raise PlatformError(f"pulumi {arguments[0]}: exit code {answer.returncode}:\n{output}{way_out}")
    return answer.stdout
