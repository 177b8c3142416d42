"""Brings a sandbox up, says how it is, and takes it down.

`up` is idempotent: it builds what is missing, starts what does not run, cleans
what a crash left, and is done when the node is Ready. `down` leaves nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from . import isolation, preflight, pulumi
from .commands import new_log, run_logged
from .control_plane import AUDIT_POLICY, ControlPlane, Credentials
from .errors import SandboxError
from .images import Images, Store
from .locks import locked
from .manifests import BOOTSTRAP, FAKE_NODES
from .node import Node
from .paths import Instance
from .pki import write_private
from .progress import Progress
from .supervisor import Component, Plan, State
from .toolchain import Toolchain

CONTROL_PLANE_TOOLS = (
    "kubernetes",
    "etcd",
    "kwok",
    "pulumi",
    "pulumi-resource-kubernetes",
    "trainer",
    "jobset",
    "kueue",
    "volcano",
)
NODE_TOOLS = (*CONTROL_PLANE_TOOLS, "coredns", "pause")

_READY_SECONDS = 180.0


@dataclass(frozen=True)
class Status:
    """How a sandbox is.

    Attributes:
        running: Its supervisor lives.
        healthy: And so do all components.
        components: What is known of each, by name: `state`, `pid`, `exit_code`, `since`.
        server: URL of the API server, None while there is none.
        problem: One sentence when something is wrong.
    """

    running: bool
    healthy: bool
    components: Mapping[str, Mapping[str, Any]]
    server: str | None
    problem: str | None


class Sandbox:
    """One sandbox of this checkout."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    # -- asking ---------------------------------------------------------------

    def status(self) -> Status:
        """How it is now; asks no API server, so it answers at once."""
        state = State.read(self.instance.state_file)
        settings = self._settings()
        server = f"https://127.0.0.1:{settings['port']}" if settings else None
        if state is None:
            return Status(False, False, {}, server, "It is not up: run `trainyard sandbox up`.")
        running = self._supervisor_lives(state)
        if not running:
            for component in state.components.values():
                component.state, component.pid = "gone", None
        components = {name: vars(component) for name, component in state.components.items()}
        ended = [name for name, component in state.components.items() if component.state == "ended"]
        problem = state.error
        if not running:
            problem = problem or "Its supervisor was killed: run `trainyard sandbox up` to repair it."
        elif ended:
            problem = (
                f"Ended by themselves: {', '.join(ended)}. Look at `trainyard sandbox logs {ended[0]}`, "
                "then run `trainyard sandbox up` to start them again."
            )
        return Status(running, running and not ended, components, server, problem)

    def environment(self) -> dict[str, str]:
        """What `exec` adds to the environment: kubectl, pulumi and the SDK then use this sandbox.

        Raises:
            SandboxError: If the sandbox is not up.
        """
        settings = self._settings()
        if settings is None or not self.status().running:
            raise SandboxError(f"The sandbox {self.instance.name!r} is not up: run `trainyard sandbox up`.")
        toolchain = Toolchain(_tools(settings["with_node"]))
        folders = [*toolchain.folders(), pulumi.tools_dir(self.instance), Path(sys.prefix) / "bin"]
        return {
            "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]),
            "KUBECONFIG": str(self.instance.kubeconfig),
            **pulumi.environment(self.instance),
        }

    def log_file(self, component: str) -> Path:
        """The log of a component, or `audit`.

        Raises:
            SandboxError: If there is no such log; names those that there are.
        """
        log = self.instance.logs / f"{component}.log"
        if not log.exists():
            known = sorted(path.stem for path in self.instance.logs.glob("*.log"))
            raise SandboxError(
                f"There is no log of {component!r}. "
                + (f"There are: {', '.join(known)}." if known else "The sandbox is not up.")
            )
        return log

    # -- doing ----------------------------------------------------------------

    def up(self, progress: Progress, *, control_plane_only: bool = False, port: int | None = None) -> None:
        """Bring it up, or repair it.

        Args:
            progress: Shows what is done.
            control_plane_only: No node that runs pods, simulated ones instead; needs no root.
            port: Loopback port of the API server; None keeps the last one or takes a free one.

        Raises:
            SandboxError: When it can't be; nothing that runs is left behind then.
        """
        with_node = not control_plane_only
        if with_node:
            preflight.require_root()
        with locked(self.instance.lock, f"another command on the sandbox {self.instance.name!r}"):
            self._refuse_other_kind(with_node)
            if self.status().running:
                toolchain = Toolchain(_tools(with_node))
                toolchain.build(progress)
                self._repair(progress, toolchain, with_node)
            else:
                toolchain, store = build(progress, control_plane_only=control_plane_only)
                self._start(progress, toolchain, store, port)

    def down(self) -> None:
        """Take it down and remove all that it left; fine when there is nothing."""
        with locked(self.instance.lock, f"another command on the sandbox {self.instance.name!r}"):
            self._stop()
            shutil.rmtree(self.instance.dir, ignore_errors=True)
        home = self.instance.dir.parent
        if home.exists() and not any(path.is_dir() and not path.is_symlink() for path in home.iterdir()):
            shutil.rmtree(home)  # no other sandbox is left

    # -- how ------------------------------------------------------------------

    def _settings(self) -> dict[str, Any] | None:
        try:
            settings: dict[str, Any] = json.loads((self.instance.dir / "settings.json").read_text())
        except FileNotFoundError:
            return None
        return settings

    def _refuse_other_kind(self, with_node: bool) -> None:
        settings = self._settings()
        if settings and settings["with_node"] != with_node:
            kind = "with a node" if settings["with_node"] else "with --control-plane-only"
            raise SandboxError(
                f"The sandbox {self.instance.name!r} was brought up {kind}: "
                "take it down first (`trainyard sandbox down`), or choose another --name."
            )

    def _supervisor_lives(self, state: State) -> bool:
        try:
            arguments = Path(f"/proc/{state.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return str(self.instance.plan_file).encode() in arguments

    def _repair(self, progress: Progress, toolchain: Toolchain, with_node: bool) -> None:
        if with_node and Images.read(toolchain).keys() != (self._settings() or {}).get("images"):
            progress.console.print(
                "Images have changed since this sandbox was brought up; it goes on with the old ones. "
                "To have the new ones: trainyard sandbox down, then up."
            )
        before = State.read(self.instance.state_file)
        ended = [name for name, c in before.components.items() if c.state == "ended"] if before else []
        if before and ended:
            with progress.step(f"start again what ended: {', '.join(ended)}"):
                os.kill(before.pid, signal.SIGHUP)
                # A supervisor that dies now never answers; the wait below then says who ended.
                while State.read(self.instance.state_file) == before and self._supervisor_lives(before):
                    time.sleep(0.05)
                self._wait_for_components()
        self._finish(progress, toolchain, with_node)

    def _start(self, progress: Progress, toolchain: Toolchain, store: Store | None, port: int | None) -> None:
        self._stop()
        port = port or (self._settings() or {}).get("port") or _free_port()
        preflight.require_port(port)
        for folder in (self.instance.dir, self.instance.logs, self.instance.config):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan = self._plan(toolchain, port, store)
        images = Images.read(toolchain).keys() if store else {}
        settings = {"port": port, "with_node": store is not None, "images": images}
        write_private(self.instance.dir / "settings.json", json.dumps(settings).encode())
        pulumi.prepare(self.instance, toolchain)
        plan.write(self.instance.plan_file)
        self.instance.state_file.unlink(missing_ok=True)
        with progress.step("start the control plane" + (" and the node" if store else "")):
            with (self.instance.logs / "supervisor.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "trainyard_sandbox.supervisor", self.instance.plan_file],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                )
            try:
                self._wait_for_components(process)
            except BaseException:
                self._stop()
                raise
        self._finish(progress, toolchain, store is not None)

    def _plan(self, toolchain: Toolchain, port: int, store: Store | None) -> Plan:
        instance = self.instance
        node = self._node() if store else None
        control_plane = ControlPlane(
            address=isolation.NODE_ADDRESS if node else "127.0.0.1",
            port=6443 if node else port,
            etcd_port=2379 if node else _free_port(2),
            data=instance.dir / "etcd",
            config=instance.config,
            audit_log=instance.logs / "audit.log",
            with_node=node is not None,
        )
        creds = Credentials.make(instance.pki, control_plane.address)
        files = {"audit-policy.yaml": yaml.safe_dump(AUDIT_POLICY)}
        clients = {
            "controller-manager": creds.controller_manager,
            "scheduler": creds.scheduler,
            "kwok": creds.admin,
        }
        components: list[Component] = control_plane.components(toolchain.binary, creds)
        components.append(_kwok(toolchain, instance))
        if node and store:
            clients |= {
                "kubelet": creds.ca.issue("kubelet", f"system:node:{node.name}", groups=("system:nodes",)),
                "kube-proxy": creds.ca.issue("kube-proxy", "system:kube-proxy"),
                "coredns": creds.ca.issue("coredns", "trainyard:coredns"),
            }
            files |= node.files()
            components += node.components(toolchain.binary)
            store.clone(node.containerd_root)
            # Pods of before a crash are started anew, as after a reboot.
            shutil.rmtree(node.kubelet_dir, ignore_errors=True)
        for name, text in files.items():
            write_private(instance.config / name, text.encode())
        for name, client in clients.items():
            path = instance.config / f"{name}.kubeconfig"
            creds.ca.kubeconfig(path, control_plane.server, client, instance.id)
        creds.ca.kubeconfig(instance.kubeconfig, f"https://127.0.0.1:{port}", creds.admin, instance.id)
        return Plan(
            components=components,
            logs=str(instance.logs),
            state_file=str(instance.state_file),
            cgroup=instance.id if node else None,
            kubelet_dir=str(node.kubelet_dir) if node else "",
            var_log=str(node.var_log) if node else "",
            listen=port,
            forward=f"{control_plane.address}:{control_plane.port}",
        )

    def _node(self) -> Node:
        instance = self.instance
        ca = Credentials.make(instance.pki, isolation.NODE_ADDRESS).ca
        name = f"{instance.name}-node"
        return Node(
            name=name,
            dir=instance.dir / "node",
            config=instance.config,
            cgroup=instance.id,
            ca=ca.pair.cert,
            serving=ca.issue("kubelet-serving", name, hosts=(name, isolation.NODE_ADDRESS)),
        )

    def _wait_for_components(self, supervisor: subprocess.Popen[bytes] | None = None) -> None:
        """Until all are ready; `supervisor` is the one just started, if it was."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            state = State.read(self.instance.state_file)
            if state and state.error:
                raise SandboxError(state.error)
            if supervisor and supervisor.poll() is not None:
                raise SandboxError("The supervisor ended.", self.instance.logs / "supervisor.log")
            if state and all(component.state == "ready" for component in state.components.values()):
                return
            self._fail_if_ended(state)
            if time.monotonic() > deadline:
                late = [name for name, c in state.components.items() if c.state != "ready"] if state else []
                name = late[0] if late else "supervisor"
                raise SandboxError(
                    f"Not ready in time: {', '.join(late)}.", self.instance.logs / f"{name}.log"
                )
            time.sleep(0.1)

    def _fail_if_ended(self, state: State | None) -> None:
        for name, component in state.components.items() if state else ():
            if component.state == "ended":
                raise SandboxError(
                    f"{name} ended by itself (exit code {component.exit_code}).",
                    self.instance.logs / f"{name}.log",
                )

    def _finish(self, progress: Progress, toolchain: Toolchain, with_node: bool) -> None:
        """Apply what the cluster itself needs, and wait until its node is Ready."""
        log = new_log(f"up-{self.instance.id}")
        kubectl = [str(toolchain.binary("kubectl")), f"--kubeconfig={self.instance.kubeconfig}"]
        manifests = self.instance.config / "bootstrap.yaml"
        write_private(manifests, yaml.safe_dump_all(BOOTSTRAP if with_node else FAKE_NODES).encode())
        with progress.step("wait for a Ready node"):
            deadline = time.monotonic() + _READY_SECONDS
            apply = ["apply", "--server-side", "--field-manager=trainyard", "-f", str(manifests)]
            node = ["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=5s"]
            account = ["wait", "--for=create", "serviceaccount/default", "--timeout=5s"]
            steps = {"set up the cluster": apply, "see a Ready node": node, "see a service account": account}
            for doing, command in steps.items():
                while True:
                    self._fail_if_ended(State.read(self.instance.state_file))
                    try:
                        run_logged([*kubectl, *command], log, doing)
                        break
                    except SandboxError:
                        if time.monotonic() > deadline:
                            raise
                        time.sleep(0.2)

    def _stop(self) -> None:
        """End all processes of this sandbox, however they came about; keep its data."""
        state = State.read(self.instance.state_file)
        if state and self._supervisor_lives(state):
            os.kill(state.pid, signal.SIGTERM)
            deadline = time.monotonic() + 60
            while self._supervisor_lives(state) and time.monotonic() < deadline:
                time.sleep(0.05)
        if os.geteuid() == 0:
            isolation.kill_cgroup(self.instance.id)
            isolation.remove_cgroup(self.instance.id)
        self.instance.state_file.unlink(missing_ok=True)


def build(progress: Progress, *, control_plane_only: bool = False) -> tuple[Toolchain, Store | None]:
    """Make everything that a sandbox is made of; free when all of it is there.

    Returns:
        The toolchain, and the images, which a control plane alone does without.

    Raises:
        SandboxError: Without root where pods shall run, without disk, or when something can't be built.
    """
    toolchain = Toolchain(_tools(not control_plane_only))
    if not control_plane_only:
        preflight.require_root()
    preflight.require_disk(cold=bool(toolchain.missing()))
    if control_plane_only:
        toolchain.build(progress)
        return toolchain, None
    preflight.require_packages(progress)
    toolchain.build(progress)
    return toolchain, Images.read(toolchain).store(progress)


def _tools(with_node: bool) -> tuple[str, ...]:
    return NODE_TOOLS if with_node else CONTROL_PLANE_TOOLS


def _kwok(toolchain: Toolchain, instance: Instance) -> Component:
    """Plays the kubelet of nodes that are simulated; every other node it leaves alone."""
    arguments = [
        f"--kubeconfig={instance.config / 'kwok.kubeconfig'}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
    ]
    return Component("kwok", [str(toolchain.binary("kwok")), *arguments], after=("kube-apiserver",))


def _free_port(count: int = 1) -> int:
    """The first of `count` consecutive free loopback ports."""
    while True:
        held = [socket.create_server(("127.0.0.1", 0))]
        first = held[0].getsockname()[1]
        try:
            held += [socket.create_server(("127.0.0.1", first + step)) for step in range(1, count)]
        except (OSError, OverflowError):
            continue
        finally:
            for server in held:
                server.close()
        return int(first)
