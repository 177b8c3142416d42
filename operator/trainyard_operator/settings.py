"""The operator's settings, and the command line they come from."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .credentials import SERVICE_ACCOUNT

NAMESPACE = "trainyard-system"


@dataclass(frozen=True, slots=True)
class Settings:
    """What one operator process is told at its start."""

    kubeconfig: str | None = None
    """File to read; None: $KUBECONFIG, the pod's service account, or ~/.kube/config."""
    context: str | None = None
    """Context of the kubeconfig; None: its current one."""
    workers: int = 8
    """TrainJobs reconciled at a time."""
    namespace: str = NAMESPACE
    """The operator's own: its Lease and the runtime revisions are kept there."""
    upstream_namespace: str = "kubeflow-system"
    """Where Kubeflow Trainer's controller would hold its Lease."""
    metrics_host: str | None = None
    """Address of the metrics and probes; None: all."""
    metrics_port: int = 8080
    """Port of the metrics and probes; 0 picks a free one."""
    webhook: bool = True
    """Whether to answer admission requests."""
    webhook_host: str | None = None
    """Address of the webhooks, which their certificate then names too; None: all."""
    webhook_port: int = 9443
    """Port of the webhooks; 0 picks a free one."""
    webhook_certificate_dir: str | None = None
    """Folder with tls.crt and tls.key that somebody else keeps fresh; None: made and kept by the operator."""
    log_format: str = "auto"
    """`json`, `text`, or `auto`: text on a terminal."""
    identity: str | None = None
    """This replica's name in the Lease; None: the host's name and a random suffix."""


def own_namespace() -> str:
    """$POD_NAMESPACE, else the service account's namespace, else `trainyard-system`."""
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    file = Path(SERVICE_ACCOUNT) / "namespace"
    if file.exists():
        return file.read_text().strip() or NAMESPACE
    return NAMESPACE


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line (default: this process's). Exits with 2 on a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m trainyard_operator", description="Runs TrainJobs as JobSets."
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, in-cluster, ~/.kube/config"
    )
    parser.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig (default: its current one)"
    )
    parser.add_argument(
        "--workers", type=_positive, default=8, metavar="N", help="TrainJobs at a time (default: 8)"
    )
    parser.add_argument(
        "--namespace",
        default=own_namespace(),
        metavar="NAME",
        help=f"the operator's own (default: $POD_NAMESPACE, in-cluster, {NAMESPACE})",
    )
    parser.add_argument(
        "--upstream-namespace",
        default="kubeflow-system",
        metavar="NAME",
        help="where Kubeflow Trainer's controller would run (default: kubeflow-system)",
    )
    parser.add_argument(
        "--metrics-host", metavar="ADDRESS", help="address of metrics and probes (default: all)"
    )
    parser.add_argument(
        "--metrics-port",
        type=_port,
        default=8080,
        metavar="PORT",
        help="port of metrics and probes (default: 8080)",
    )
    parser.add_argument(
        "--webhook",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="answer admission requests (default: yes)",
    )
    parser.add_argument("--webhook-host", metavar="ADDRESS", help="address of the webhooks (default: all)")
    parser.add_argument(
        "--webhook-port",
        type=_port,
        default=9443,
        metavar="PORT",
        help="port of the webhooks (default: 9443)",
    )
    parser.add_argument(
        "--webhook-certificate-dir",
        metavar="FOLDER",
        help="folder with tls.crt and tls.key, as cert-manager's Secret is mounted; "
        "read again when they change (default: the operator makes its own)",
    )
    parser.add_argument(
        "--log-format",
        choices=("auto", "json", "text"),
        default="auto",
        help="auto: text on a terminal, else json (default)",
    )
    found = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    return Settings(
        kubeconfig=found.kubeconfig,
        context=found.context,
        workers=found.workers,
        namespace=found.namespace,
        upstream_namespace=found.upstream_namespace,
        metrics_host=found.metrics_host,
        metrics_port=found.metrics_port,
        webhook=found.webhook,
        webhook_host=found.webhook_host,
        webhook_port=found.webhook_port,
        webhook_certificate_dir=found.webhook_certificate_dir,
        log_format=found.log_format,
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("must be a port, 0 to 65535")
    return number
