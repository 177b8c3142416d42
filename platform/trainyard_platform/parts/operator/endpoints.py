"""How the operator is reached: its name, what its pods serve, and what its servers are known by."""

from ...objects.protection import Ports
from ...settings import StackSettings
from ..observability.manifests import Certificate
from ..system.component import NAMESPACE
from . import cert_manager, rbac
from .settings import Certificates

NAME = "trainyard-operator"
PORT = 8080
WEBHOOK_PORT = 9443
STATUS_PORT = 10443
METRICS_PORT = 8443
"""Of metrics that ask who reads."""

LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "trainyard"}
REPORTING = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "podSelector": {"matchLabels": LABELS},
        }
    ],
    "ports": [{"protocol": "TCP", "port": STATUS_PORT}],
}
"""The egress, in a NetworkPolicy, of pods that report their progress."""


def served_ports(stack: StackSettings) -> Ports:
    """What its pods serve."""
    reports = stack.operator.feature_gates.train_job_status
    servers = ((WEBHOOK_PORT, stack.admission.enabled), (STATUS_PORT, reports))
    metrics = METRICS_PORT if stack.operator.metrics_authentication else PORT
    return Ports(everybody=[port for port, wanted in servers if wanted], pods=(metrics,))


def certificate(stack: StackSettings) -> Certificate:
    """What its servers are known by."""
    by_cert_manager = stack.operator.certificates is Certificates.CERT_MANAGER
    secret = cert_manager.secret(NAME) if by_cert_manager else rbac.WEBHOOK_CERTIFICATE
    return Certificate(secret, f"{NAME}.{NAMESPACE}.svc")
