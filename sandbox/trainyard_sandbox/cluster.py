"""Brings a sandbox up, reports its status, and takes it down.

`up` is idempotent: it builds what is missing, starts what does not run, cleans
what a crash left, and is done when the nodes are Ready. `down` leaves nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from . import isolation, preflight, pulumi
from .assembly import assemble, free_port, node_names
from .commands import new_log, run_logged, threads
from .errors import SandboxError
from .images import Images, Store, load
from .locks import locked
from .manifests import BOOTSTRAP, FAKE_NODES
from .node import CONTAINERD_SOCKET, containerd_name
from .parts import PARTS, named
from .paths import Instance, cache_dir
from .pki import Authority, end_of, write_private
from .progress import Progress
from .supervisor import ComponentState, State
from .toolchain import Toolchain, kubernetes_versions, tools

CONTROL_PLANE_TOOLS = (
    "kubernetes",
    "etcd",
    "kwok",
    "pulumi",
    "pulumi-resource-kubernetes",
    "trainer",
    "jobset",
    "kueue",
    "prometheus-operator",
)
KUBERNETES = kubernetes_versions()
"""The tool of each version that a sandbox can have."""
USUAL_KUBERNETES = next(iter(KUBERNETES))
NODE_TOOLS = (*CONTROL_PLANE_TOOLS, "coredns", "kube-router", "local-path-provisioner", "pause")
"""Besides those of the parts that it has."""

_SUPERVISOR = f"{__package__}.supervisor"
_READY_SECONDS = 600.0
_ANSWER_SECONDS = 60.0
"""For a supervisor to write that it starts again what has ended."""
_SOON = timedelta(days=30)
"""How long before its certificates end a sandbox says so."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""What a user of the sandbox may be called."""


@dataclass(frozen=True)
class Status:
    """The status of a sandbox.

    Attributes:
        running: Its supervisor lives.
        healthy: And so do all components, with certificates that are valid.
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
        """Its current status; does not query the API server, so it returns at once."""
        state = State.read(self.instance.state_file)
        settings = self._settings()
        server = f"https://127.0.0.1:{settings['port']}" if settings else None
        if state is None:
            return Status(False, False, {}, server, "It is not up: run `trainyard sandbox up`.")
        running = self._supervises(state.pid)
        if not running:
            for component in state.components.values():
                component.state, component.pid = ComponentState.GONE, None
        components = {name: vars(component) for name, component in state.components.items()}
        ended = state.those(ComponentState.ENDED)
        expired = self._expiry()
        problem = state.error or expired
        if not running:
            problem = problem or "Its supervisor was killed: run `trainyard sandbox up` to repair it."
        elif ended and not expired:
            problem = (
                f"Ended by themselves: {', '.join(ended)}. Look at `trainyard sandbox logs {ended[0]}`, "
                "then run `trainyard sandbox up` to start them again."
            )
        healthy = running and not ended and not expired
        return Status(running, healthy, components, server, problem)

    def environment(
        self, user: str | None = None, namespace: str = "default", *, site: str | None = None
    ) -> dict[str, str]:
        """What `exec` adds to the environment: kubectl, pulumi and the SDK then use this sandbox.

        Args:
            user: Who uses it, with only that user's rights; unless given, an administrator.
            namespace: Where that user looks first.
            site: A site's stack that is tried out on it, in place of the sandbox's own.

        Raises:
            SandboxError: If the sandbox is not up, no user could have the name, or there is no such stack.
        """
        settings = self._settings()
        if settings is None or not self.status().running:
            raise SandboxError(f"The sandbox {self.instance.name!r} is not up: run `trainyard sandbox up`.")
        kubernetes, parts = settings.get("kubernetes", USUAL_KUBERNETES), _parts_of(settings)
        toolchain = Toolchain(_tools(settings["nodes"], kubernetes, parts))
        folders = [self.instance.commands, *toolchain.folders(), Path(sys.prefix) / "bin"]
        of_pulumi = pulumi.environment(self.instance, kubernetes, parts, site)
        if site is not None:
            pulumi.prepare_site(self.instance, toolchain, site, of_pulumi)
        return {
            "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]),
            "KUBECONFIG": str(self._kubeconfig(user, namespace) if user else self.instance.kubeconfig),
            **of_pulumi,
        }

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it has (`parts.PARTS`); none if there is no such sandbox."""
        settings = self._settings()
        return _parts_of(settings) if settings else ()

    def _kubeconfig(self, user: str, namespace: str) -> Path:
        """The user's kubeconfig, with a certificate in that name."""
        for option, value in (("--user", user), ("--namespace", namespace)):
            if not _NAME.fullmatch(value):
                raise SandboxError(
                    f"{option} {value!r}: a name has at most 63 letters, digits, '.', '_' and '-'."
                )
        admins = yaml.safe_load(self.instance.kubeconfig.read_text())
        authority = Authority(self.instance.pki, "ca")
        return authority.kubeconfig(
            self.instance.dir / "users" / f"{user}.{namespace}",
            admins["clusters"][0]["cluster"]["server"],
            authority.issue(f"user.{user}", user),
            self.instance.id,
            namespace,
        )

    def log_file(self, component: str) -> Path:
        """The log of a component, or `audit`.

        Raises:
            SandboxError: If there is no such log; names those that there are.
        """
        log = self.instance.logs / f"{component}.log"
        if not log.exists():
            components = sorted(path.stem for path in self.instance.logs.glob("*.log"))
            raise SandboxError(
                f"There is no log of {component!r}. "
                + (f"There are: {', '.join(components)}." if components else "The sandbox is not up.")
            )
        return log

    # -- doing ----------------------------------------------------------------

    def up(
        self,
        progress: Progress,
        *,
        nodes: int | None = None,
        port: int | None = None,
        kubernetes: str | None = None,
        parts: Iterable[str] = (),
        from_source: bool = False,
    ) -> None:
        """Bring it up, or repair it, or add parts to it.

        Args:
            progress: Shows what is done.
            nodes: How many nodes run pods; None keeps what it has, or makes one. 0: none does,
                there are simulated ones instead; needs no root.
            port: Loopback port of the API server; None keeps the last one or takes a free one. One that
                runs keeps its own.
            kubernetes: Its minor version (`1.36`); None keeps what it has, or takes the usual one.
            parts: Optional parts to add (`parts.PARTS`).
            from_source: Build what would come from upstream's releases.

        Raises:
            SandboxError: It could not come up; no process of it is left.
        """
        settings = self._settings() or {}
        if nodes is None:
            nodes = settings.get("nodes", 1)
        kubernetes = kubernetes or settings.get("kubernetes", USUAL_KUBERNETES)
        if nodes:
            preflight.require_root()
            if not self.status().running:
                preflight.require_shared(self.instance.dir)
        with locked(self.instance.lock, f"another command on the sandbox {self.instance.name!r}"):
            self._refuse_other_kind(nodes, kubernetes, port)
            if expired := self._expiry():
                raise SandboxError(expired)
            if soon := self._expiry(within=_SOON):
                progress.console.print(soon, soft_wrap=True)
            had = self.parts
            has = named({*had, *parts})
            kind: dict[str, Any] = {"kubernetes": kubernetes, "parts": has}
            if not self.status().running:
                if nodes:
                    preflight.require_isolation()
                preflight.require_room(self.instance.dir)
                toolchain, store = build(
                    progress, control_plane_only=not nodes, from_source=from_source, **kind
                )
                self._start(progress, toolchain, store, port=port, nodes=nodes, **kind)
                return
            if has != had:
                build(progress, control_plane_only=not nodes, from_source=from_source, **kind)
            toolchain = Toolchain(_tools(nodes, kubernetes, has), from_source=from_source)
            toolchain.build(progress)
            self._repair(progress, toolchain, nodes)
            if has != had:  # not before: a node's containerd may have ended
                self._add(progress, [part for part in has if part not in had], nodes)

    def down(self) -> None:
        """Take it down and remove everything that it left; does nothing if there is nothing."""
        with locked(self.instance.lock, f"another command on the sandbox {self.instance.name!r}"):
            self._stop()
            shutil.rmtree(self.instance.dir, ignore_errors=True)
        home = self.instance.dir.parent
        with self._home_held():
            if home.exists() and not any(path.is_dir() and not path.is_symlink() for path in home.iterdir()):
                shutil.rmtree(home)  # no other sandbox is left

    # -- how ------------------------------------------------------------------

    def _home_held(self) -> AbstractContextManager[None]:
        """Lock the folder of all sandboxes of this checkout: the last one removes it, the next makes it."""
        digest = self.instance.id.rpartition("-")[2]
        return locked(cache_dir() / "locks" / f"home-{digest}.lock", "another sandbox's start or stop")

    def _settings(self) -> dict[str, Any] | None:
        try:
            settings: dict[str, Any] = json.loads((self.instance.dir / "settings.json").read_text())
        except FileNotFoundError:
            return None
        return settings

    def _write_settings(self, settings: Mapping[str, Any]) -> None:
        write_private(self.instance.dir / "settings.json", json.dumps(settings).encode())

    def _refuse_other_kind(self, nodes: int, kubernetes: str, port: int | None) -> None:
        settings = self._settings()
        if settings is None:
            return
        kind, version = None, settings.get("kubernetes", USUAL_KUBERNETES)
        if settings["nodes"] != nodes:
            kind = f"--nodes {settings['nodes']}" if settings["nodes"] else "--control-plane-only"
        elif version != kubernetes:
            kind = f"--kubernetes {version}"
        elif port not in (None, settings["port"]) and self.status().running:
            kind = f"--port {settings['port']}"
        if kind:
            raise SandboxError(
                f"The sandbox {self.instance.name!r} was brought up with {kind}: "
                "take it down first (`trainyard sandbox down`), or choose another --name."
            )

    def _expiry(self, within: timedelta = timedelta()) -> str | None:
        """What to do about its certificates, if they have ended or will within that time."""
        authority = self.instance.pki / "ca.crt"  # made first, so it ends first
        if not authority.exists() or (end := end_of(authority)) > datetime.now(UTC) + within:
            return None
        return (
            f"The certificates of the sandbox {self.instance.name!r} are valid until {end:%Y-%m-%d}, and "
            "nothing renews them: take it down (`trainyard sandbox down`), then bring it up anew."
        )

    def _supervises(self, pid: int) -> bool:
        """Whether the process is a supervisor of this sandbox."""
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return {_SUPERVISOR.encode(), str(self.instance.plan_file).encode()} <= set(arguments)

    def _supervisors(self) -> list[int]:
        """Its supervisors that live, also one whose state file is gone with the folder (`git clean`)."""
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return [pid for pid in pids if self._supervises(pid)]

    def _add(self, progress: Progress, parts: Sequence[str], nodes: int) -> None:
        """Give its nodes the images of more parts, while it runs."""
        settings = self._settings() or {}
        images = _images(parts).of(parts)
        if nodes:
            state = State.read(self.instance.state_file)
            containerds = [containerd_name(number) for number in range(1, nodes + 1)]
            pids = [state.components[name].pid for name in containerds] if state else []
            archives = images.archived(progress)
            with progress.step(f"give its nodes the images of {', '.join(parts)}"):
                for pid in pids:
                    load(archives, f"/proc/{pid}/root{CONTAINERD_SOCKET}", new_log("store"))
            settings["images"] |= images.keys()
        settings["parts"] = named({*_parts_of(settings), *parts})
        self._write_settings(settings)

    def _repair(self, progress: Progress, toolchain: Toolchain, nodes: int) -> None:
        settings = self._settings() or {}
        if nodes and _images(_parts_of(settings)).keys() != settings.get("images"):
            progress.console.print(
                "Images have changed since this sandbox was brought up; it continues with the old ones. "
                "To get the new ones: trainyard sandbox down, then up."
            )
        before = State.read(self.instance.state_file)
        ended = before.those(ComponentState.ENDED) if before else []
        if before and ended:
            with progress.step(f"start again what ended: {', '.join(ended)}"):
                os.kill(before.pid, signal.SIGHUP)
                # One that dies now, or cannot write, never answers; the wait below then says who ended.
                deadline = time.monotonic() + _ANSWER_SECONDS
                while (
                    State.read(self.instance.state_file) == before
                    and self._supervises(before.pid)
                    and time.monotonic() < deadline
                ):
                    time.sleep(0.05)
                self._wait_for_components()
        self._finish(progress, toolchain, nodes)

    def _start(
        self,
        progress: Progress,
        toolchain: Toolchain,
        store: Store | None,
        *,
        port: int | None,
        nodes: int,
        kubernetes: str,
        parts: Sequence[str],
    ) -> None:
        self._stop()
        port = port or (self._settings() or {}).get("port")
        if port:
            preflight.require_port(port)
        else:
            # Not asked about again: a process that this one forks just now holds it until its exec.
            port = free_port()
        with self._home_held():
            for folder in (self.instance.dir, self.instance.logs, self.instance.config):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        images = _images(parts).keys() if store else {}
        self._write_settings(
            {"port": port, "nodes": nodes, "kubernetes": kubernetes, "parts": parts, "images": images}
        )
        pulumi.prepare(self.instance, toolchain, kubernetes, parts)
        assemble(self.instance, toolchain, port, store, nodes).write(self.instance.plan_file)
        self.instance.state_file.unlink(missing_ok=True)
        members = ["the control plane", *node_names(self.instance, nodes)]
        with progress.step(f"start {' and '.join(members)}"):
            with (self.instance.logs / "supervisor.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", _SUPERVISOR, self.instance.plan_file],
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
        self._finish(progress, toolchain, nodes)

    def _wait_for_components(self, supervisor: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until all are ready; `supervisor` is the process if it was just started."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            state = State.read(self.instance.state_file)
            if state and state.error:
                raise SandboxError(state.error)
            if supervisor and supervisor.poll() is not None:
                raise SandboxError("The supervisor ended.", self.instance.logs / "supervisor.log")
            late = sorted({*state.components} - {*state.those(ComponentState.READY)}) if state else []
            if state and not late:
                return
            self._fail_if_ended(state)
            if time.monotonic() > deadline:
                name = late[0] if late else "supervisor"
                raise SandboxError(
                    f"Not ready in time: {', '.join(late)}.", self.instance.logs / f"{name}.log"
                )
            time.sleep(0.1)

    def _fail_if_ended(self, state: State | None) -> None:
        for name, component in state.components.items() if state else ():
            if component.state is ComponentState.ENDED:
                code = component.exit_code
                ended = "could not start" if code is None else f"ended by itself (exit code {code})"
                raise SandboxError(f"{name} {ended}.", self.instance.logs / f"{name}.log")

    def _finish(self, progress: Progress, toolchain: Toolchain, nodes: int) -> None:
        """Apply what the cluster itself needs, and wait until its nodes are Ready."""
        log = new_log(f"up-{self.instance.id}")
        kubectl = [str(toolchain.binary("kubectl")), f"--kubeconfig={self.instance.kubeconfig}"]
        manifests = self.instance.config / "bootstrap.yaml"
        write_private(manifests, yaml.safe_dump_all(BOOTSTRAP if nodes else FAKE_NODES).encode())
        # By name: "all" would be content with the first that registers.
        targets = [f"node/{name}" for name in node_names(self.instance, nodes)] or ["nodes", "--all"]
        with progress.step("wait until nodes are Ready"):
            deadline = time.monotonic() + _READY_SECONDS
            apply = ["apply", "--server-side", "--field-manager=trainyard", "-f", str(manifests)]
            ready = ["wait", "--for=condition=Ready", *targets, "--timeout=5s"]
            account = ["wait", "--for=create", "serviceaccount/default", "--timeout=5s"]
            steps = {"set up the cluster": apply, "see Ready nodes": ready, "see a service account": account}
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
        """End all processes of this sandbox, whoever started them; keep its data."""
        supervisors = self._supervisors()
        for pid in supervisors:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
            except PermissionError:
                raise SandboxError(
                    f"The sandbox {self.instance.name!r} is another user's (process {pid}): run this as that "
                    "user, or with sudo."
                ) from None
        deadline = time.monotonic() + 60
        while any(map(self._supervises, supervisors)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if os.geteuid() == 0:
            isolation.kill_cgroup(self.instance.id)
            isolation.remove_cgroup(self.instance.id)
        self.instance.state_file.unlink(missing_ok=True)


def build(
    progress: Progress,
    *,
    control_plane_only: bool = False,
    kubernetes: str = USUAL_KUBERNETES,
    parts: Sequence[str] = (),
    from_source: bool = False,
) -> tuple[Toolchain, Store | None]:
    """Get everything that a sandbox consists of; returns at once if all of it exists.

    Args:
        progress: Shows what comes from where, and how long it takes.
        control_plane_only: Nothing is to run in pods.
        kubernetes: Its minor version.
        parts: Its optional parts (`parts.PARTS`).
        from_source: Build what would come from upstream's releases.

    Returns:
        The toolchain, and the images, which a control plane without nodes does not need.

    Raises:
        SandboxError: Without root or packages where pods are to run, without disk, or if something cannot be
            built or is not what is meant.
    """
    names = _tools(0 if control_plane_only else 1, kubernetes, parts)
    toolchain = Toolchain(names, from_source=from_source)
    if not control_plane_only:
        preflight.require_root()
        preflight.require_installable()
    preflight.require_disk(compiles=False)
    # First, and not beside the images: whoever gets a wrong file should know it at once.
    toolchain.fetch(progress, () if control_plane_only else _images(parts).parts())
    preflight.require_disk(compiles=bool(toolchain.uncompiled()))
    if control_plane_only:
        toolchain.build(progress)
        return toolchain, None
    preflight.require_packages(progress)
    with threads(1) as beside:
        ahead = beside.submit(_images(parts).build_ahead, progress)
        toolchain.build(progress, lambda: ahead.done() and ahead.exception() is not None)
        ahead.result()
    store = _images(parts).store(progress)
    progress.expect_nothing()
    return toolchain, store


def bundled(progress: Progress, parts: Sequence[str] = ()) -> list[str]:
    """What a bundle holds, as paths in the cache, after building what is missing.

    Of the binaries those in the cache, not those on PATH.

    Args:
        progress: Shows what comes from where, and how long it takes.
        parts: The optional parts of a sandbox that it holds too (`parts.PARTS`).

    Raises:
        SandboxError: As `build`.
    """
    toolchain, _ = build(progress, parts=parts)
    pieces = [path for tool in toolchain.tools for path in tool.pieces()]
    images = _images(parts)
    archives = [*images.bases_archived(progress), *images.archived(progress)]
    return [*pieces, *(str(path.relative_to(cache_dir())) for path in archives)]


def _parts_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of a sandbox; of one that is older than they are, all."""
    return tuple(settings.get("parts", PARTS))


def _images(parts: Sequence[str]) -> Images:
    """The images, with the present binaries and the usual kubectl, whatever version runs."""
    return Images.read(Toolchain(_tools(1, USUAL_KUBERNETES, parts)), parts)


def _tools(nodes: int, kubernetes: str, parts: Collection[str]) -> tuple[str, ...]:
    of_parts = (name for name, tool in tools().items() if tool.part in parts)
    return (*(NODE_TOOLS if nodes else CONTROL_PLANE_TOOLS), *of_parts, KUBERNETES[kubernetes])
