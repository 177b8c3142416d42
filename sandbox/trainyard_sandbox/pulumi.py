"""What Pulumi needs to work on a sandbox, without an account, a network or writes into git's files.

A file backend with a passphrase of its own, the stack `sandbox` in it, a copy
of its stack file to write into, a command for only that stack, and a language
host where the official one is missing.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard_api import places, stack_yaml

from . import site_stack
from .commands import new_log, run_logged
from .errors import SandboxError
from .paths import Instance
from .pki import write_private
from .toolchain import Toolchain, artifacts_dir

STACK = "sandbox"
_FILE = f"stacks/{places.stack_file(STACK)}"
_INSTALLED: Final[Mapping[str, Sequence[tuple[str, ...]]]] = {
    "volcano": [("volcano", "enabled")],
    "coscheduling": [("coscheduling", "enabled")],
    "data-cache": [("dataCache", "enabled"), ("runtimes", "torch-distributed-with-cache", "enabled")],
}
"""Parts of a sandbox that the stack installs, and which settings say so."""
_DO_NOT_WORK: Final[Mapping[str, Sequence[str]]] = {"1.36": ("volcano", "coscheduling")}
"""Parts of the stack that do not work on a version of Kubernetes (docs/compatibility.md)."""


def environment(
    instance: Instance, kubernetes: str, parts: Collection[str], site: str | None = None
) -> dict[str, str]:
    """The variables with which `pulumi` uses the backend of such a sandbox.

    With `site`, the name of a site's stack, Pulumi uses a copy of its file that fits the sandbox.

    Raises:
        SandboxError: There is no such stack file, it cannot be read, or the sandbox has another stack
            already.
    """
    folder = instance.dir / "pulumi"
    return {
        # Without metadata files: they are written in place, and a command that is killed
        # meanwhile leaves half a file, with which the state can no longer be read.
        "PULUMI_BACKEND_URL": f"{folder.as_uri()}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(folder / "passphrase"),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # As in `make up`: the stack file takes precedence over what a killed `up` has written.
        "PULUMI_K8S_ENABLE_PATCH_FORCE": "true",
        "PULUMI_OPTION_CONFIG_FILE": str(
            _stack_file(instance, kubernetes, parts)
            if site in (None, STACK)
            else _site_file(instance, str(site), kubernetes, parts)
        ),
    }


def inherited() -> dict[str, str]:
    """This process's environment, without a passphrase: Pulumi would prefer it to the sandbox's own."""
    return {name: value for name, value in os.environ.items() if name != "PULUMI_CONFIG_PASSPHRASE"}


def prepare(instance: Instance, toolchain: Toolchain, kubernetes: str, parts: Collection[str]) -> None:
    """Make everything once; keeps what exists."""
    _link_artifacts(instance)
    _write_commands(instance, toolchain.binary("pulumi"))
    _keep_no_debug_log(instance.dir / "pulumi" / "home" / "logs")
    passphrase = instance.dir / "pulumi" / "passphrase"
    if not passphrase.exists():
        write_private(passphrase, secrets.token_urlsafe(32).encode())
    if not _state(instance, STACK).exists():  # an `up` may have ended between the two
        _create_stack(instance, toolchain, environment(instance, kubernetes, parts))


def _link_artifacts(instance: Instance) -> None:
    """Have the folder of charts and CRDs in stacks/Pulumi.sandbox.yaml lead to this cache.

    All sandboxes of a site share the link, so it is replaced at once.
    """
    new = instance.dir / instance.artifacts.name
    new.unlink(missing_ok=True)
    new.symlink_to(artifacts_dir())
    new.replace(instance.artifacts)


def _write_commands(instance: Instance, pulumi: Path) -> None:
    folder = instance.commands
    folder.mkdir(parents=True, exist_ok=True)
    stack_file = instance.dir / "pulumi" / places.stack_file(STACK)
    _write_command(folder / "pulumi", "pulumi_launcher", str(pulumi), str(stack_file))
    language_host = folder / "pulumi-language-python"
    language_host.unlink(missing_ok=True)
    if not (pulumi.parent / language_host.name).exists():
        _write_command(language_host, "language_host")


def _write_command(path: Path, module: str, *arguments: str) -> None:
    path.unlink(missing_ok=True)  # never overwrite one that runs
    command = shlex.join([sys.executable, "-m", f"trainyard_sandbox.{module}", *arguments])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def _keep_no_debug_log(logs: Path) -> None:
    """Put a file where Pulumi would make the folder for its automatic logs, so that it writes none.

    They hold the engine's full output: 150 MB for an `up` that changes nothing,
    which takes three times as long with them. No setting turns them off.
    """
    if not logs.exists():
        write_private(logs, b"")


def prepare_site(instance: Instance, toolchain: Toolchain, site: str, variables: Mapping[str, str]) -> None:
    """Create a site's stack in the sandbox's backend, unless it is there."""
    if site != STACK and not _state(instance, site).exists():
        _create_stack(instance, toolchain, variables, site)


def _create_stack(
    instance: Instance, toolchain: Toolchain, variables: Mapping[str, str], stack: str = STACK
) -> None:
    """Create the stack from a project of its own: `stack init` would write a salt into git's stack file."""
    folder = instance.dir / "pulumi" / "project"
    write_private(
        folder / "Pulumi.yaml", yaml.safe_dump({"name": _project(instance), "runtime": "python"}).encode()
    )
    run_logged(
        [str(toolchain.binary("pulumi")), "stack", "init", stack, "--non-interactive", "--cwd", str(folder)],
        new_log(f"pulumi-{instance.id}"),
        f"create the Pulumi stack {stack!r}",
        env={**inherited(), **variables},
    )


def _stack_file(instance: Instance, kubernetes: str, parts: Collection[str]) -> Path:
    """A copy of the stack file for Pulumi to write its salt into."""
    source = _own_file(instance)
    with _reading(source):
        adapted, notes = _adapted(source.read_text(), kubernetes, parts)
    copy = instance.dir / "pulumi" / source.name
    if _write_copy(copy, adapted):
        for note in notes:
            print(f"{places.shown(source)}: {note}", file=sys.stderr)
    return copy


def _write_copy(copy: Path, stack_file: str) -> bool:
    """Write a copy of a stack file, with the salt that Pulumi has put into it; False if nothing changes."""
    old = copy.read_text() if copy.exists() else None
    salt = [line for line in (old or "").splitlines() if line.startswith("encryptionsalt:")]
    text = "\n".join([*salt, stack_file])
    if text == old:
        return False
    write_private(copy, text.encode())
    return True


def _own_file(instance: Instance) -> Path:
    """The file of the sandbox's stack: the site's, or if the site has none, the one that is shipped."""
    own = instance.project / _FILE
    return own if own.exists() else places.shipped(_FILE)


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Name the stack file, and the way out, if the block finds that it is not one."""
    try:
        yield
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SandboxError(
            f"{places.shown(source)} cannot be read ({type(error).__name__}): trainyard verify says what "
            "is wrong."
        ) from error


def _site_file(instance: Instance, site: str, kubernetes: str, parts: Collection[str]) -> Path:
    """A copy of a site's stack file that fits the sandbox, for Pulumi to write its salt into."""
    stacks = instance.project / "stacks"
    source = stacks / places.stack_file(site)
    if source.parent != stacks or not source.is_file():
        raise SandboxError(f"stacks/{places.stack_file(site)}: there is no such stack.")
    if others := [name for name in _rolled_out(instance) if name != site]:
        raise SandboxError(
            f"This sandbox has the stack {others[0]!r}, and two stacks would both own what is in it. Give "
            f"{site!r} a sandbox of its own: trainyard sandbox up --name {site}, then the same with "
            f"--name {site}."
        )
    own_file = _own_file(instance)
    shipped = stack_yaml.load(places.shipped(_FILE).read_text())
    with _reading(own_file):
        own = site_stack.completed(stack_yaml.load(own_file.read_text()), shipped)
    with _reading(source):
        value, notes = site_stack.adapted(stack_yaml.load(source.read_text()), own, kubernetes, parts)
    copy = instance.dir / "pulumi" / "sites" / source.name
    _write_copy(copy, yaml.safe_dump(value, sort_keys=False))
    for note in notes:
        print(f"stacks/{source.name} on the sandbox: {note}", file=sys.stderr)
    return copy


def _state(instance: Instance, stack: str) -> Path:
    return instance.dir / "pulumi" / ".pulumi" / "stacks" / _project(instance) / f"{stack}.json"


def _rolled_out(instance: Instance) -> list[str]:
    """The stacks whose state has objects."""
    names = []
    for file in sorted(_state(instance, STACK).parent.glob("*.json")):
        latest = json.loads(file.read_text()).get("checkpoint", {}).get("latest") or {}
        if latest.get("resources"):
            names.append(file.stem)
    return names


def _project(instance: Instance) -> str:
    return str(yaml.safe_load((instance.project / "Pulumi.yaml").read_text())["name"])


def _adapted(stack_file: str, kubernetes: str, parts: Collection[str]) -> tuple[str, Sequence[str]]:
    """The stack file, line by line as it is but for what a sandbox has not, and a note on each of these."""
    settings = stack_yaml.load(stack_file)["config"]["trainyard:platform"]
    replaced: dict[tuple[str, ...], str] = {}
    notes = []
    if ((settings.get("cluster") or {}).get("version") or kubernetes) != kubernetes:
        replaced["cluster", "version"] = f'"{kubernetes}"'
        notes.append(f"cluster.version is not the sandbox's, so its copy of the file has {kubernetes}")
    enabled = {
        part: set_paths
        for part, paths in _INSTALLED.items()
        if (set_paths := [path for path in paths if _is_set(settings, path)])
    }
    do_not_work = [part for part in enabled if part in _DO_NOT_WORK.get(kubernetes, ())]
    lacking = [part for part in enabled if part not in parts and part not in do_not_work]
    replaced |= {path: "false" for part in (*do_not_work, *lacking) for path in enabled[part]}
    if lacking:
        ways = ", ".join(f"`trainyard sandbox up --with {part}`" for part in lacking)
        notes.append(
            f"the sandbox has no {' and no '.join(lacking)}, so its copy of the file is without ({ways})"
        )
    return _with_values(stack_file, replaced), notes


def _is_set(settings: Any, path: Iterable[str]) -> bool:
    """Whether the path leads to a value that is true."""
    for key in path:
        settings = (settings or {}).get(key)
    return bool(settings)


def _with_values(stack_file: str, replaced: Mapping[tuple[str, ...], str]) -> str:
    """The stack file with other values at these paths in the platform's settings."""
    spans = []
    for path, value in replaced.items():
        node: Any = yaml.compose(stack_file, yaml.SafeLoader)
        for key in ("config", "trainyard:platform", *path):
            node = next(child for name, child in node.value if name.value == key)
        spans.append((node.start_mark.index, node.end_mark.index, value))
    for start, end, value in sorted(spans, reverse=True):
        stack_file = stack_file[:start] + value + stack_file[end:]
    return stack_file
