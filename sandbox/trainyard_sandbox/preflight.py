"""Checks what a machine must have before anything is done on it.

Each function raises a SandboxError that says what is missing and what to do.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from trainyard_api import places

from . import isolation
from .commands import FETCHES, new_log, run_logged
from .errors import SandboxError
from .isolation import NODES_OWN
from .locks import locked
from .paths import cache_dir
from .progress import Progress

_GIB = 1 << 30
_NO_APT = 2
"""The exit code of `install-packages` where somebody has to install them."""


def require_port(port: int) -> None:
    """The loopback port must be free."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise SandboxError(
            f"Port {port} on 127.0.0.1 is not available ({error.strerror}): choose another with --port."
        ) from None


def require_root() -> None:
    """Pods need namespaces, mounts and control groups."""
    if os.geteuid() != 0:
        raise SandboxError(
            "A node that runs pods needs root (namespaces, mounts, control groups): run this with sudo, "
            "or ask for `--control-plane-only`, where nodes are simulated and nothing runs in pods."
        )


def require_isolation() -> None:
    """In many containers, root may do less than a node needs."""
    if (why := isolation.refused()) is not None:
        raise SandboxError(
            "A node that runs pods needs namespaces, mounts and control groups, which root cannot have here "
            f"({why}). In a container: give it these rights (docker run --privileged), or ask for "
            "`--control-plane-only`, where nodes are simulated and nothing runs in pods."
        )


def require_shared(state: Path) -> None:
    """A node and its host both need the sandbox's state and the cache."""
    elsewhere = {
        state: "move the site to another folder, or ask for `--control-plane-only`",
        cache_dir(): "point TRAINYARD_CACHE to another folder",
    }
    for folder, way_out in elsewhere.items():
        for own in NODES_OWN:
            if folder.resolve().is_relative_to(Path(own).resolve()):
                raise SandboxError(f"{folder} is in {own}, and each node has a {own} of its own: {way_out}.")


def require_disk(*, compiles: bool) -> None:
    """The cache needs room: much more of it where a part of the toolchain is compiled."""
    needed, purpose = (30, "to build the toolchain") if compiles else (6, "for images and logs")
    _require_free(cache_dir(), needed, purpose, "point TRAINYARD_CACHE to a larger disk")


def require_room(state: Path) -> None:
    """And so does what a sandbox writes while it runs."""
    _require_free(state, 1, "for etcd and logs", "move the site to a larger disk")


def _require_free(folder: Path, needed: int, purpose: str, way_out: str) -> None:
    free = free_bytes(folder) // _GIB  # rounded down, or it could read as enough
    if free < needed:
        raise SandboxError(
            f"{folder} has {free} GiB free, but needs {needed} GiB {purpose}: make room, or {way_out}."
        )


def require_installable() -> None:
    """Whatever Debian packages are missing, apt-get has to install them."""
    _missing(places.shipped("sandbox/install-packages"))


def require_packages(progress: Progress) -> None:
    """Install the missing Debian packages, after saying which."""
    script = places.shipped("sandbox/install-packages")
    if _missing(script) is None:
        return
    with locked(cache_dir() / "locks" / "packages.lock", "another installation of Debian packages"):
        # Asked again: meanwhile, the other command may have installed them.
        if (missing := _missing(script)) is not None:
            with progress.step(f"install Debian packages: {missing}"):
                run_logged([script], new_log("install-packages"), "install Debian packages", tries=FETCHES)


def _missing(script: Path) -> str | None:
    answer = subprocess.run([script, "--check"], capture_output=True, text=True, check=False)
    if answer.returncode == _NO_APT:
        raise SandboxError(answer.stderr.strip())
    return answer.stdout.strip() if answer.returncode else None


def free_bytes(path: Path) -> int:
    """Free space on the file system that `path` is on, or will be on."""
    while not path.exists():
        path = path.parent
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
