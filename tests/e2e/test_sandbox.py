"""The sandbox leaves nothing, survives anything, and lives beside others."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import yaml

from tests.harness import leftovers
from tests.harness.leftovers import note
from tests.support.cluster import Cluster, down, trainyard
from tests.support.patience import eventually
from trainyard_sandbox.isolation import cgroup_processes
from trainyard_sandbox.paths import PROJECT
from trainyard_sandbox.toolchain import Toolchain

pytestmark = pytest.mark.sandbox(area="sandbox")


@pytest.fixture
def spare() -> Iterator[Cluster]:
    """A sandbox that a test brings up itself, and that is down afterwards."""
    cluster = Cluster("spare")
    note(cluster.name)
    try:
        yield cluster
    finally:
        down(cluster.name)


def host_state() -> dict[str, Any]:
    """All that a sandbox could leave on its host; what runs in those beside it comes and goes."""

    def output(*command: str) -> list[str]:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt", "pid")}
    processes, namespaces = set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = (folder / "cgroup").read_text()
            if "/trainyard-" in group and "/trainyard-spare-" not in group:
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            theirs = {kind: os.readlink(folder / "ns" / kind) for kind in own}
        except OSError:
            continue
        namespaces |= {*theirs.values()}
        if command and (theirs != own or "/spare/" in command):
            processes.add(command)
    sysctls = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
    return {
        "processes": processes,
        "namespaces": namespaces,
        "mounts and their propagation": Path("/proc/self/mountinfo").read_text(),
        "named network namespaces": output("ip", "netns", "list"),
        "links": list(output("ip", "-oneline", "link")),
        "routes": output("ip", "route", "show", "table", "all"),
        "rules": [line for line in output("iptables-save") if not line.startswith("#")],
        "control groups": {str(p) for p in Path("/sys/fs/cgroup").rglob("*trainyard-spare*")},
        "sysctls": {name: Path("/proc/sys", name).read_text() for name in sysctls},
        "folders": {p for p in ("/var/lib/kubelet", "/run/containerd", "/run/netns") if Path(p).exists()},
        "state": (PROJECT / ".sandbox" / "spare").exists(),
    }


def test_sandboxes_of_one_name_in_two_clones_live_side_by_side_and_know_nothing_of_each_other(
    tmp_path: Path,
) -> None:
    clones = [tmp_path / number for number in ("one", "other")]
    for clone in clones:
        subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)

    def run(clone: Path, *arguments: str) -> str:
        sources = [str(clone / path.parent.name) for path in PROJECT.glob("*/trainyard_*") if path.is_dir()]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sources, *sys.path])}
        command = [str(PROJECT / ".venv" / "bin" / "trainyard"), "sandbox", *arguments, "--name", "twin"]
        answer = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def kubectl(clone: Path, *arguments: str) -> str:
        kubeconfig = f"--kubeconfig={clone / '.sandbox' / 'twin' / 'kubeconfig'}"
        binary = str(Toolchain(["kubernetes"]).binary("kubectl"))
        return subprocess.run(
            [binary, kubeconfig, *arguments], capture_output=True, text=True, check=True
        ).stdout

    def both(function: Callable[[Path], str]) -> list[str]:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(function, clones))

    for clone in clones:
        note("twin", clone)
    try:
        both(lambda clone: run(clone, "up"))
        both(lambda clone: kubectl(clone, "create", "configmap", f"of-{clone.name}"))
        assert both(lambda clone: kubectl(clone, "get", "configmaps", "-o", "name")) == [
            "configmap/kube-root-ca.crt\nconfigmap/of-one\n",
            "configmap/kube-root-ca.crt\nconfigmap/of-other\n",
        ]
        run(clones[0], "down")
        assert kubectl(clones[1], "get", "nodes", "-o", "name") == "node/twin-node\n"
    finally:
        both(lambda clone: run(clone, "down"))
    assert [clone.name for clone in clones if (clone / ".sandbox").exists()] == []


KILLED = """
import os, sys
from pathlib import Path
from tests.support.cluster import up
from tests.harness import leftovers

with leftovers.noted() as run_file:
    os.environ[leftovers.RUN] = str(run_file)
    up("left")
    Path(sys.argv[1]).touch()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_run_has_left_is_taken_down_by_the_next_and_what_users_have_stays(
    spare: Cluster, tmp_path: Path
) -> None:
    trainyard("sandbox", "up", "--name", "spare", "--control-plane-only")
    environment = {name: value for name, value in os.environ.items() if name != leftovers.RUN}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "up")], cwd=PROJECT, env=environment, check=False
    )
    assert (killed.returncode, (tmp_path / "up").exists()) == (-signal.SIGKILL, True)
    left = Cluster("left").sandbox
    assert left.status().healthy
    before = leftovers.clear()
    assert f"took down the sandbox left of {PROJECT}" in before
    assert (left.instance.dir.exists(), cgroup_processes(left.instance.id)) == (False, set())
    assert spare.sandbox.status().healthy


def ready_nodes(cluster: Cluster) -> list[str]:
    nodes = cluster.list("nodes")
    return [
        node["metadata"]["name"]
        for node in nodes
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
    ]


def test_down_leaves_the_host_as_it_was_before_up(spare: Cluster, bare: Cluster) -> None:
    before = host_state()
    trainyard("sandbox", "up", "--name", "spare", "--nodes", "2")
    spare.kubectl("run", "web", "--image=docker.io/trainyard/torch-cpu:sandbox", "--", "sleep", "600")
    spare.wait("pod/web", condition="condition=Ready")
    trainyard("sandbox", "down", "--name", "spare")
    assert host_state() == before


def test_up_after_kill_9_of_everything_has_the_same_objects_running_again(spare: Cluster) -> None:
    trainyard("sandbox", "up", "--name", "spare", "--nodes", "2")
    spare.kubectl("run", "web", "--image=docker.io/trainyard/torch-cpu:sandbox", "--", "sleep", "600")
    spare.wait("pod/web", condition="condition=Ready")
    uid = spare.kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
    for pid in cgroup_processes(spare.sandbox.instance.id):
        with contextlib.suppress(ProcessLookupError):  # A probe's process may have ended by itself.
            os.kill(pid, signal.SIGKILL)
    assert trainyard("sandbox", "status", "--name", "spare", check=False).returncode == 1
    trainyard("sandbox", "up", "--name", "spare")
    assert ready_nodes(spare) == ["spare-node", "spare-node-2"]
    restarts = ("get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    eventually("the pod runs again", lambda: int(spare.kubectl(*restarts)) >= 1)
    spare.wait("pod/web", condition="condition=Ready")
    assert spare.kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}") == uid


def test_a_component_that_dies_is_reported_and_up_starts_it_again(spare: Cluster) -> None:
    trainyard("sandbox", "up", "--name", "spare")
    before = spare.sandbox.status()
    os.kill(before.components["kube-scheduler"]["pid"], signal.SIGKILL)
    eventually("status tells", lambda: not spare.sandbox.status().healthy)
    answer = trainyard("sandbox", "status", "--name", "spare", check=False)
    assert answer.returncode == 1
    assert "Ended by themselves: kube-scheduler." in answer.stderr
    trainyard("sandbox", "up", "--name", "spare")
    after = spare.sandbox.status()
    assert after.healthy
    same = {name: c["pid"] for name, c in before.components.items() if name != "kube-scheduler"}
    assert {name: after.components[name]["pid"] for name in same} == same


def test_two_ups_of_one_name_make_one_sandbox_and_two_names_live_side_by_side(
    spare: Cluster, bare: Cluster
) -> None:
    with ThreadPoolExecutor() as pool:
        ups = [pool.submit(trainyard, "sandbox", "up", "--name", "spare") for _ in range(2)]
        assert [up.result().returncode for up in ups] == [0, 0]
    assert ready_nodes(spare) == ["spare-node"]
    assert f"{bare.name}-node" in ready_nodes(bare)
    supervisors = [
        folder
        for folder in Path("/proc").glob("[0-9]*")
        if str(spare.sandbox.instance.plan_file).encode() in _read(folder / "cmdline")
    ]
    assert len(supervisors) == 1


MPI = "docker.io/trainyard/mpi:sandbox"


def test_a_sandbox_that_runs_gets_a_part_that_somebody_asks_for(spare: Cluster) -> None:
    brought_up = trainyard("sandbox", "up", "--name", "spare", "--nodes", "2")
    assert (
        "It is without volcano, coscheduling, mpi, deepspeed, jax-xgboost, tensorflow, paddle, lightgbm, "
        "initializers, data-cache, trainers." in brought_up.stderr
    )
    components = spare.sandbox.status().components
    for containerd in ("containerd", "containerd-2"):  # the cache had it from another sandbox
        socket = f"/proc/{components[containerd]['pid']}/root/run/containerd/containerd.sock"
        remove = ["ctr", "--address", socket, "--namespace", "k8s.io", "images", "remove", "--sync", MPI]
        subprocess.run(remove, check=True, capture_output=True)
    added = trainyard("sandbox", "up", "--name", "spare", "--with", "mpi", "--with", "volcano")
    assert (
        "It is without coscheduling, deepspeed, jax-xgboost, tensorflow, paddle, lightgbm, initializers, "
        "data-cache, trainers." in added.stderr
    )
    for node in ("spare-node", "spare-node-2"):
        place = {"nodeName": node, "restartPolicy": "Never"}
        overrides = f"--overrides={json.dumps({'spec': place})}"
        spare.kubectl("run", node, f"--image={MPI}", overrides, "--", "mpirun", "--version")
        spare.wait(f"pod/{node}", condition="jsonpath={.status.phase}=Succeeded")
    settings = spare.sandbox.environment()["PULUMI_OPTION_CONFIG_FILE"]
    platform = yaml.safe_load(Path(settings).read_text())["config"]["trainyard:platform"]
    assert [platform[part]["enabled"] for part in ("volcano", "coscheduling")] == [True, False]
    assert spare.sandbox.parts == ("volcano", "mpi")


def test_without_root_there_is_a_control_plane_with_simulated_nodes(spare: Cluster) -> None:
    """A user namespace of its own takes root's rights away, as for any other user."""
    command = [
        "unshare",
        "--user",
        str(PROJECT / ".venv" / "bin" / "trainyard"),
        "sandbox",
        "up",
        "--name",
        "spare",
    ]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "needs root" in refused.stderr
    assert not spare.sandbox.instance.dir.exists()
    subprocess.run([*command, "--control-plane-only"], check=True, capture_output=True)
    assert ready_nodes(spare) == ["fake-0", "fake-1"]


def test_a_machine_that_has_a_bundle_builds_nothing(tmp_path: Path) -> None:
    bundled = trainyard("sandbox", "bundle", "--output", str(tmp_path / "www"), timeout=4500)
    [folder] = (tmp_path / "www").iterdir()
    assert bundled.stdout == f"export TRAINYARD_BUNDLE={folder}\n"
    elsewhere = {"TRAINYARD_CACHE": str(tmp_path / "cache"), "TRAINYARD_BUNDLE": str(folder)}
    command = [str(PROJECT / ".venv" / "bin" / "trainyard"), "sandbox", "build"]
    answer = subprocess.run(
        command, env={**os.environ, **elsewhere}, capture_output=True, text=True, check=False, timeout=4500
    )
    assert answer.returncode == 0, answer.stderr
    doing = {line.split()[1] for line in answer.stderr.splitlines() if line.startswith("ok ")}
    assert doing == {"fetch", "unpack"}, answer.stderr


@pytest.mark.core
def test_a_port_that_is_taken_is_one_sentence_exit_code_2_and_nothing_left(spare: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        answer = trainyard("sandbox", "up", "--name", "spare", "--port", port, check=False)
    assert answer.returncode == 2
    assert f"Port {port} on 127.0.0.1 is not available" in answer.stderr
    assert not spare.sandbox.instance.dir.exists()


@pytest.mark.core
def test_nobody_gets_in_without_a_certificate(bare: Cluster) -> None:
    url = f"{bare.sandbox.status().server}/api"
    with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urlopen(url, timeout=60)
    trusted = ssl.create_default_context(cafile=bare.sandbox.instance.pki / "ca.crt")
    with pytest.raises(HTTPError, match="401"):
        urlopen(url, timeout=60, context=trusted)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
