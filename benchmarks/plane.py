"""A control plane of its own for each measurement: real etcd and API server, no kubelet."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from trainyard_sandbox import cluster
from trainyard_sandbox.cluster import Sandbox
from trainyard_sandbox.parts import PARTS
from trainyard_sandbox.paths import Instance
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain, artifacts_dir, tools

from . import processes
from .audit import Tail
from .errors import BenchmarkError

NAME = "bench"
CRDS = ("trainer", "jobset", "volcano", "scheduler-plugins")
"""Both controllers watch what gang schedulers bring, where it is there."""
_GROUPS = (
    *("trainer.kubeflow.org", "jobset.x-k8s.io", "kueue.x-k8s.io"),
    *("scheduling.volcano.sh", "scheduling.x-k8s.io"),
)
_ESTABLISHED_SECONDS = 60.0


@dataclass(frozen=True)
class Plane:
    """A running control plane."""

    sandbox: Sandbox
    kubectl_binary: Path
    tail: Tail

    @property
    def kubeconfig(self) -> Path:
        """Leads to the API server itself: without a node there is no forwarder between."""
        return self.sandbox.instance.kubeconfig

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl. Raises `BenchmarkError` if it does not do as asked, unless told not to."""
        command = [str(self.kubectl_binary), f"--kubeconfig={self.kubeconfig}", *arguments]
        answer = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if check and answer.returncode:
            raise BenchmarkError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer

    def define(self, tools: Sequence[str]) -> None:
        """Apply the CRDs of these tools. Raises `BenchmarkError` if they are not served in time."""
        self.kubectl("apply", "--server-side", *(f"--filename={path}" for path in _crds(tools)))
        end = time.monotonic() + _ESTABLISHED_SECONDS
        # A definition that is seconds old may have no conditions yet, which kubectl does not wait for.
        established = ("wait", "--for=condition=Established", "crds", "--all", "--timeout=60s")
        while self.kubectl(*established, check=False).returncode:
            if time.monotonic() > end:
                raise BenchmarkError("the CRDs were not established in time")
            time.sleep(0.2)

    def cpu(self, component: str) -> float:
        """Seconds of CPU that a component (`kube-apiserver`, `etcd`) has used so far."""
        return processes.cpu(self._pid(component))

    def memory(self, component: str) -> float:
        """MiB of memory that a component has now."""
        return processes.memory(self._pid(component))

    def _pid(self, component: str) -> int:
        return int(self.sandbox.status().components[component]["pid"])


def build() -> None:
    """Make what is needed and not there yet: a sandbox without nodes, the reference, all CRDs."""
    with Progress() as progress:
        cluster.build(progress, control_plane_only=True)
        Toolchain(["trainer-controller", "kueue", *CRDS]).build(progress)


@contextmanager
def control_plane(name: str = NAME) -> Iterator[Plane]:
    """A fresh sandbox of that name with all CRDs, down again at the end of the block.

    Raises `BenchmarkError` if its CRDs are not served in time, and `SandboxError` if it does not come up.
    """
    with fresh_sandbox(name, nodes=0) as sandbox:
        plane = Plane(sandbox, Toolchain(["kubernetes"]).binary("kubectl"), Tail(sandbox.log_file("audit")))
        plane.define(CRDS)
        yield plane


@contextmanager
def fresh_sandbox(name: str, *, nodes: int) -> Iterator[Sandbox]:
    """A sandbox of that name with nothing on it, down again at the end of the block.

    Raises `SandboxError` if it does not come up.
    """
    sandbox = Sandbox(Instance(name))
    sandbox.down()
    try:
        with Progress(Console(quiet=True)) as progress:
            sandbox.up(progress, nodes=nodes, parts=PARTS if nodes else ())
        yield sandbox
    finally:
        sandbox.down()


def _crds(names: Sequence[str]) -> Sequence[Path]:
    versions = tools()
    folders = [artifacts_dir() / name / versions[name].version / "crds" for name in names]
    return [
        path for folder in folders for path in sorted(folder.glob("*.yaml")) if path.name.startswith(_GROUPS)
    ]
