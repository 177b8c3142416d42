"""A stack as Pulumi would install it, without a cluster: on a state of its own that is thrown away.

Called by the commands that want the objects of a stack: `manifests` and `drift`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard_platform.errors import PlatformError

from .stackfile import OURS, PROJECT, RENDER_TO

_LAST_LINES: Final = 30


def state(stack: str, file: Path, folder: Path) -> Mapping[str, Any]:
    """What Pulumi knows of the stack when it has written everything and asked nobody.

    The node groups of a cloud are not among it: they are no objects.

    Args:
        stack: Its name.
        file: Its stack file.
        folder: An empty folder for Pulumi's state and what the provider writes.

    Raises:
        PlatformError: Pulumi cannot be run, or does not get through; with its words.
    """
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    ours = {key: value for key, value in settings["config"].items() if key.startswith(OURS)}
    config = {**ours, RENDER_TO: str(folder / "rendered")}
    copy = folder / f"Pulumi.{stack}.yaml"
    # Without the salt or the key of the real state, nor what is encrypted with it.
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
