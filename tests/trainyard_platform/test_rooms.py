"""What the platform grants and probes is what the operator asks for: two rooms, one truth."""

from trainyard_operator import settings as operator_settings
from trainyard_operator.work import lease
from trainyard_platform.parts.kubeflow import component as kubeflow
from trainyard_platform.parts.operator import rbac
from trainyard_platform.parts.system import component as system


def test_the_leases_are_the_operators() -> None:
    assert (rbac.LEASE, rbac.UPSTREAM_LEASE) == (lease.NAME, lease.UPSTREAM_NAME)


def test_the_namespaces_are_the_operators() -> None:
    told = operator_settings.parse([])
    assert (told.namespace, told.upstream_namespace) == (system.NAMESPACE, kubeflow.NAMESPACE)
