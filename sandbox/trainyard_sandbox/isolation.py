"""Linux namespaces and control groups: what keeps a sandbox out of its host.

The supervisor gives itself a network and a mount namespace without a name, so
that they vanish with the last process in them: no netns file, mount, bridge or
iptables rule is left on the host whatever dies how. Processes are found again
by the control group that all of them are in.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import SandboxError

NODE_ADDRESS = "10.88.0.1"
POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_PR_SET_CHILD_SUBREAPER = 36

# kubelet sets these for the whole kernel unless they already read so. Inside
# the sandbox they do; the host's stay as they are.
_KUBELET_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def become_subreaper() -> None:
    """Adopt orphans of this process's descendants (containerd's shims), to collect them at their end."""
    _libc("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def enter_namespaces(kubelet_dir: Path, var_log: Path) -> None:
    """Move this process into a network and a mount namespace of its own.

    Inside, /run is empty, /var/lib/kubelet is `kubelet_dir`, /var/log is
    `var_log`, all mounts are shared with what this process starts (as kubelet
    wants) and none with the host.
    """
    kubelet_dir.mkdir(parents=True, exist_ok=True)
    var_log.mkdir(parents=True, exist_ok=True)
    _libc("unshare", _CLONE_NEWNS | _CLONE_NEWNET)
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name in ("upper", "work", "netns", "sysctl"):
        Path("/run", name).mkdir()
    # /var/lib/kubelet has to exist to be mounted on, but not on the host.
    overlay = "lowerdir=/var/lib,upperdir=/run/upper,workdir=/run/work"
    _mount("-t", "overlay", "-o", overlay, "overlay", "/var/lib")
    Path("/var/lib/kubelet").mkdir(exist_ok=True)
    _mount("--bind", str(kubelet_dir), "/var/lib/kubelet")
    _mount("--bind", str(var_log), "/var/log")
    for number, (name, value) in enumerate(_KUBELET_SYSCTLS.items()):
        file = Path("/run/sysctl", str(number))
        file.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _mount("--bind", str(file), f"/proc/sys/{name}")
    _mount("--make-rshared", "/")
    _ip("link", "set", "lo", "up")
    # A bridge without ports carries the node's address: kubelet wants one that
    # is not loopback, and not every kernel has dummy devices.
    _ip("link", "add", "trainyard0", "type", "bridge")
    _ip("address", "add", f"{NODE_ADDRESS}/32", "dev", "trainyard0")
    _ip("link", "set", "trainyard0", "up")
    # Without a route no packet to a Service would reach kube-proxy's rules.
    _ip("route", "add", SERVICE_RANGE, "dev", "trainyard0", "src", NODE_ADDRESS)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def enter_cgroup(name: str) -> None:
    """Move this process into the control group `name`, made where it is missing."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        system = group / "system"
        system.mkdir(parents=True, exist_ok=True)
        for folder in (group, system):
            # A cpuset (version 1) takes no process before it has cores and memory nodes.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                file = folder / setting
                if file.exists() and not file.read_text().strip():
                    file.write_text((folder.parent / setting).read_text())
        (system / "cgroup.procs").write_text(str(os.getpid()))


def cgroup_processes(name: str) -> set[int]:
    """The processes in the control group `name` and the groups below it."""
    return {
        int(pid)
        for hierarchy in _hierarchies()
        for file in (hierarchy / name).rglob("cgroup.procs")
        for pid in _read(file).split()
    }


def kill_cgroup(name: str, *, timeout: float = 30.0) -> None:
    """End every process in the control group `name` but this one, for good.

    Raises:
        SandboxError: If some are still there after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while left := cgroup_processes(name) - {os.getpid()}:
        if time.monotonic() > deadline:
            raise SandboxError(f"Processes of the sandbox do not end: {sorted(left)}.")
        for pid in left:
            _signal(pid, signal.SIGKILL)
        _collect()
        time.sleep(0.02)


def remove_cgroup(name: str) -> None:
    """Remove the control group `name`, which must be without processes."""
    for hierarchy in _hierarchies():
        folders = [*(hierarchy / name).rglob("*"), hierarchy / name]
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            if folder.is_dir():
                folder.rmdir()


def _collect() -> None:
    """Reap children that ended, in case their end is what we wait for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _hierarchies() -> Iterator[Path]:
    """Mount points of the control groups: one for version 2, one a controller for version 1, or both."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(folder)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the group went while we looked
        return ""


def _mount(*arguments: str) -> None:
    _system(("mount", *arguments))


def _ip(*arguments: str) -> None:
    _system(("ip", *arguments))


def _system(arguments: Iterable[str]) -> None:
    command = list(arguments)
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SandboxError(f"`{' '.join(command)}` failed: {answer.stderr.strip()}")


def _libc(function: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
        number = ctypes.get_errno()
        raise SandboxError(f"{function}: {os.strerror(number)}")
