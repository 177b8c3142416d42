"""Starts the components of one sandbox, watches them, and ends them.

Run by `cluster` as `python -m trainyard_sandbox.supervisor PLAN.json`. It
tells what it sees in a state file and restarts nothing by itself: a component
that died is news, not noise. SIGHUP starts what has ended, SIGTERM ends all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from . import isolation
from .errors import SandboxError
from .isolation import Namespaces, Space
from .pki import write_private

_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Component:
    """A program to keep running.

    Attributes:
        name: Also the name of its log.
        argv: Absolute path and arguments.
        after: Components that must answer before this one starts.
        ready: Where it answers once it works, seen from the first space: `HOST:PORT` or the
            path of a socket; None: it works when it runs.
        space: The node whose space it runs in; None for the first.
    """

    name: str
    argv: Sequence[str]
    after: Sequence[str] = ()
    ready: str | None = None
    space: str | None = None


@dataclass(frozen=True)
class Plan:
    """What one supervisor runs, and where.

    Attributes:
        components: In the order in which they are named to people.
        logs: Folder of the logs.
        state_file: Where the supervisor tells what it sees.
        cgroup: The control group of all processes; None where there is no space.
        spaces: What each node has for itself; the first is the control plane's too. None at
            all: no isolation, everything runs as the user in the host's own namespaces.
        listen, forward: Loopback port on the host, and the address inside that it leads to.
    """

    components: Sequence[Component]
    logs: str
    state_file: str
    cgroup: str | None = None
    spaces: Sequence[Space] = ()
    listen: int = 0
    forward: str = ""

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        write_private(path, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read back what `write` wrote."""
        document: dict[str, Any] = json.loads(path.read_text())
        components = [Component(**component) for component in document.pop("components")]
        spaces = [Space(**space) for space in document.pop("spaces")]
        return cls(components=components, spaces=spaces, **document)


class ComponentState(StrEnum):
    """The state of a component."""

    WAITING = "waiting"
    """For those that must be ready before it starts."""
    STARTING = "starting"
    """It runs, but is not ready yet."""
    READY = "ready"
    ENDED = "ended"
    """It runs no more, or could not start."""
    GONE = "gone"
    """It ended with its supervisor, which can no longer say how."""


@dataclass
class Running:
    """What is known of a component."""

    state: ComponentState = ComponentState.WAITING
    pid: int | None = None
    exit_code: int | None = None
    """Negative for the signal that ended it; None also where it could not start."""
    since: float = field(default_factory=time.time)


@dataclass
class State:
    """What a supervisor last wrote about itself."""

    pid: int
    components: dict[str, Running]
    error: str | None = None

    @classmethod
    def read(cls, path: Path) -> State | None:
        """The last state written; None if there is none."""
        try:
            document = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        components = {
            name: Running(**{**running, "state": ComponentState(running["state"])})
            for name, running in document.pop("components").items()
        }
        return cls(components=components, **document)

    def those(self, state: ComponentState) -> list[str]:
        """The names of the components in this state."""
        return [name for name, component in self.components.items() if component.state is state]

    def write(self, path: Path) -> None:
        """Write it atomically."""
        write_private(path, json.dumps(asdict(self), indent=1).encode())


class Supervisor:
    """Carries out a plan until it is told to stop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._state_file = Path(plan.state_file)
        self._state = State(os.getpid(), {component.name: Running() for component in plan.components})
        self._untold = False
        """The state file lacks the newest state."""
        self._stopping = asyncio.Event()
        self._processes: dict[int, tuple[str, asyncio.Event]] = {}
        """The name of the component that each process is, and what is set when it ends."""
        self._spaces = {space.name: space for space in plan.spaces}
        self._namespaces: dict[str, Namespaces] = {}

    def isolate(self) -> socket.socket | None:
        """Take the port on the host, then leave the host. Returns the listening socket.

        Raises:
            SandboxError: If the port is taken or the kernel refuses a namespace.
            OSError: If it refuses a control group or a setting.
        """
        isolation.become_subreaper()
        if not self._plan.spaces:
            return None
        try:
            listener = socket.create_server(("127.0.0.1", self._plan.listen))
        except OSError as error:
            raise SandboxError(f"Port {self._plan.listen} on 127.0.0.1: {error.strerror}.") from None
        first, *others = self._plan.spaces
        isolation.enter_cgroup(first.cgroup)
        isolation.enter_namespaces(first)
        self._namespaces = {space.name: isolation.add_namespaces(space) for space in others}
        return listener

    def fail(self, error: str) -> None:
        """Write to the state file why nothing runs."""
        self._state.error = error
        self._tell()

    async def run(self, listener: socket.socket | None) -> None:
        """Run everything until SIGTERM, then end everything."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        loop.add_signal_handler(signal.SIGINT, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._restart_ended)
        loop.add_signal_handler(signal.SIGCHLD, self._collect)
        server = None
        if listener is not None:
            server = await asyncio.start_server(self._forward, sock=listener)
        self._tell()
        starters = asyncio.create_task(self._start_all())
        await self._stopping.wait()
        starters.cancel()
        await self._stop_all()
        if server:
            server.close()
        if self._plan.cgroup:
            isolation.kill_cgroup(self._plan.cgroup)

    def _restart_ended(self) -> None:
        for running in self._state.components.values():
            if running.state is ComponentState.ENDED:
                running.state, running.exit_code = ComponentState.WAITING, None
        self._tell()

    async def _start_all(self) -> None:
        """Start each waiting component as soon as those that it needs are ready; loops forever (SIGHUP)."""
        while True:
            for component in self._plan.components:
                running = self._state.components[component.name]
                if running.state is ComponentState.WAITING and all(
                    self._state.components[name].state is ComponentState.READY for name in component.after
                ):
                    self._start(component, running)
                if running.state is ComponentState.STARTING and await _answers(component.ready):
                    running.state = ComponentState.READY
                    self._tell()
            if self._untold:
                self._tell()
            await asyncio.sleep(_POLL_SECONDS)

    def _start(self, component: Component, running: Running) -> None:
        log = Path(self._plan.logs) / f"{component.name}.log"
        try:
            process = self._process(component, log)
        except (OSError, subprocess.SubprocessError) as error:
            with contextlib.suppress(OSError), log.open("a") as output:  # the disk may be full
                output.write(f"Could not start: {error}\n")
            running.state, running.since = ComponentState.ENDED, time.time()
            self._tell()
            return
        self._processes[process.pid] = component.name, asyncio.Event()
        process.returncode = 0  # we collect it ourselves; Popen must not
        running.state, running.pid, running.since = ComponentState.STARTING, process.pid, time.time()
        self._tell()

    def _process(self, component: Component, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                component.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"]},
                start_new_session=True,
                preexec_fn=self._entrance(component),  # noqa: PLW1509 (there is one thread)
            )

    def _entrance(self, component: Component) -> Callable[[], None]:
        """What the child does before it becomes the component: enter the space that it runs in."""
        namespaces = self._namespaces.get(component.space or "")

        def enter() -> None:
            if namespaces:
                isolation.enter_cgroup(self._spaces[component.space or ""].cgroup)
                namespaces.enter()
            # A supervisor that is killed takes its components with it.
            isolation.die_with_parent()

        return enter

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if process := self._processes.pop(pid, None):
                name, ended = process
                ended.set()
                running = self._state.components[name]
                running.state, running.exit_code = ComponentState.ENDED, os.waitstatus_to_exitcode(status)
                # The machine may give the number to another process.
                running.pid, running.since = None, time.time()
                self._tell()

    async def _stop_all(self) -> None:
        for component in reversed(self._plan.components):
            pid = self._state.components[component.name].pid
            if pid not in self._processes:
                continue
            _, ended = self._processes[pid]
            os.kill(pid, signal.SIGTERM)
            try:
                await asyncio.wait_for(ended.wait(), _GRACE_SECONDS)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)

    def _tell(self) -> None:
        """Write the state; on a full disk the sandbox runs on, and `_start_all` tries again."""
        self._untold = True
        with contextlib.suppress(OSError):
            self._state.write(self._state_file)
            self._untold = False

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._plan.forward.rsplit(":", 1)
        try:
            inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        pumps = [
            asyncio.ensure_future(_pump(reader, inner_writer)),
            asyncio.ensure_future(_pump(inner_reader, writer)),
        ]
        try:
            await asyncio.gather(*pumps)
        except OSError:
            return  # one side is gone; there is nobody left to tell
        finally:
            for pump in pumps:
                pump.cancel()
            for side in (writer, inner_writer):
                side.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends, and tell the other."""
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def _answers(where: str | None) -> bool:
    if where is None:
        return True
    try:
        if where.startswith("/"):
            _, writer = await asyncio.open_unix_connection(where)
        else:
            host, port = where.rsplit(":", 1)
            _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


def main() -> int:
    """Carry out the plan named on the command line. Exit code 2: it could not even begin."""
    supervisor = Supervisor(Plan.read(Path(sys.argv[1])))
    try:
        listener = supervisor.isolate()
    except (SandboxError, OSError) as error:
        supervisor.fail(str(error))
        return 2
    asyncio.run(supervisor.run(listener))
    return 0


if __name__ == "__main__":
    sys.exit(main())
