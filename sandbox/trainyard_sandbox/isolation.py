"""Linux namespaces and control groups: what keeps a sandbox out of its host.

The supervisor enters a network and a mount namespace without names, which
vanish with the last process in them: whatever dies, no netns file, mount,
bridge or iptables rule is left on the host. The control plane and the first
node run there; each further node gets a pair of its own, connected to the first
by a veth pair and routes. All processes are in one control group, by which they
are found again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import SandboxError

CLUSTER_ADDRESS = "10.88.0.1"
"""The address of the control plane, of the cluster's DNS and of the first node."""
POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"

NODES_OWN = ("/run", "/var/lib", "/var/log")
"""Folders that a node has for itself: what is written there inside cannot be seen outside."""

_UNIFIED = Path("/sys/fs/cgroup")
"""Where version 2 of control groups is, if kubelet uses it."""
_OF_KUBELET = frozenset({"cpu", "cpuset", "hugetlb", "memory", "pids"})
"""The controllers that kubelet demands in its group, as far as the machine has them."""

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# kubelet sets these for the whole kernel unless they already have these values.
# Inside the sandbox they appear to; the host's stay as they are.
_KUBELET_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def become_subreaper(*, adopts: bool = True) -> None:
    """Adopt orphans of this process's descendants (containerd's shims), to reap them when they end."""
    _libc("prctl", _PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process that signal, also after an exec, as soon as its parent dies."""
    _libc("prctl", _PR_SET_PDEATHSIG, number, 0, 0, 0)


@dataclass(frozen=True)
class Space:
    """What a node has for itself on the machine.

    Attributes:
        name: Unique in a sandbox, at most 15 characters: it also names the node's veth device.
        cgroup: The control group of all that runs on it.
        kubelet_dir, var_log: What /var/lib/kubelet and /var/log are inside.
        address: The node's own.
        pods: Range of its pods' addresses.
    """

    name: str
    cgroup: str
    kubelet_dir: str
    var_log: str
    address: str
    pods: str


@dataclass(frozen=True)
class Namespaces:
    """Open files of a network and a mount namespace, which keep both alive."""

    network: int
    mounts: int

    @classmethod
    def current(cls) -> Namespaces:
        """Those that this process is in."""
        return cls(*(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt")))

    def enter(self) -> None:
        """Move this process, which must have one thread, into them; its current folder becomes /."""
        _libc("setns", self.network, _CLONE_NEWNET)
        _libc("setns", self.mounts, _CLONE_NEWNS)


def enter_namespaces(space: Space) -> None:
    """Move this process into a network and a mount namespace of its own, for the first node.

    Inside, /run is empty, and /var/lib/kubelet and /var/log are the node's. All
    mounts are shared with the processes that this one starts (as kubelet
    requires), and none with the host.
    """
    _libc("unshare", _CLONE_NEWNS | _CLONE_NEWNET)
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name in ("upper", "work", "sysctl"):
        Path("/run", name).mkdir()
    # /var/lib/kubelet has to exist to be mounted on, but not on the host.
    overlay = "lowerdir=/var/lib,upperdir=/run/upper,workdir=/run/work"
    _mount("-t", "overlay", "-o", overlay, "overlay", "/var/lib")
    Path("/var/lib/kubelet").mkdir(exist_ok=True)
    for number, (name, value) in enumerate(_KUBELET_SYSCTLS.items()):
        file = Path("/run/sysctl", str(number))
        file.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _mount("--bind", str(file), f"/proc/sys/{name}")
    _mount_folders(space)
    _ip("link", "set", "lo", "up")
    # A bridge without ports carries the node's address: kubelet needs one that
    # is not loopback, and not every kernel has dummy devices.
    _ip("link", "add", "trainyard0", "type", "bridge")
    _ip("address", "add", f"{CLUSTER_ADDRESS}/32", "dev", "trainyard0")
    _ip("link", "set", "trainyard0", "up")
    # Without a route no packet to a Service would reach kube-proxy's rules.
    _ip("route", "add", SERVICE_RANGE, "dev", "trainyard0", "src", CLUSTER_ADDRESS)
    _forward_packets()


def add_namespaces(space: Space) -> Namespaces:
    """Make the namespaces of a further node; this process stays where it is, the first node's.

    From here, the node's /run is `run_folder(space)`.
    """
    home = Namespaces.current()
    run_folder(space).mkdir(parents=True, mode=0o755)
    name = Path("/run/netns", space.name)  # iproute2 finds a namespace by its name there
    name.touch()
    _libc("unshare", _CLONE_NEWNET)
    _mount("--bind", "/proc/self/ns/net", str(name))
    _forward_packets()
    _libc("setns", home.network, _CLONE_NEWNET)
    _ip("link", "add", space.name, "type", "veth", "peer", "name", "eth0", "netns", space.name)
    _ip("link", "set", space.name, "up")
    _ip("route", "add", f"{space.address}/32", "dev", space.name)
    _ip("route", "add", space.pods, "via", space.address, "dev", space.name, "onlink")
    for command in (
        ("link", "set", "lo", "up"),
        ("link", "set", "eth0", "up"),
        ("address", "add", f"{space.address}/32", "dev", "eth0"),
        ("route", "add", f"{CLUSTER_ADDRESS}/32", "dev", "eth0"),
        ("route", "add", "default", "via", CLUSTER_ADDRESS, "dev", "eth0", "src", space.address),
    ):
        _ip("-netns", space.name, *command)
    network = os.open(name, os.O_RDONLY)
    _libc("unshare", _CLONE_NEWNS)
    _mount("--make-rprivate", "/")
    _mount("--bind", str(run_folder(space)), "/run")
    _mount_folders(space)
    made = Namespaces(network, os.open("/proc/self/ns/mnt", os.O_RDONLY))
    home.enter()
    return made


def run_folder(space: Space) -> Path:
    """The path of a further node's /run on the first node."""
    return Path("/run/nodes", space.name)


def _mount_folders(space: Space) -> None:
    """Give this process's mount namespace the node's folders, and let kubelet share mounts from now on."""
    Path("/run/netns").mkdir()
    for folder, place in ((space.kubelet_dir, "/var/lib/kubelet"), (space.var_log, "/var/log")):
        Path(folder).mkdir(parents=True, exist_ok=True)
        _mount("--bind", folder, place)
    _mount("--make-rshared", "/")


def _forward_packets() -> None:
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def enter_cgroup(name: str) -> None:
    """Move this process into the control group `name`, created if it is missing."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        system = group / "system"
        system.mkdir(parents=True, exist_ok=True)
        for folder in (group, system):
            # A cpuset (version 1) accepts no process before it has cores and memory nodes.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                file = folder / setting
                if file.exists() and not file.read_text().strip():
                    file.write_text((folder.parent / setting).read_text())
        if hierarchy == _UNIFIED:
            for folder in reversed(system.parents):
                if folder.is_relative_to(hierarchy):
                    _pass_on_controllers(folder)
        (system / "cgroup.procs").write_text(str(os.getpid()))


def _pass_on_controllers(group: Path) -> None:
    """Let the groups below a group of version 2 have the controllers that kubelet demands.

    The kernel refuses it while the group itself has processes, as the topmost one
    of a container does: they move to the group `init` below it.
    """
    passed_on = group / "cgroup.subtree_control"
    if not passed_on.exists():
        return
    available = set((group / "cgroup.controllers").read_text().split())
    missing = (available & _OF_KUBELET) - set(passed_on.read_text().split())
    if not missing:
        return
    setting = " ".join(f"+{controller}" for controller in sorted(missing))
    try:
        passed_on.write_text(setting)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        init = group / "init"
        init.mkdir(exist_ok=True)
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it has just ended
                (init / "cgroup.procs").write_text(pid)
        passed_on.write_text(setting)


def refused() -> str | None:
    """Why the kernel lets this process make no space; None if it does. Leaves nothing."""
    # What it writes is of a namespace that ends with it.
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    command = ["unshare", "--mount", "--net", "sh", "-c", forward]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None  # it comes with the Debian packages
    if answer.returncode:
        return answer.stderr.strip()
    for hierarchy in _hierarchies():
        group = hierarchy / f"trainyard-{os.getpid()}"
        try:
            group.mkdir()
            group.rmdir()
        except OSError as error:
            return f"{group}: {error.strerror}"
    return None


def cgroup_processes(name: str) -> set[int]:
    """The processes in the control group `name` and the groups below it."""
    return {
        int(pid)
        for hierarchy in _hierarchies()
        for file in (hierarchy / name).rglob("cgroup.procs")
        for pid in _read(file).split()
    }


def kill_cgroup(name: str) -> None:
    """Kill every process in the control group `name` except this one.

    Raises:
        SandboxError: If some are still there after two minutes.
    """
    deadline = time.monotonic() + 120
    while left := cgroup_processes(name) - {os.getpid()}:
        if time.monotonic() > deadline:
            raise SandboxError(f"Processes of the sandbox do not end: {sorted(left)}.")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _collect()
        time.sleep(0.02)


def remove_cgroup(name: str) -> None:
    """Remove the control group `name`, which must have no processes."""
    for hierarchy in _hierarchies():
        folders = [hierarchy / name, *(hierarchy / name).rglob("*")]
        for folder in sorted(folders, reverse=True):  # those below a group before it
            _remove_group(folder, time.monotonic() + 10)


def _remove_group(folder: Path, deadline: float) -> None:
    """Remove one group; it is busy for a moment after its last process has died."""
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _collect() -> None:
    """Reap ended children, in case the caller waits for them to end."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _hierarchies() -> Iterator[Path]:
    """Mount points of control groups: one for version 2, one for each controller in version 1, or both."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(folder)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the group has just been removed
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
