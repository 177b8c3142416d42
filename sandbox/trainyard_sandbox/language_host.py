"""Pulumi's Python language host, for machines without the official distribution.

`pulumi up` starts a plug-in named `pulumi-language-python` to run a Python
program. The official distribution ships one; an engine built from source does
not. An executable of that name on PATH that runs `python -m
trainyard_sandbox.language_host` takes its place, built on the SDK's own server
for inline programs.

What it does: the handshake, running a program (`Run`) and running a policy
pack (`RunPlugin` of kind `analyzer`), both with the interpreter that runs this
module: its environment has to hold what they import. It ignores the
`virtualenv` option of `Pulumi.yaml`.

What it deliberately does not do: create environments or install dependencies,
generate or convert programs, discover plug-ins, run component providers, and
attach debuggers. Where the official host is on PATH, use that.
"""

import contextlib
import functools
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

# Neither package ships types.
import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi import RunError
from pulumi.automation._server import LanguageServer  # docs/adr/0026
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

_WORKERS = 8
_GRACE_SECONDS = 5.0
_MESSAGE_LIMIT = 400 * 1024 * 1024  # the engine's own limit: CRDs are large


def program_path(info: language_pb2.ProgramInfo) -> str:
    """Where the program is: a folder with a `__main__.py`, or a file."""
    return os.path.normpath(Path(info.program_directory) / info.entry_point)


def run_program(path: str) -> None:
    """Run a program as `python <path>` would, and report failures in its own words.

    A `RunError` is a message for the user and passes unchanged; any other
    exception comes with its traceback; `sys.exit(0)` is not a failure.
    """
    try:
        runpy.run_path(path, run_name="__main__")
    except RunError:
        raise
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise RunError(f"{path} ended with exit code {stop.code}") from None
    except Exception:
        raise RunError(f"{path} failed:\n{traceback.format_exc()}") from None


def plugin_command(request: language_pb2.RunPluginRequest) -> list[str]:
    """The command line of a policy pack; `ValueError` for every other kind of plug-in."""
    if request.kind != "analyzer":
        raise ValueError(
            f"this language host runs only policy packs, not plug-ins of kind {request.kind!r}: "
            "install the official Pulumi distribution for those"
        )
    return [sys.executable, "-u", "-m", "pulumi.policy", *request.args, request.info.program_directory]


def start(command: list[str], *, cwd: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a plug-in with its output on pipes."""
    return subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a plug-in that still runs, and reap it: a policy pack serves until it is stopped.

    When the engine has hung up, nothing reads `stream` to its end, where it
    would wait for the process.
    """
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stream(process: subprocess.Popen[bytes]) -> Iterator[language_pb2.RunPluginResponse]:
    """A plug-in's output as it comes, and its exit code last."""
    responses: SimpleQueue[language_pb2.RunPluginResponse | None] = SimpleQueue()

    def pump(pipe: IO[bytes], wrap: Callable[[bytes], language_pb2.RunPluginResponse]) -> None:
        for line in pipe:
            responses.put(wrap(line))
        responses.put(None)

    pipes = (
        (process.stdout, lambda line: language_pb2.RunPluginResponse(stdout=line)),
        (process.stderr, lambda line: language_pb2.RunPluginResponse(stderr=line)),
    )
    for pipe, wrap in pipes:
        Thread(target=pump, args=(pipe, wrap), daemon=True).start()
    for _ in pipes:
        while (response := responses.get()) is not None:
            yield response
    yield language_pb2.RunPluginResponse(exitcode=process.wait())


def _no_program() -> None:
    """Stand-in until `Run` names the program."""


class LanguageHost(LanguageServer):
    """The RPCs that the engine needs to run a program and a policy pack.

    `About`, `GetRequiredPlugins` and `GetRequiredPackages` are the SDK's.
    """

    def __init__(self, engine: str) -> None:
        """Take the address at which the engine receives a program's messages; empty for none."""
        super().__init__(_no_program)
        self._engine = engine

    def Handshake(  # noqa: N802 (the name of the RPC)
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Greet the engine; there is nothing to agree on."""
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(  # noqa: N802 (the name of the RPC)
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """Return no version: this host is not a release of the official one."""
        return plugin_pb2.PluginInfo()

    def Run(  # noqa: N802 (the name of the RPC)
        self, request: language_pb2.RunRequest, context: grpc.ServicerContext
    ) -> language_pb2.RunResponse:
        """Run a Pulumi program to its end."""
        os.chdir(request.pwd)
        self.program = functools.partial(run_program, program_path(request.info))
        if self._engine and not request.args:
            # The SDK's server looks for it there; otherwise warnings end as bare lines on stderr.
            request.args.append(self._engine)
        run: Any = super().Run
        response: language_pb2.RunResponse = run(request, context)
        if response.error:
            # The SDK has already logged it; `bail` keeps the engine from printing it twice.
            return language_pb2.RunResponse(bail=True)
        return response

    def RunPlugin(  # noqa: N802 (the name of the RPC)
        self, request: language_pb2.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a policy pack until it ends or the engine hangs up."""
        try:
            command = plugin_command(request)
        except ValueError as error:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))
        env = dict(entry.split("=", 1) for entry in request.env) if request.env else dict(os.environ)
        process = start(command, cwd=request.info.program_directory, env=env)
        context.add_callback(lambda: stop(process))
        yield from stream(process)


def serve(engine: str = "") -> tuple[grpc.Server, int]:
    """Start the server on a free loopback port; return it with its port.

    Args:
        engine: Address at which the engine receives a program's messages; empty for none.
    """
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_WORKERS),
        options=[
            ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
            ("grpc.max_send_message_length", _MESSAGE_LIMIT),
        ],
    )
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageHost(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main() -> None:
    """Print the port, as the engine expects, and serve until it interrupts or is gone.

    The engine's own address is the last argument.

    The engine starts its plug-ins in process groups of their own, so that no
    Ctrl-C reaches them. It interrupts them when it no longer needs them, and
    kills one that still runs after five seconds. A program that still runs
    then, because its user pressed Ctrl-C, can no longer register resources: it
    ends silently, without a traceback.
    """
    # A shell has its background processes ignore SIGINT, and they pass that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = os.getppid()
    server, port = serve(*sys.argv[1:][-1:])
    with contextlib.suppress(KeyboardInterrupt):
        print(port, flush=True)
        while os.getppid() == engine:
            time.sleep(1)
    server.stop(grace=None).wait(_GRACE_SECONDS)
    sys.stdout.flush()
    os._exit(0)  # the interpreter would first join the program's threads


if __name__ == "__main__":
    main()
