"""The coscheduling plugin of scheduler-plugins: a second scheduler for gangs, and a controller.

The scheduler has upstream's default plugins and Coscheduling, but none of the
chart's others: these need CRDs and permissions of their own.
"""

from typing import Any

import pulumi

from trainyard_api import names

from ...artifacts import Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...objects.protection import Ports
from ...stack.coscheduling import Coscheduling as Settings
from ...stack.pod_settings import Controllers
from ..crds.component import Crds

RELEASE = names.SCHEDULER_PLUGINS
NAMESPACE = names.SCHEDULER_PLUGINS
PORTS = Ports(pods=(8080, 10259))
_REPOSITORY = "registry.k8s.io/scheduler-plugins"


class Coscheduling(pulumi.ComponentResource):
    """Installs the second scheduler and its controller, and waits until they run."""

    served: Served

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        settings: Settings,
        chart: Chart,
        repository: str,
        version: str,
        controllers: Controllers,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Coscheduling", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        namespace = declare(manifest.namespace(NAMESPACE), inside, NAMESPACE)
        both = {
            "replicaCount": settings.replicas,
            "leaderElect": settings.replicas > 1,
            "resources": helm.resources(settings.resources),
        }
        values: dict[str, Any] = {
            "scheduler": {
                "name": names.COSCHEDULING_SCHEDULER,
                "image": f"{repository}/kube-scheduler:{version}",
                **both,
            },
            "controller": {"image": f"{repository}/controller:{version}", **both},
            # Coscheduling sorts the queue itself, and a queue is sorted by one plugin.
            "plugins": {"enabled": ["Coscheduling"], "disabled": ["PrioritySort"]},
        }
        helm.install(
            RELEASE,
            chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[namespace, *after]),
            controllers=controllers,
            further=helm.Further("coscheduling", settings.values),
        )
        self.served = Served(NAMESPACE, namespace, PORTS)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install coscheduling, if the stack has it, with the pinned images if it names no repository."""
    stack, artifacts = assembly.stack, assembly.artifacts
    if not stack.coscheduling.enabled:
        return
    coscheduling = Coscheduling(
        "coscheduling",
        assembly.options,
        settings=stack.coscheduling,
        chart=artifacts.chart(names.SCHEDULER_PLUGINS),
        repository=stack.coscheduling.image_repository or artifacts.registry(_REPOSITORY),
        version=artifacts.version(names.SCHEDULER_PLUGINS),
        controllers=stack.controllers,
        after=assembly.after(Crds),
    )
    assembly.served.append(assembly.add(coscheduling).served)
