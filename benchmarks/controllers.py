"""The controllers that are compared, each the program that users run, as a process of this machine.

Ours runs in an environment of its own, made of what its image is made of.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from trainyard_api import names
from trainyard_api.configuration import API_VERSION, KIND
from trainyard_sandbox import pki
from trainyard_sandbox.assembly import free_port
from trainyard_sandbox.commands import FETCHES, new_log, run_logged
from trainyard_sandbox.isolation import die_with_parent
from trainyard_sandbox.paths import PROJECT, cache_dir
from trainyard_sandbox.toolchain import Toolchain

from . import processes
from .errors import BenchmarkError

_READY_SECONDS = 120.0
_END_SECONDS = 20.0
_LAST_WORDS = 5
"""Lines of a log that say why a controller has ended."""


@dataclass
class Controller:
    """A controller that may run, be ended and be started again.

    Attributes:
        command: What starts it.
        ready_url: Answers 200 once it is ready.
        log: File for what it prints.
        webhook_url: Where its webhooks listen.
        authorities: Certificate authorities for callers of its webhooks, as PEM; None where it publishes
            them itself.
        defaults_if: CEL that selects the TrainJobs for its defaulter; None for all.
        environment: Variables besides this process's.
    """

    command: Sequence[str]
    ready_url: str
    log: Path
    webhook_url: str
    authorities: bytes | None = None
    defaults_if: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; returns the seconds until it was ready. Raises `BenchmarkError` if it is not in time."""
        began = time.monotonic()
        with self.log.open("ab") as file:
            self._process = subprocess.Popen(
                list(self.command),
                cwd=self.log.parent,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                # It dies with the thread that starts it: that has to live as long as it is needed.
                preexec_fn=die_with_parent,  # noqa: PLW1509 (as in the sandbox's `commands`)
            )
        while not self._is_ready():
            if self._process.poll() is not None:
                raise self._ended()
            if time.monotonic() - began > _READY_SECONDS:
                raise BenchmarkError(
                    f"{self._name} is not ready in time; it said last:\n{self._last_words()}"
                )
            time.sleep(0.02)
        return time.monotonic() - began

    def stop(self) -> None:
        """End it as Kubernetes does, and kill it if that takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended since."""
        return self._process is not None and self._process.poll() is None

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used since it was started."""
        return processes.cpu(self._pid)

    @property
    def memory(self) -> float:
        """MiB of memory that it has now."""
        return processes.memory(self._pid)

    @property
    def peak(self) -> float:
        """MiB of memory that it has had at most so far."""
        return processes.peak(self._pid)

    @property
    def _pid(self) -> int:
        if self._process is None:
            raise BenchmarkError("the controller does not run")
        if self._process.poll() is not None:
            raise self._ended()
        return self._process.pid

    @property
    def _name(self) -> str:
        return self.log.stem

    def _ended(self) -> BenchmarkError:
        return BenchmarkError(f"{self._name} has ended; it said last:\n{self._last_words()}")

    def _last_words(self) -> str:
        # The log goes with the control plane.
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_WORDS:])

    def _is_ready(self) -> bool:
        try:
            with urlopen(self.ready_url, timeout=2) as answer:  # noqa: S310 - our own URL
                return bool(answer.status == 200)
        except OSError:
            return False


def ours(
    kubeconfig: Path,
    folder: Path,
    *,
    webhooks: bool = True,
    checkout: Path = PROJECT,
    program: Sequence[Path | str] | None = None,
    queue_holds: str = names.TRAINJOB,
) -> Controller:
    """The operator of a checkout, by default this one, unless another `program` starts it.

    Without `webhooks` it serves none. `queue_holds` is the kind that Kueue holds in its queues.
    """
    webhook, health = free_port(), free_port()
    variables = {}
    if program is None:
        program = (environment(checkout) / "bin" / "python", "-m", "trainyard_operator")
        rooms = ("api", "kube", "operator", "policies")
        variables["PYTHONPATH"] = os.pathsep.join(str(checkout / room) for room in rooms)
    command = [
        *(str(word) for word in program),
        *("--kubeconfig", str(kubeconfig), "--log-format", "json"),
        *("--webhook-host", "127.0.0.1", "--webhook-port", str(webhook)),
        *("--metrics-host", "127.0.0.1", "--metrics-port", str(health)),
        "--webhook" if webhooks else "--no-webhook",
    ]
    if queue_holds != names.TRAINJOB:
        file = folder / "ours.yaml"
        configuration = {"apiVersion": API_VERSION, "kind": KIND, "queueHolds": queue_holds}
        file.write_text(yaml.safe_dump(configuration))
        command += ["--config", str(file)]
    return Controller(
        command=command,
        ready_url=f"http://127.0.0.1:{health}/readyz",
        log=folder / "ours.log",
        webhook_url=f"https://127.0.0.1:{webhook}",
        defaults_if=names.HAS_RUNTIME_PATCHES,
        environment=variables,
    )


def reference(kubeconfig: Path, folder: Path, *, qps: int | None = None) -> Controller:
    """Kubeflow Trainer's controller as it comes, or with its client allowed so many requests a second."""
    authorities, _ = serving_certificates(folder)
    webhook, health = free_port(), free_port()
    file = folder / "reference.yaml"
    file.write_text(yaml.safe_dump(reference_configuration(webhook, health, qps)))
    binary = Toolchain(["trainer-controller"]).binary("trainer-controller-manager")
    return Controller(
        command=[str(binary), f"--config={file}", "--zap-log-level=2"],
        ready_url=f"http://127.0.0.1:{health}/readyz",
        log=folder / "reference.log",
        webhook_url=f"https://127.0.0.1:{webhook}",
        authorities=authorities,
        environment={"KUBECONFIG": str(kubeconfig), "TMPDIR": str(folder)},
    )


def reference_configuration(webhook: int, health: int, qps: int | None = None) -> dict[str, Any]:
    """What the reference is configured with: its ports, and its client's limits where they are to differ."""
    limits = {} if qps is None else {"clientConnection": {"qps": qps, "burst": qps}}
    return {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "certManagement": {"enable": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook},
        **limits,
    }


def serving_certificates(folder: Path) -> tuple[bytes, Path]:
    """The authority (PEM) of webhooks on loopback, and the folder of their certificate: controller-runtime's
    if TMPDIR is `folder`."""
    served = folder / "k8s-webhook-server" / "serving-certs"
    authority = pki.Authority(served, "authority")
    authority.issue("tls", "webhooks", hosts=["127.0.0.1"])
    return authority.pair.cert.read_bytes(), served


def environment(checkout: Path = PROJECT) -> Path:
    """A virtual environment with only what a checkout's operator requires, made once and kept in the cache.

    Raises `SandboxError` if it cannot be made.
    """
    requirements = checkout / "requirements" / "operator.txt"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache_dir() / "benchmarks" / digest
    if (folder / "done").exists():
        return folder
    print(f"Making the operator's environment in {folder} ...", file=sys.stderr)
    log, doing = new_log("benchmarks"), "make the operator's environment"
    run_logged([sys.executable, "-m", "venv", "--clear", folder], log, doing)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    run_logged([*pip, "--require-hashes", "--requirement", requirements], log, doing, tries=FETCHES)
    (folder / "done").touch()
    return folder
