"""What a TrainJob meets after its operator: JobSet's and Kueue's controllers, a queue, and simulated nodes.

Both controllers run as released, as processes of this machine. The API server
calls only those of their webhooks that set defaults.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from trainyard_api import names
from trainyard_sandbox.assembly import free_port
from trainyard_sandbox.toolchain import Toolchain

from .controllers import Controller, serving_certificates
from .driver import NAMESPACE, QUEUE
from .plane import Plane

TOOLS = ("jobset", "kueue")
_ROOM = {"cpu": "10k", "memory": "100Ti", "nvidia.com/gpu": "100k", "pods": "10k"}
"""Capacity of each node, large enough that no pod waits for room."""
_JOBSETS = ("jobset.x-k8s.io", "v1alpha2", "jobset")
_TRAINJOBS = ("trainer.kubeflow.org", "v1alpha1", "trainjob")
_WORKLOADS = ("kueue.x-k8s.io", "v1beta2", "workload")
_HELD = {names.JOBSET: _JOBSETS, names.TRAINJOB: _TRAINJOBS}
"""What Kueue may hold in its queues, by kind: group, version and singular."""
_WITH_CERTIFICATES = (
    "mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics && "
    'cp -r "$0" /etc/kueue/metrics/certs && exec "$@"'
)
"""Kueue wants them there and nowhere else; so it gets an /etc of its own."""


@dataclass(frozen=True)
class Company:
    """Who is there besides the measured controller.

    Attributes:
        tools: Whose controllers run: of `TOOLS`. The driver plays JobSet's where it is missing.
        nodes: How many simulated nodes there are.
        gpus: How many GPUs the queue may give at a time.
    """

    tools: tuple[str, ...]
    nodes: int
    gpus: str


TO_PODS = Company(TOOLS, nodes=50, gpus=_ROOM["nvidia.com/gpu"])
"""All that a TrainJob needs to get pods that run."""
QUEUE_ALONE = Company(("kueue",), nodes=0, gpus="4k")
"""A queue for 500 TrainJobs at a time, and nothing behind it."""


@contextmanager
def at_work(on: Plane, company: Company, queue_holds: str) -> Iterator[dict[str, Controller]]:
    """Their controllers by tool, ready, until the end of the block.

    Args:
        on: The control plane.
        company: Who is there.
        queue_holds: The kind that Kueue holds in its queues: `TrainJob` or `JobSet`.

    Raises:
        BenchmarkError: They do not become ready in time.
    """
    controllers: dict[str, Controller] = {}
    with TemporaryDirectory(prefix="trainyard-bench-") as name, ExitStack() as stack:
        on.define(["kueue"])
        called = {"jobset": [_JOBSETS], "kueue": [_HELD[queue_holds], _WORKLOADS]}
        for tool in company.tools:
            folder = Path(name, tool)
            folder.mkdir()
            controller = _controller(tool, on.kubeconfig, folder, queue_holds)
            stack.callback(controller.stop)
            controller.start()
            webhooks = _webhooks(tool, controller, called[tool])
            on.kubectl("create", "--filename=-", stdin=yaml.safe_dump(webhooks))
            controllers[tool] = controller
        objects = [*_queue(company.gpus), *_nodes(company.nodes)]
        on.kubectl("create", "--filename=-", stdin=yaml.safe_dump_all(objects))
        on.kubectl("wait", "--for=condition=Active", f"clusterqueue/{QUEUE}", "--timeout=60s")
        if company.nodes:
            on.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
        yield controllers


def _controller(tool: str, kubeconfig: Path, folder: Path, queue_holds: str) -> Controller:
    authorities, served = serving_certificates(folder)
    webhook, health = free_port(), free_port()
    file = folder / "configuration.yaml"
    file.write_text(yaml.safe_dump(_configuration(tool, served, webhook, health, queue_holds)))
    command = [str(Toolchain([tool]).binary(tool)), f"--config={file}"]
    if tool == "kueue":
        command = ["unshare", "--mount", "sh", "-c", _WITH_CERTIFICATES, str(served), *command]
    return Controller(
        command=command,
        ready_url=f"http://127.0.0.1:{health}/readyz",
        log=folder / f"{tool}.log",
        webhook_url=f"https://127.0.0.1:{webhook}",
        authorities=authorities,
        environment={"KUBECONFIG": str(kubeconfig)},
    )


def _configuration(tool: str, served: Path, webhook: int, health: int, queue_holds: str) -> dict[str, Any]:
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
        "integrations": {"frameworks": ["/".join((_HELD[queue_holds][0], _HELD[queue_holds][2]))]},
    }


def _webhooks(tool: str, controller: Controller, called: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
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
            for group, version, singular in called
        ],
    }


def _queue(gpus: str) -> Sequence[dict[str, Any]]:
    version = "kueue.x-k8s.io/v1beta2"
    room = {**_ROOM, "nvidia.com/gpu": gpus}
    resources = [resource for resource in room if resource != "pods"]
    quotas = [{"name": resource, "nominalQuota": room[resource]} for resource in resources]
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


def _nodes(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"allocatable": _ROOM, "capacity": _ROOM},
        }
