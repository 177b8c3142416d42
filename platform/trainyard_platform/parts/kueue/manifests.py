"""Kueue's configuration, and its CRDs: pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainyard_api import names

from ...objects.protection import Ports
from ...stack.kueue import Integration, Kueue

RELEASE = "kueue"
NAMESPACE = names.KUEUE_NAMESPACE
WEBHOOK_PORT = 9443
METRICS_PORT = 8443
VISIBILITY_PORT = 8082
PORTS = Ports(everybody=(WEBHOOK_PORT, VISIBILITY_PORT), pods=(METRICS_PORT,))
METRICS_SERVICE_LABELS = {
    "app.kubernetes.io/name": "kueue",
    "app.kubernetes.io/instance": RELEASE,
    "app.kubernetes.io/component": "metrics-service",
}
"""Labels that identify the chart's Service for metrics."""

_CONVERTED = frozenset(
    f"{name}.kueue.x-k8s.io"
    for name in ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
)
"""Kinds that need conversion: their older version differs in more than its name."""


def crds(manifests: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Kueue's CRDs, with the conversion that upstream's own overlay adds to them.

    Kueue writes the caBundle.
    """
    service = {"name": f"{RELEASE}-webhook-service", "namespace": NAMESPACE, "path": "/convert"}
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]},
    }
    for manifest in manifests:
        converted = manifest["metadata"]["name"] in _CONVERTED
        spec = {**manifest["spec"], "conversion": conversion} if converted else manifest["spec"]
        yield {**manifest, "spec": spec}


def configuration(settings: Kueue, integrations: Sequence[Integration]) -> dict[str, Any]:
    """Kueue's Configuration (config.kueue.x-k8s.io/v1beta2), with the kinds of jobs that it queues."""
    document: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": f":{METRICS_PORT}", "enableClusterQueueResources": True},
        "webhook": {"port": WEBHOOK_PORT},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": [str(kind) for kind in integrations]},
        "manageJobsWithoutQueueName": False,
        "managedJobsNamespaceSelector": settings.namespace_selector.manifest(),
    }
    if ready := settings.wait_for_pods_ready:
        document["waitForPodsReady"] = {
            "timeout": ready.timeout,
            "recoveryTimeout": ready.recovery_timeout,
            "blockAdmission": False,
        }
    if settings.fair_sharing:
        strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        document["fairSharing"] = {"preemptionStrategies": strategies}
    return document


def feature_gates(settings: Kueue) -> list[dict[str, Any]]:
    """Gates that differ from upstream's defaults, as its chart expects them."""
    # Says why a workload waits: WaitingForQuota, TopologyPlacementFailed and the like.
    gates = {"UnadmittedWorkloadsObservability": True}
    if settings.wait_for_pods_ready is None:
        # If left out of the configuration, it would be on, with half an hour.
        gates["DisableWaitForPodsReady"] = True
    return [{"name": name, "enabled": enabled} for name, enabled in gates.items()]
