"""Kueue's controller and webhooks, from upstream's chart.

It queues the kinds of jobs that the stack names, in the namespaces that it
selects; neither its controller nor its webhooks look at any other. Its
configuration says everything that a default of a later version could change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import yaml
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from ...artifacts import Artifacts, Chart
from ...charts import helm
from ...controllers import Controllers
from ...objects.protection import Ports
from ...settings import StackSettings
from ..network_policies.component import Served
from .settings import KUEUE_NAMESPACE
from .settings import Kueue as Settings

RELEASE = "kueue"
NAMESPACE = KUEUE_NAMESPACE
WEBHOOK_PORT = 9443
METRICS_PORT = 8443
VISIBILITY_PORT = 8082
PORTS = Ports(everybody=(WEBHOOK_PORT, VISIBILITY_PORT), pods=(METRICS_PORT,))
METRICS_SERVICE_LABELS = {
    "app.kubernetes.io/name": "kueue",
    "app.kubernetes.io/instance": RELEASE,
    "app.kubernetes.io/component": "metrics-service",
}
"""What the chart's Service for metrics can be told by."""

_CONVERTED = frozenset(
    f"{name}.kueue.x-k8s.io"
    for name in ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
)
"""Kinds whose older version differs in more than its name."""

_OTHER_JOBS = (
    *("jaxjob", "leaderworkerset", "mpijob", "paddlejob", "pytorchjob", "raycluster", "rayjob"),
    *("rayservice", "sparkapplication", "tfjob", "xgboostjob"),
)
_ROLES_FOR_OTHER_JOBS = tuple(f"ClusterRole/*-{one}-*-role" for one in _OTHER_JOBS)
"""The chart has two ClusterRoles for every kind that Kueue can queue; these it never does here."""


def crds(manifests: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Kueue's CRDs, with the conversion that upstream's own overlay adds to them.

    The caBundle is Kueue's to write.
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


def configuration(settings: Settings) -> dict[str, Any]:
    """Kueue's Configuration (config.kueue.x-k8s.io/v1beta2)."""
    document: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": f":{METRICS_PORT}", "enableClusterQueueResources": True},
        "webhook": {"port": WEBHOOK_PORT},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": [str(one) for one in settings.integrations]},
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


def feature_gates(settings: Settings) -> list[dict[str, Any]]:
    """Gates that differ from upstream's defaults, as its chart takes them."""
    # Says why a workload waits: WaitingForQuota, TopologyPlacementFailed and the like.
    gates = {"UnadmittedWorkloadsObservability": True}
    if settings.wait_for_pods_ready is None:
        # Left out of the configuration it would be on, with half an hour.
        gates["DisableWaitForPodsReady"] = True
    return [{"name": name, "enabled": enabled} for name, enabled in gates.items()]


@dataclass(frozen=True, kw_only=True)
class KueueArgs:
    """What the Kueue component needs from the stack."""

    chart: Chart
    image: str
    settings: Settings
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, stack: StackSettings, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "KueueArgs":
        """What the stack says, with the pinned image where it names none."""
        return cls(
            chart=artifacts.chart("kueue"),
            image=stack.kueue.image or artifacts.image("kueue"),
            settings=stack.kueue,
            controllers=stack.controllers,
            after=after,
        )


class Kueue(pulumi.ComponentResource):
    """Installs Kueue and waits until its webhooks answer."""

    namespace: Namespace
    served: Served

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Kueue", name, {}, opts)
        self.namespace = Namespace(
            NAMESPACE,
            metadata=ObjectMetaArgs(
                name=NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "restricted"}
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        repository, tag = helm.image(args.image)
        manager = {
            "image": {
                "repository": repository,
                "tag": tag,
                "pullPolicy": str(args.settings.image_pull_policy),
            },
            "resources": helm.resources(args.settings.resources),
        }
        values = {
            "controllerManager": {
                "replicas": args.settings.replicas,
                "manager": manager,
                "featureGates": feature_gates(args.settings),
                "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2},
            },
            "managerConfig": {
                "controllerManagerConfigYaml": yaml.safe_dump(configuration(args.settings), sort_keys=False)
            },
        }
        helm.install(
            RELEASE,
            args.chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[self.namespace, *args.after]),
            controllers=args.controllers,
            further=helm.Further("kueue", args.settings.values),
            without=_ROLES_FOR_OTHER_JOBS,
        )
        self.served = Served(NAMESPACE, self.namespace, PORTS)
        self.register_outputs({})
