"""What a TrainJob meets after its operator: JobSet's and Kueue's controllers, a queue, and simulated nodes.

Both controllers run as released, as processes of this machine. Of their
webhooks those are asked that fill in what the controllers count on.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from trainyard_sandbox.assembly import free_port
from trainyard_sandbox.toolchain import Toolchain

from .controllers import Controller, serving_certificates
from .driver import NAMESPACE, QUEUE
from .plane import Plane

TOOLS = ("jobset", "kueue")
KUEUE = "kueue/"
"""Prefix of the User-Agent of Kueue's controller."""
_NODES = 50
_ROOM = {"cpu": "10k", "memory": "100Ti", "nvidia.com/gpu": "100k", "pods": "10k"}
"""Capacity of each node, large enough that no pod waits for room."""
_CALLED = {
    "jobset": [("jobset.x-k8s.io", "v1alpha2", "jobset")],
    "kueue": [("trainer.kubeflow.org", "v1alpha1", "trainjob"), ("kueue.x-k8s.io", "v1beta2", "workload")],
}
_WITH_CERTIFICATES = (
    "mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics && "
    'cp -r "$0" /etc/kueue/metrics/certs && exec "$@"'
)
"""Kueue wants them there and nowhere else; so it gets an /etc of its own."""


@contextmanager
def at_work(on: Plane) -> Iterator[None]:
    """All of them, ready, until the end of the block. Raises `BenchmarkError` if they don't become so."""
    with TemporaryDirectory(prefix="trainyard-bench-") as name, ExitStack() as stack:
        on.define(["kueue"])
        for tool in TOOLS:
            folder = Path(name, tool)
            folder.mkdir()
            controller = _controller(tool, on.kubeconfig, folder)
            stack.callback(controller.stop)
            controller.start()
            on.kubectl("create", "--filename=-", stdin=yaml.safe_dump(_webhooks(tool, controller)))
        on.kubectl("create", "--filename=-", stdin=yaml.safe_dump_all([*_queue(), *_nodes()]))
        on.kubectl("wait", "--for=condition=Active", f"clusterqueue/{QUEUE}", "--timeout=60s")
        on.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
        yield


def _controller(tool: str, kubeconfig: Path, folder: Path) -> Controller:
    issued, served = serving_certificates(folder)
    webhook, health = free_port(), free_port()
    file = folder / "configuration.yaml"
    file.write_text(yaml.safe_dump(_configuration(tool, served, webhook, health)))
    command = [str(Toolchain([tool]).binary(tool)), f"--config={file}"]
    if tool == "kueue":
        command = ["unshare", "--mount", "sh", "-c", _WITH_CERTIFICATES, str(served), *command]
    return Controller(
        command=command,
        ready_url=f"http://127.0.0.1:{health}/readyz",
        log=folder / f"{tool}.log",
        webhook_url=f"https://127.0.0.1:{webhook}",
        authorities=issued.authorities,
        environment={"KUBECONFIG": str(kubeconfig)},
    )


def _configuration(tool: str, served: Path, webhook: int, health: int) -> dict[str, Any]:
    common = {
        "kind": "Configuration",
        "clientConnection": {"qps": 500, "burst": 500},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "webhook": {"certDir": str(served), "host": "127.0.0.1", "port": webhook},
    }
    if tool == "jobset":
        return {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", **common}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        **common,
        "featureGates": {"VisibilityOnDemand": False},  # which wants a port for everybody
        "integrations": {"frameworks": ["trainer.kubeflow.org/trainjob"]},
    }


def _webhooks(tool: str, controller: Controller) -> dict[str, Any]:
    trust = b64encode(controller.authorities or b"").decode()
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": tool},
        "webhooks": [
            {
                "name": f"{singular}.{tool}.x-k8s.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": f"{controller.webhook_url}/mutate-{group.replace('.', '-')}-{version}-{singular}",
                    "caBundle": trust,
                },
                "failurePolicy": "Fail",
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "operations": ["CREATE"],
                        "resources": [f"{singular}s"],
                    }
                ],
                "sideEffects": "None",
            }
            for group, version, singular in _CALLED[tool]
        ],
    }


def _queue() -> Sequence[dict[str, Any]]:
    version = "kueue.x-k8s.io/v1beta2"
    resources = [resource for resource in _ROOM if resource != "pods"]
    quotas = [{"name": resource, "nominalQuota": _ROOM[resource]} for resource in resources]
    group = {"coveredResources": resources, "flavors": [{"name": QUEUE, "resources": quotas}]}
    return (
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": QUEUE}, "spec": {}},
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": QUEUE},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": NAMESPACE},
            "spec": {"clusterQueue": QUEUE},
        },
    )


def _nodes() -> Iterator[dict[str, Any]]:
    for number in range(_NODES):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"allocatable": _ROOM, "capacity": _ROOM},
        }
