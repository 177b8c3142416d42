"""Where files are: what comes with Trainyard, the user's cache, a sandbox's state."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_api import places

from .errors import SandboxError

PROJECT = places.DATA
TOOLCHAIN = places.shipped("sandbox/toolchain")

_SANDBOXES = ".sandbox"
"""A site's folder with the state of its sandboxes."""
_COMMANDS = "bin"
_ARTIFACTS = "artifacts"
_NAME = re.compile(r"^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$")


def cache_dir() -> Path:
    """`$TRAINYARD_CACHE` or `trainyard/` in the user's cache folder (`$XDG_CACHE_HOME`, `~/.cache`)."""
    if override := os.environ.get("TRAINYARD_CACHE"):
        return _whole(override)
    return _whole(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "trainyard"


def _whole(path: str) -> Path:
    """The same path for programs that start in another folder; no shell has to have replaced a `~`."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise SandboxError(
            f"the cache would be in {path}, but there is no such home folder: set TRAINYARD_CACHE to a folder"
        )
    return Path(expanded).absolute()


@dataclass(frozen=True)
class Instance:
    """One sandbox: a name within one site.

    Raises:
        SandboxError: If the name is not a DNS label of at most 20 characters, or is taken.
    """

    name: str = "default"
    project: Path = field(default_factory=places.home)
    """The folder of the site."""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise SandboxError(
                f"--name {self.name!r}: a sandbox's name has at most 20 of a-z, 0-9 and '-', "
                "starts with a letter and ends with a letter or digit."
            )
        if self.name == _ARTIFACTS:
            raise SandboxError(
                f"--name {self.name}: {_SANDBOXES}/{self.name} holds the charts of all sandboxes: "
                "choose another name."
            )

    @property
    def id(self) -> str:
        """Unique on this machine, so that two sites can each have a sandbox with the same name."""
        digest = hashlib.sha256(str(self.project).encode()).hexdigest()[:8]
        return f"trainyard-{self.name}-{digest}"

    @property
    def dir(self) -> Path:
        """All of this sandbox's state; `down` removes it."""
        return self.project / _SANDBOXES / self.name

    @property
    def artifacts(self) -> Path:
        """The link to the charts and CRDs in the cache, as stacks/Pulumi.sandbox.yaml names it."""
        return self.project / _SANDBOXES / _ARTIFACTS

    @property
    def commands(self) -> Path:
        """This sandbox's own `pulumi`, and the language host where the official one is missing."""
        return self.dir / _COMMANDS

    @property
    def lock(self) -> Path:
        """Held by whoever changes this sandbox. In the cache, because `down` removes everything else."""
        return cache_dir() / "locks" / f"{self.id}.lock"

    @property
    def logs(self) -> Path:
        """One `<component>.log` each, and the API server's audit log."""
        return self.dir / "logs"

    @property
    def pki(self) -> Path:
        """Certificates and keys; readable only by the owner."""
        return self.dir / "pki"

    @property
    def config(self) -> Path:
        """Configuration files of the components."""
        return self.dir / "config"

    @property
    def kubeconfig(self) -> Path:
        """The user's kubeconfig: cluster-admin, through the forwarded loopback port."""
        return self.dir / "kubeconfig"

    @property
    def plan_file(self) -> Path:
        """What the supervisor runs (`supervisor.Plan` as JSON)."""
        return self.dir / "plan.json"

    @property
    def state_file(self) -> Path:
        """What the supervisor last saw of its components."""
        return self.dir / "state.json"


def without_commands(path: str) -> str:
    """A PATH without the folders of sandboxes' own commands, which lead to tools elsewhere."""
    folders = path.split(os.pathsep)
    own = f"{_SANDBOXES}/*/{_COMMANDS}"
    return os.pathsep.join(folder for folder in folders if not Path(folder).match(own))
