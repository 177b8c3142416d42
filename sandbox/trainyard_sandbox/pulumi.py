"""What Pulumi needs to work on a sandbox, without an account, a network or writes into git's files.

A file backend with a passphrase of its own, the stack `sandbox` in it, a copy
of its stack file to write into, a command for only that stack, and a language
host where the official one is missing.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

import yaml

from .commands import new_log, run_logged
from .paths import PROJECT, Instance
from .pki import write_private
from .toolchain import Toolchain, artifacts_dir

STACK = "sandbox"
_LEFT_OUT = {"1.36": ("volcano", "coscheduling")}
"""Parts of the stack that do not work on a version of Kubernetes (docs/compatibility.md)."""


def environment(instance: Instance, kubernetes: str) -> dict[str, str]:
    """The variables with which `pulumi` uses the backend of a sandbox with this version of Kubernetes."""
    folder = instance.dir / "pulumi"
    return {
        # Without metadata files: they are written in place, and a command that is killed
        # meanwhile leaves half a file, with which the state can no longer be read.
        "PULUMI_BACKEND_URL": f"file://{folder}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(folder / "passphrase"),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # As in `make up`: the stack file takes precedence over what a killed `up` has written.
        "PULUMI_K8S_ENABLE_PATCH_FORCE": "true",
        "PULUMI_OPTION_CONFIG_FILE": str(_stack_file(folder, kubernetes)),
    }


def tools_dir(instance: Instance) -> Path:
    """Holds this sandbox's `pulumi`, and the language host where the official one is missing."""
    return instance.dir / "bin"


def prepare(instance: Instance, toolchain: Toolchain, kubernetes: str) -> None:
    """Make everything once; keeps what exists."""
    # The folder of charts and CRDs in stacks/Pulumi.sandbox.yaml.
    artifacts = instance.dir.parent / "artifacts"
    with suppress(FileExistsError):  # made by another sandbox of this checkout
        artifacts.symlink_to(artifacts_dir())
    _write_commands(instance, toolchain.binary("pulumi"))
    _keep_no_debug_log(instance.dir / "pulumi" / "home" / "logs")
    passphrase = instance.dir / "pulumi" / "passphrase"
    if not passphrase.exists():
        write_private(passphrase, secrets.token_urlsafe(32).encode())
        _create_stack(instance, toolchain, kubernetes)


def _write_commands(instance: Instance, pulumi: Path) -> None:
    folder = tools_dir(instance)
    folder.mkdir(parents=True, exist_ok=True)
    stack_file = instance.dir / "pulumi" / f"Pulumi.{STACK}.yaml"
    _write_command(folder / "pulumi", f'pulumi_launcher "{pulumi}" "{stack_file}"')
    language_host = folder / "pulumi-language-python"
    language_host.unlink(missing_ok=True)
    if not (pulumi.parent / language_host.name).exists():
        _write_command(language_host, "language_host")


def _write_command(path: Path, module: str) -> None:
    path.unlink(missing_ok=True)  # never overwrite one that runs
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trainyard_sandbox.{module} "$@"\n')
    path.chmod(0o755)


def _keep_no_debug_log(logs: Path) -> None:
    """Put a file where Pulumi would make the folder for its automatic logs, so that it writes none.

    They hold the engine's full output: 150 MB for an `up` that changes nothing,
    which takes three times as long with them. No setting turns them off.
    """
    if not logs.exists():
        write_private(logs, b"")


def _create_stack(instance: Instance, toolchain: Toolchain, kubernetes: str) -> None:
    """Create the stack from a project of its own: `stack init` would write a salt into git's stack file."""
    project = yaml.safe_load((PROJECT / "Pulumi.yaml").read_text())
    folder = instance.dir / "pulumi" / "project"
    write_private(
        folder / "Pulumi.yaml", yaml.safe_dump({"name": project["name"], "runtime": "python"}).encode()
    )
    run_logged(
        [str(toolchain.binary("pulumi")), "stack", "init", STACK, "--non-interactive", "--cwd", str(folder)],
        new_log(f"pulumi-{instance.id}"),
        f"create the Pulumi stack {STACK!r}",
        env={**os.environ, **environment(instance, kubernetes)},
    )


def _stack_file(folder: Path, kubernetes: str) -> Path:
    """A copy of the stack file for Pulumi to write its salt into; an existing salt is kept."""
    source = PROJECT / "stacks" / f"Pulumi.{STACK}.yaml"
    copy = folder / source.name
    old = copy.read_text().splitlines() if copy.exists() else []
    salt = [line for line in old if line.startswith("encryptionsalt:")]
    said = source.read_text()
    of_this = _for_version(said, kubernetes)
    text = "\n".join([*salt, of_this])
    if not copy.exists() or copy.read_text() != text:
        write_private(copy, text.encode())
        if of_this != said:
            where = f"{source.relative_to(PROJECT)}: cluster.version is not the sandbox's"
            print(f"{where}, so its copy of the file has {kubernetes}", file=sys.stderr)
    return copy


def _for_version(stack_file: str, kubernetes: str) -> str:
    """The stack file as it is, or adapted to a sandbox with another version of Kubernetes."""
    document = yaml.safe_load(stack_file)
    settings = document["config"]["trainyard:platform"]
    if settings["cluster"]["version"] == kubernetes:
        return stack_file
    settings["cluster"]["version"] = kubernetes
    settings |= {part: {"enabled": False} for part in _LEFT_OUT.get(kubernetes, ())}
    return str(yaml.safe_dump(document))
