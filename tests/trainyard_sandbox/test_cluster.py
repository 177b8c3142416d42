"""What a sandbox says when it can't be, before it has done anything."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trainyard_cli.commands import sandbox as commands
from trainyard_sandbox import bundle_writer, cluster, pki, preflight, pulumi, releases, toolchain
from trainyard_sandbox.cluster import Sandbox, Status
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.images import Images
from trainyard_sandbox.isolation import NODES_OWN, Space
from trainyard_sandbox.paths import Instance, cache_dir
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.supervisor import Component, ComponentState, Plan, Running, State
from trainyard_sandbox.toolchain import Tool, artifacts_dir


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    return Sandbox(Instance("default", project=tmp_path))


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a" * 21, "../x"])
def test_a_name_that_is_no_short_dns_label_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="a sandbox's name has at most 20 of a-z, 0-9 and '-'"):
        Instance(name)


def test_a_sandbox_is_not_called_as_what_all_sandboxes_share() -> None:
    with pytest.raises(SandboxError) as refused:
        Instance("artifacts")
    assert str(refused.value) == (
        "--name artifacts: .sandbox/artifacts holds the charts of all sandboxes: choose another name."
    )


def test_two_checkouts_have_different_sandboxes_of_one_name(tmp_path: Path) -> None:
    assert Instance("a", tmp_path / "1").id != Instance("a", tmp_path / "2").id


@pytest.mark.parametrize(
    ("variable", "value", "folder"),
    [
        ("TRAINYARD_CACHE", "cache", "here/cache"),
        ("TRAINYARD_CACHE", "~/cache", "home/cache"),
        ("XDG_CACHE_HOME", "caches", "here/caches/trainyard"),
        ("XDG_CACHE_HOME", "", "home/.cache/trainyard"),
    ],
)
def test_the_cache_is_one_folder_for_programs_that_start_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, folder: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TRAINYARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert cache_dir() == tmp_path / folder


def test_a_cache_in_the_home_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", "~no-such-user/cache")
    with pytest.raises(
        SandboxError,
        match=r"^the cache would be in ~no-such-user/cache, but there is no such home folder: "
        r"set TRAINYARD_CACHE to a folder$",
    ):
        cache_dir()


class Go:
    """Leaves what a build leaves, empty."""

    def build(self, tool: Tool, target: Path) -> None:
        target.mkdir(parents=True)
        for name in tool.binaries:
            (target / name).touch()

    def extract(self, tool: Tool) -> None:
        for artifact in tool.artifacts:
            (artifacts_dir() / artifact).mkdir(parents=True)

    def clean(self) -> None:
        pass


def test_images_are_made_of_the_binaries_that_the_same_command_has_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv(releases.VARIABLE, releases.NONE)
    monkeypatch.setattr(toolchain._Go, "find", lambda progress: Go())
    for check in ("require_root", "require_installable", "require_disk", "require_packages"):
        monkeypatch.setattr(preflight, check, lambda *_, **__: None)
    monkeypatch.setattr(Images, "build_ahead", lambda images, progress: None)
    monkeypatch.setattr(Images, "store", lambda images, progress: images.toolchain.binary("pause"))
    found: Any
    _, found = cluster.build(Progress())
    assert found == tmp_path / "bin" / "pause" / toolchain.tools()["pause"].key() / "pause"


def test_no_further_tool_is_built_once_an_image_could_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv(releases.VARIABLE, releases.NONE)
    for check in ("require_root", "require_installable", "require_disk", "require_packages"):
        monkeypatch.setattr(preflight, check, lambda *_, **__: None)
    failed = threading.Event()
    begun: list[Tool] = []

    class Waits(Go):
        def build(self, tool: Tool, target: Path) -> None:
            begun.append(tool)
            failed.wait(20)
            time.sleep(0.2)  # until the future has the error too
            super().build(tool, target)

    def build_ahead(images: Images, progress: Progress) -> None:
        failed.set()
        raise SandboxError("Could not make the base python.")

    monkeypatch.setattr(toolchain._Go, "find", lambda progress: Waits())
    monkeypatch.setattr(Images, "build_ahead", build_ahead)
    with pytest.raises(SandboxError, match=r"^Could not make the base python\.$"):
        cluster.build(Progress())
    assert len(begun) <= 2


def test_without_root_it_says_so_offers_the_control_plane_and_leaves_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match=r"needs root .* `--control-plane-only`"):
        sandbox.up(Progress())
    assert not sandbox.instance.dir.parent.exists()


@pytest.mark.parametrize("own", NODES_OWN)
def test_a_site_in_a_folder_that_nodes_have_for_themselves_is_refused_at_once(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    folder = Path(own, "team")
    with pytest.raises(SandboxError) as refused:
        Sandbox(Instance("default", project=folder)).up(Progress())
    assert str(refused.value) == (
        f"{folder}/.sandbox/default is in {own}, and each node has a {own} of its own: "
        "move the site to another folder, or ask for `--control-plane-only`."
    )
    assert not folder.exists()


def test_a_cache_in_a_folder_that_nodes_have_for_themselves_is_refused_at_once(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("TRAINYARD_CACHE", "/var/lib/team/cache")
    with pytest.raises(SandboxError) as refused:
        sandbox.up(Progress())
    assert str(refused.value) == (
        "/var/lib/team/cache is in /var/lib, and each node has a /var/lib of its own: "
        "point TRAINYARD_CACHE to another folder."
    )


@pytest.mark.parametrize(
    ("full", "free", "sentence"),
    [
        ("cache", 5.9, "cache has 5 GiB free, but needs 6 GiB for images and logs: {cache}"),
        ("cache", 29.9, "cache has 29 GiB free, but needs 30 GiB to build the toolchain: {cache}"),
        (
            ".sandbox/default",
            0.9,
            ".sandbox/default has 0 GiB free, but needs 1 GiB for etcd and logs: make room, or move the site "
            "to a larger disk.",
        ),
    ],
)
def test_without_disk_it_says_how_much_it_needs_and_where(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, full: str, free: float, sentence: str
) -> None:
    folder = sandbox.instance.project
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv(releases.VARIABLE, releases.NONE)
    monkeypatch.setattr(
        preflight, "free_bytes", lambda path: int((free if path == folder / full else 99) * (1 << 30))
    )
    with pytest.raises(SandboxError) as refused:
        sandbox.up(Progress(), nodes=0)
    way_out = "make room, or point TRAINYARD_CACHE to a larger disk."
    assert str(refused.value) == f"{folder}/{sentence.format(cache=way_out)}"
    assert not sandbox.instance.dir.parent.exists()


def test_free_space_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert preflight.free_bytes(tmp_path / "not" / "yet") > 0


def test_a_port_that_is_taken_is_named(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SandboxError, match=f"Port {port} on 127.0.0.1 .*choose another with --port"):
            preflight.require_port(port)


def test_a_port_that_nobody_named_is_taken_as_it_is_found(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its finding and its use, a process that is just being forked may hold it for a moment."""
    laid_out = []

    def assemble(instance: Instance, tools: Any, port: int, *_: Any) -> Plan:
        laid_out.append(port)
        raise SandboxError("far enough")

    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        monkeypatch.setattr(cluster, "free_port", lambda: port)
        monkeypatch.setattr(cluster, "build", lambda *_, **__: (None, None))
        monkeypatch.setattr(pulumi, "prepare", lambda *_: None)
        monkeypatch.setattr(cluster, "assemble", assemble)
        with pytest.raises(SandboxError, match="far enough"):
            sandbox.up(Progress(), nodes=0)
        assert laid_out == [port]
        with pytest.raises(SandboxError, match=f"Port {port} .*choose another with --port"):
            sandbox.up(Progress(), nodes=0, port=port)
        assert laid_out == [port]


def test_a_sandbox_that_is_not_up_says_so(sandbox: Sandbox) -> None:
    assert sandbox.status() == Status(False, False, {}, None, "It is not up: run `trainyard sandbox up`.")
    with pytest.raises(SandboxError, match=r"The sandbox 'default' is not up"):
        sandbox.environment()
    with pytest.raises(SandboxError, match=r"There is no log of 'kubelet'\. The sandbox is not up\."):
        sandbox.log_file("kubelet")


def test_exec_finds_the_pinned_programs_and_this_python_before_those_of_the_machine(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    (sandbox.instance.dir / "settings.json").write_text(json.dumps({"port": 1, "nodes": 0, "parts": []}))
    machine = tmp_path / "machine"
    machine.mkdir()
    for name, prints in {"etcd": "etcd Version: 3.6.6", "kwok": "another", "python": "Python 3"}.items():
        (machine / name).write_text(f"#!/bin/sh\necho '{prints}'\n")
        (machine / name).chmod(0o755)
    cached = cache_dir() / "bin" / "kwok" / toolchain.tools()["kwok"].key()
    cached.mkdir(parents=True)
    (cached / "kwok").touch(0o755)
    monkeypatch.setenv("PATH", str(machine))
    monkeypatch.setattr(Sandbox, "status", lambda sandbox: Status(True, True, {}, None, None))
    assert sandbox.environment()["PATH"].split(os.pathsep) == [
        str(folder) for folder in (sandbox.instance.commands, cached, Path(sys.prefix, "bin"), machine)
    ]


def test_a_killed_supervisor_is_reported_with_the_way_out(sandbox: Sandbox) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    (sandbox.instance.dir / "settings.json").write_text(json.dumps({"port": 1, "nodes": 1}))
    State(999_999_999, {"etcd": Running(ComponentState.READY, 1)}).write(sandbox.instance.state_file)
    status = sandbox.status()
    assert (status.running, status.components["etcd"]["state"]) == (False, "gone")
    assert status.problem == "Its supervisor was killed: run `trainyard sandbox up` to repair it."


def aged(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, left: timedelta) -> str:
    """Have the sandbox run with certificates that have this time left; what it is to say of them."""
    monkeypatch.setattr(pki, "_LIFETIME", left)
    monkeypatch.setattr(Sandbox, "_supervises", lambda *_: True)
    monkeypatch.setattr(toolchain.Toolchain, "build", lambda *_: None)
    monkeypatch.setattr(Sandbox, "_repair", lambda *_: None)
    end = pki.end_of(pki.Authority(sandbox.instance.pki, "ca").pair.cert)
    settings = {"port": 1, "nodes": 0, "parts": []}
    (sandbox.instance.dir / "settings.json").write_text(json.dumps(settings))
    State(1, {}).write(sandbox.instance.state_file)
    return (
        f"The certificates of the sandbox 'default' are valid until {end:%Y-%m-%d}, and nothing renews "
        "them: take it down (`trainyard sandbox down`), then bring it up anew."
    )


def test_a_sandbox_whose_certificates_have_ended_is_not_healthy_and_is_not_repaired(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = aged(sandbox, monkeypatch, timedelta(seconds=-1))
    assert sandbox.status() == Status(True, False, {}, "https://127.0.0.1:1", sentence)
    with pytest.raises(SandboxError) as refused:
        sandbox.up(Progress())
    assert str(refused.value) == sentence


@pytest.mark.parametrize(("days", "is_told"), [(29, True), (31, False)])
def test_a_sandbox_whose_certificates_end_within_a_month_is_repaired_and_says_so(
    sandbox: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    days: int,
    is_told: bool,
) -> None:
    sentence = aged(sandbox, monkeypatch, timedelta(days=days))
    assert sandbox.status() == Status(True, True, {}, "https://127.0.0.1:1", None)
    sandbox.up(Progress())
    assert capsys.readouterr().err.strip() == (sentence if is_told else "")


def test_a_log_that_is_not_there_names_those_that_are(sandbox: Sandbox) -> None:
    sandbox.instance.logs.mkdir(parents=True)
    (sandbox.instance.logs / "etcd.log").touch()
    with pytest.raises(SandboxError, match=r"There is no log of 'x'\. There are: etcd\."):
        sandbox.log_file("x")


def test_a_sandbox_of_the_other_kind_is_not_turned_into_this_one(sandbox: Sandbox) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    (sandbox.instance.dir / "settings.json").write_text(json.dumps({"port": 1, "nodes": 1}))
    with pytest.raises(SandboxError, match="was brought up with --nodes 1: take it down first"):
        sandbox.up(Progress(), nodes=0)


def test_a_sandbox_has_the_nodes_that_it_was_brought_up_with(sandbox: Sandbox) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    (sandbox.instance.dir / "settings.json").write_text(json.dumps({"port": 1, "nodes": 2}))
    with pytest.raises(SandboxError, match="was brought up with --nodes 2: take it down first"):
        sandbox.up(Progress(), nodes=3)


def test_a_sandbox_keeps_its_version_of_kubernetes(sandbox: Sandbox) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    settings = {"port": 1, "nodes": 0, "kubernetes": "1.36"}
    (sandbox.instance.dir / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SandboxError, match=r"was brought up with --kubernetes 1\.36: take it down first"):
        sandbox.up(Progress(), nodes=0, kubernetes="1.34")


def test_a_sandbox_that_runs_keeps_its_port(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    (sandbox.instance.dir / "settings.json").write_text(json.dumps({"port": 6443, "nodes": 0}))
    steps: list[str] = []
    monkeypatch.setattr(Sandbox, "status", lambda sandbox: Status(True, True, {}, None, None))
    monkeypatch.setattr(cluster, "build", lambda *_, **__: steps.append("build"))
    monkeypatch.setattr(toolchain.Toolchain, "build", lambda *_: None)
    monkeypatch.setattr(Sandbox, "_repair", lambda *_: steps.append("repair"))
    with pytest.raises(SandboxError, match="was brought up with --port 6443: take it down first"):
        sandbox.up(Progress(), port=7443)
    assert steps == []
    sandbox.up(Progress(), port=6443)
    assert "repair" in steps


@pytest.mark.parametrize(
    ("exit_code", "ended"), [(3, r"ended by itself \(exit code 3\)"), (None, "could not start")]
)
def test_a_supervisor_that_does_not_answer_is_not_waited_for_without_end(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, exit_code: int | None, ended: str
) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.1)
    deaf = "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); print(); time.sleep(60)"
    command = [sys.executable, "-uc", deaf, "trainyard_sandbox.supervisor", str(sandbox.instance.plan_file)]
    tools: Any = None
    with subprocess.Popen(command, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout
        supervisor.stdout.readline()
        etcd = Running(ComponentState.ENDED, None, exit_code)
        State(supervisor.pid, {"etcd": etcd}).write(sandbox.instance.state_file)
        with pytest.raises(SandboxError, match=f"^etcd {ended}"):
            sandbox._repair(Progress(), tools, nodes=0)
        supervisor.kill()


def test_a_supervisor_is_ended_although_its_folder_is_gone_and_nobody_else_is(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    plan = str(sandbox.instance.plan_file)
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    other = str(Instance("other", sandbox.instance.project).plan_file)
    arguments = [["trainyard_sandbox.supervisor", plan], ["trainyard_sandbox.supervisor", other], [plan]]
    processes = [subprocess.Popen([*sleeps, *names]) for names in arguments]
    try:
        sandbox.down()
        # A process loses its command line before its parent can see its end.
        ended = [processes[0].wait(60), *(process.poll() for process in processes[1:])]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert ended == [-signal.SIGTERM, None, None]


def test_a_sandbox_of_another_user_is_not_said_to_be_down(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(Sandbox, "_supervisors", lambda sandbox: [12])
    with pytest.raises(SandboxError) as refused:
        sandbox.down()
    assert str(refused.value) == (
        "The sandbox 'default' is another user's (process 12): run this as that user, or with sudo."
    )


def test_a_part_is_added_to_a_sandbox_only_once_what_had_ended_runs_again(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.instance.dir.mkdir(parents=True)
    settings = {"port": 1, "nodes": 0, "parts": ["mpi"]}
    (sandbox.instance.dir / "settings.json").write_text(json.dumps(settings))
    steps: list[Any] = []
    monkeypatch.setattr(Sandbox, "status", lambda sandbox: Status(True, False, {}, None, None))
    monkeypatch.setattr(cluster, "build", lambda *_, **__: steps.append("build"))
    monkeypatch.setattr(toolchain.Toolchain, "build", lambda *_: None)
    monkeypatch.setattr(Sandbox, "_repair", lambda *_: steps.append("repair"))
    monkeypatch.setattr(Sandbox, "_add", lambda sandbox, progress, parts, nodes: steps.append(("add", parts)))
    sandbox.up(Progress(), parts=["volcano"])
    assert steps == ["build", "repair", ("add", ["volcano"])]


def test_a_plan_reads_back_as_it_was_written(tmp_path: Path) -> None:
    component = Component("a", ["/bin/true"], ["b"], "1.2.3.4:5", "node-1")
    space = Space("node-1", "group", "kubelet", "log", "1.2.3.4", "1.3.0.0/24")
    plan = Plan([component], "logs", "state", "group", [space])
    plan.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == plan


def test_a_shell_can_run_the_lines_that_up_and_bundle_print_whatever_the_folders_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "my $work"
    written = bundle_writer.Written(folder / "bundle", "digest")
    monkeypatch.setattr(commands, "Instance", lambda name: Instance(name, folder))
    monkeypatch.setattr(Sandbox, "up", lambda *_, **__: None)
    monkeypatch.setattr(cluster, "bundled", lambda *_: [])
    monkeypatch.setattr(bundle_writer, "write", lambda *_, **__: written)
    values = []
    for command, variable in (("up", "KUBECONFIG"), ("bundle", "TRAINYARD_BUNDLE")):
        line = CliRunner().invoke(commands.app, [command]).stdout
        script = f'{line}printf %s "${variable}"'
        values.append(subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout)
    assert values == [f"{folder}/.sandbox/default/kubeconfig", f"{folder}/bundle"]
