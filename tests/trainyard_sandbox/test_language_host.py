"""The language host: programs and policy packs run as the engine asks, and fail in words."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi import RunError
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from trainyard_sandbox import language_host


def info(folder: Path, entry_point: str = ".") -> language_pb2.ProgramInfo:
    return language_pb2.ProgramInfo(
        root_directory=str(folder), program_directory=str(folder), entry_point=entry_point
    )


@pytest.fixture
def host() -> Iterator[language_pb2_grpc.LanguageRuntimeStub]:
    server, port = language_host.serve()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield language_pb2_grpc.LanguageRuntimeStub(channel)
    server.stop(grace=None)


def test_a_program_is_a_folder_or_a_file(tmp_path: Path) -> None:
    assert language_host.program_path(info(tmp_path)) == str(tmp_path)
    assert language_host.program_path(info(tmp_path, "main.py")) == str(tmp_path / "main.py")


def test_a_folder_is_run_with_its_contents_importable(tmp_path: Path) -> None:
    (tmp_path / "beside_main.py").write_text("NAME = 'beside'\n")
    (tmp_path / "__main__.py").write_text(
        "import pathlib, beside_main\n"
        "here = pathlib.Path(__file__).parent\n"
        "(here / 'ran').write_text(f'{__name__} {beside_main.NAME}')\n"
    )
    language_host.run_program(str(tmp_path))
    assert (tmp_path / "ran").read_text() == "__main__ beside"


def program(folder: Path, text: str) -> str:
    (folder / "__main__.py").write_text(text)
    return str(folder)


def test_a_message_for_the_user_passes_as_it_is(tmp_path: Path) -> None:
    path = program(tmp_path, "import pulumi\nraise pulumi.RunError('name the thing')\n")
    with pytest.raises(RunError, match=r"^name the thing$"):
        language_host.run_program(path)


def test_any_other_failure_shows_its_traceback(tmp_path: Path) -> None:
    path = program(tmp_path, "1 / 0\n")
    with pytest.raises(RunError) as stopped:
        language_host.run_program(path)
    assert str(stopped.value).startswith(f"{path} failed:\nTraceback")
    assert "ZeroDivisionError: division by zero" in str(stopped.value)


@pytest.mark.parametrize("code", ["", "0"])
def test_a_program_may_end_itself_well(tmp_path: Path, code: str) -> None:
    language_host.run_program(program(tmp_path, f"import sys\nsys.exit({code})\n"))


def test_a_program_that_ends_itself_badly_has_failed(tmp_path: Path) -> None:
    path = program(tmp_path, "import sys\nsys.exit(3)\n")
    with pytest.raises(RunError, match=r"ended with exit code 3$"):
        language_host.run_program(path)


def test_the_handshake_and_the_version_are_answered(host: Any) -> None:
    assert host.Handshake(language_pb2.LanguageHandshakeRequest()) == language_pb2.LanguageHandshakeResponse()
    assert host.GetPluginInfo(empty_pb2.Empty()).version == ""
    assert host.About(language_pb2.AboutRequest()).executable == sys.executable


def test_a_run_goes_to_the_sdk_with_the_program_and_its_folder(
    host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # and back afterwards: the host changes it
    folder = tmp_path / "platform"
    folder.mkdir()
    program(folder, "import pathlib\npathlib.Path('ran').touch()\n")

    def run(server: Any, request: Any, context: Any) -> Any:
        server.program()
        return language_pb2.RunResponse()

    monkeypatch.setattr(LanguageServer, "Run", run)
    assert host.Run(language_pb2.RunRequest(pwd=str(folder), info=info(folder))) == language_pb2.RunResponse()
    assert (folder / "ran").exists()


@pytest.mark.parametrize("engine", ["127.0.0.1:4711", ""])
def test_the_sdk_is_told_where_the_engine_takes_warnings(
    engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told = []

    def run(_: object, request: Any, __: object) -> language_pb2.RunResponse:
        told.append(list(request.args))
        return language_pb2.RunResponse()

    monkeypatch.setattr(LanguageServer, "Run", run)
    request = language_pb2.RunRequest(pwd=str(tmp_path), info=info(tmp_path))
    language_host.LanguageHost(engine).Run(request, None)
    assert told == [[engine] if engine else []]


def test_a_failure_that_was_logged_is_not_printed_again(
    host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LanguageServer, "Run", lambda *_: language_pb2.RunResponse(error="logged"))
    response = host.Run(language_pb2.RunRequest(pwd=str(tmp_path), info=info(tmp_path)))
    assert response == language_pb2.RunResponse(bail=True)


def test_a_policy_pack_is_run_by_the_sdks_own_module(tmp_path: Path) -> None:
    request = language_pb2.RunPluginRequest(kind="analyzer", args=["127.0.0.1:1"], info=info(tmp_path))
    assert language_host.plugin_command(request) == [
        sys.executable,
        "-u",
        "-m",
        "pulumi.policy",
        "127.0.0.1:1",
        str(tmp_path),
    ]


def test_other_plugins_are_refused_with_the_way_out(host: Any, tmp_path: Path) -> None:
    request = language_pb2.RunPluginRequest(kind="resource", info=info(tmp_path))
    with pytest.raises(grpc.RpcError) as refused:
        list(host.RunPlugin(request))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert refused.value.details() == (
        "this language host runs only policy packs, not plug-ins of kind 'resource': "
        "install the official Pulumi distribution for those"
    )


def test_output_is_streamed_and_the_exit_code_comes_last(tmp_path: Path) -> None:
    script = "import os, sys; print(os.getcwd()); print(os.environ['A'], file=sys.stderr); sys.exit(7)"
    process = language_host.start([sys.executable, "-c", script], cwd=str(tmp_path), env={"A": "b"})
    seen = list(language_host.stream(process))
    assert seen[-1] == language_pb2.RunPluginResponse(exitcode=7)
    assert {(one.stdout, one.stderr) for one in seen[:-1]} == {(f"{tmp_path}\n".encode(), b""), (b"", b"b\n")}


def test_a_pack_ends_when_the_engine_hangs_up(
    host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    monkeypatch.setattr(language_host, "plugin_command", lambda _: [sys.executable, "-c", script])
    output = host.RunPlugin(language_pb2.RunPluginRequest(kind="analyzer", info=info(tmp_path)))
    pid = int(next(output).stdout)
    output.cancel()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


@contextlib.contextmanager
def started_in_the_background() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A host and its port, started as a shell does with what it runs in the background."""
    host = f"exec {sys.executable} -m trainyard_sandbox.language_host 127.0.0.1:1"
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' INT; {host}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_the_host_ends_by_itself_when_the_engine_interrupts_it_even_in_the_background() -> None:
    with started_in_the_background() as (process, port):
        assert port > 0
        process.send_signal(signal.SIGINT)
        # The engine kills what goes on for five seconds, which every command of Pulumi would wait for, twice.
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0


def test_a_program_in_mid_run_ends_with_its_host_and_without_a_word(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as engine,  # which answers nothing
        started_in_the_background() as (process, port),
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        address = f"127.0.0.1:{engine.getsockname()[1]}"
        host: Any = language_pb2_grpc.LanguageRuntimeStub(channel)
        run = host.Run.future(
            language_pb2.RunRequest(
                pwd=str(tmp_path), info=info(tmp_path), monitor_address=address, args=[address]
            )
        )
        engine.settimeout(60)
        connection, _ = engine.accept()  # the program registers its stack
        with connection:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=18) == ("", "")  # alone it would wait for an answer for 20
        assert process.returncode == 0
        assert run.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
