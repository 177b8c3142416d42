"""How the operator is reached: its name, what its pods serve, and the certificate of its servers."""

from trainyard_api import names

from ...objects.protection import Ports
from ...stack.operator import Certificates
from ...stack.settings import StackSettings
from ..observability.manifests import Certificate
from . import cert_manager

LABELS = {"app.kubernetes.io/name": names.OPERATOR, "app.kubernetes.io/part-of": "trainyard"}
REPORTING = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {names.NAMESPACE_LABEL: names.SYSTEM_NAMESPACE}},
            "podSelector": {"matchLabels": LABELS},
        }
    ],
    "ports": [{"protocol": "TCP", "port": names.STATUS_PORT}],
}
"""The egress, in a NetworkPolicy, of pods that report their progress."""


def served_ports(stack: StackSettings) -> Ports:
    """What its pods serve."""
    reports = stack.operator.feature_gates.train_job_status
    servers = ((names.WEBHOOK_PORT, stack.admission.enabled), (names.STATUS_PORT, reports))
    metrics = names.SECURE_METRICS_PORT if stack.operator.metrics_authentication else names.METRICS_PORT
    return Ports(everybody=[port for port, wanted in servers if wanted], pods=(metrics,))


def certificate(stack: StackSettings) -> Certificate:
    """The certificate of its servers."""
    by_cert_manager = stack.operator.certificates is Certificates.CERT_MANAGER
    secret = cert_manager.secret(names.OPERATOR) if by_cert_manager else names.WEBHOOK_CERTIFICATE
    return Certificate(secret, f"{names.OPERATOR}.{names.SYSTEM_NAMESPACE}.svc")
