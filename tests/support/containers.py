"""An API server whose pods run commands and answer on ports, as processes and ports of this machine."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.fake_api import FakeApi, status

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
PODS = "/api/v1/namespaces/team/pods"
RUNNING: dict[str, Any] = {"running": {}}
SUCCESS = {"status": "Success"}


class Containers(FakeApi):
    """The TrainJob `team/tj` with pods of its own, in which commands run in `root`."""

    def __init__(self, root: Path, *, nodes: int = 1) -> None:
        super().__init__()
        self.root = root
        self.protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        self.execs: list[dict[str, Any]] = []
        """What each exec has asked for."""
        self.sizes: list[tuple[int, int]] = []
        self.forwards: list[str] = []
        """The pod of each connection that was forwarded."""
        self.cut = False
        """Whether connections are cut once the command has printed something."""
        self.allowed = {"create", "get"}
        """The verbs for which a SelfSubjectAccessReview is granted."""
        self.put(f"{JOBS}/tj", {"status": {"trainyard": {"state": "Running"}}})
        for index in range(nodes):
            self.node(index)

    def node(self, index: int, state: dict[str, Any] = RUNNING, *, job: str = "node", **spec: Any) -> str:
        """A pod, with the state of its container."""
        name: str = spec.get("name", f"tj-{job}-0-{index}-x")
        labels = {
            "jobset.sigs.k8s.io/jobset-name": "tj",
            "jobset.sigs.k8s.io/replicatedjob-name": job,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        statuses = [{"name": "node", "restartCount": 0, "state": state}] if state else []
        self.put(
            f"{PODS}/{name}",
            {
                "metadata": {"labels": labels, **spec.get("metadata", {})},
                "spec": {"containers": [{"name": "node"}]},
                "status": {"phase": spec.get("phase", "Running"), "containerStatuses": statuses},
            },
        )
        return name

    async def _get(  # type: ignore[override] # a WebSocket is no answer of known length
        self, request: web.Request, body: Any
    ) -> web.StreamResponse:
        *_, pod, subresource = request.path.split("/")
        if subresource not in ("exec", "portforward"):
            return await super()._get(request, body)
        if f"{PODS}/{pod}" not in self.objects:
            return web.json_response(status(404, "NotFound", name=pod), status=404)
        if "Upgrade" not in request.headers:
            return web.json_response(status(400, "BadRequest", "Upgrade request required"), status=400)
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        if subresource == "exec":
            await self._exec(request, socket)
        else:
            await self._forward(request, socket, pod)
        await socket.close()
        return socket

    async def _post(self, request: web.Request, body: Any) -> web.Response:
        if request.path.endswith("/selfsubjectaccessreviews"):
            is_allowed = body["spec"]["resourceAttributes"]["verb"] in self.allowed
            return web.json_response({**body, "status": {"allowed": is_allowed}}, status=201)
        return await super()._post(request, body)

    # --- exec -------------------------------------------------------------------

    async def _exec(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        command = request.query.getall("command")
        options = {name: value for name, value in request.query.items() if name != "command"}
        self.execs.append({"command": command, **options})
        try:
            code = await self._process(command, options, socket)
        except FileNotFoundError:
            message = f'OCI runtime exec failed: exec: "{command[0]}": executable file not found in $PATH'
            await self._end(socket, status(500, "InternalError", message))
            return
        if code is None:
            assert request.transport is not None
            request.transport.abort()
            return
        causes = [{"reason": "ExitCode", "message": str(code)}]
        failure = status(500, "NonZeroExitCode", f"exit {code}", causes=causes)
        await self._end(socket, failure if code else SUCCESS)

    async def _end(self, socket: web.WebSocketResponse, answer: dict[str, Any]) -> None:
        await socket.send_bytes(b"\x03" + json.dumps(answer).encode())

    async def _process(
        self, command: list[str], options: dict[str, str], socket: web.WebSocketResponse
    ) -> int | None:
        """The exit code; None if the connection was cut."""
        master, slave = pty.openpty() if options["tty"] == "true" else (-1, asyncio.subprocess.PIPE)
        process: Any = await asyncio.create_subprocess_exec(
            *command, stdin=slave, stdout=slave, stderr=slave, cwd=self.root, start_new_session=True
        )
        if master >= 0:
            os.close(slave)
            read = [self._print(socket, 1, await _reader(master), process.pid)]
        else:
            outputs = ((1, process.stdout), (2, process.stderr))
            read = [self._print(socket, channel, stream, process.pid) for channel, stream in outputs]
            if options["stdin"] != "true":
                process.stdin.close()
        typing = asyncio.create_task(self._type(socket, process, master))
        try:
            if False in await asyncio.gather(*read):
                await process.wait()
                return None
            code: int = await process.wait()
            return code
        finally:
            typing.cancel()
            await asyncio.gather(typing, return_exceptions=True)
            _kill(process.pid)
            process._transport.close()  # or its pipes would outlive the event loop
            await process.wait()

    async def _print(
        self, socket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader, group: int
    ) -> bool:
        """Whether the output was sent to its end; if not, its processes are killed."""
        with suppress(OSError):  # a terminal that nobody has open any more
            while piece := await stream.read(65_536):
                await socket.send_bytes(bytes([channel]) + piece)
                if self.cut:
                    _kill(group)
                    with suppress(OSError):
                        await stream.read()  # to the end: a pipe that nobody reads keeps `wait` waiting
                    return False
        return True

    async def _type(self, socket: web.WebSocketResponse, process: Any, master: int) -> None:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == 4:
                size = json.loads(data)
                self.sizes.append((size["Width"], size["Height"]))
                fcntl.ioctl(
                    master, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                )
            elif master >= 0:
                os.write(master, data)
            elif channel == 255:
                process.stdin.close()
            else:
                with suppress(ConnectionError):
                    process.stdin.write(data)
                    await process.stdin.drain()
        _kill(process.pid)  # nobody listens any more

    # --- portforward ------------------------------------------------------------

    async def _forward(self, request: web.Request, socket: web.WebSocketResponse, pod: str) -> None:
        port = int(request.query["ports"])
        self.forwards.append(pod)
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await socket.send_bytes(b"\x01dial tcp4 127.0.0.1: connect: connection refused")
            return
        sending = asyncio.create_task(self._receive(socket, writer))
        while piece := await reader.read(65_536):
            await socket.send_bytes(b"\x00" + piece)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()

    async def _receive(self, socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
        async for message in socket:
            writer.write(message.data[1:])
            await writer.drain()
        writer.close()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader
