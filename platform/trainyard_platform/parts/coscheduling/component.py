"""The coscheduling plugin of scheduler-plugins: a second scheduler for gangs, and a controller.

The scheduler has upstream's default plugins and Coscheduling, but none of the
chart's others: these need CRDs and permissions of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from ...artifacts import Artifacts, Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...objects.protection import Ports
from ...stack.pod_settings import Controllers
from ...stack.settings import StackSettings
from ...stack.value_types import ComputeResources
from ..crds.component import Crds

RELEASE = "scheduler-plugins"
NAMESPACE = "scheduler-plugins"
PORTS = Ports(pods=(8080, 10259))
SCHEDULER = "scheduler-plugins-scheduler"
"""What pods name as their schedulerName."""
_REPOSITORY = "registry.k8s.io/scheduler-plugins"


@dataclass(frozen=True, kw_only=True)
class CoschedulingArgs:
    """What the Coscheduling component needs from the stack."""

    chart: Chart
    scheduler_image: str
    controller_image: str
    replicas: int
    resources: ComputeResources
    values: Mapping[str, Any]
    """Further values of the chart."""
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, stack: StackSettings, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "CoschedulingArgs":
        """What the stack says, with the pinned images where it names no registry."""
        settings = stack.coscheduling
        repository = settings.image_repository or artifacts.registry(_REPOSITORY)
        version = artifacts.version("scheduler-plugins")
        return cls(
            chart=artifacts.chart("scheduler-plugins"),
            scheduler_image=f"{repository}/kube-scheduler:{version}",
            controller_image=f"{repository}/controller:{version}",
            replicas=settings.replicas,
            resources=settings.resources,
            values=settings.values,
            controllers=stack.controllers,
            after=after,
        )


class Coscheduling(pulumi.ComponentResource):
    """Installs the second scheduler and its controller, and waits until they run."""

    served: Served

    def __init__(self, name: str, args: CoschedulingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Coscheduling", name, {}, opts)
        namespace = declare(
            manifest.namespace(NAMESPACE),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            NAMESPACE,
        )
        both = {
            "replicaCount": args.replicas,
            "leaderElect": args.replicas > 1,
            "resources": helm.resources(args.resources),
        }
        values: dict[str, Any] = {
            "scheduler": {"name": SCHEDULER, "image": args.scheduler_image, **both},
            "controller": {"image": args.controller_image, **both},
            # Coscheduling sorts the queue itself, and a queue is sorted by one plugin.
            "plugins": {"enabled": ["Coscheduling"], "disabled": ["PrioritySort"]},
        }
        helm.install(
            RELEASE,
            args.chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[namespace, *args.after]),
            controllers=args.controllers,
            further=helm.Further("coscheduling", args.values),
        )
        self.served = Served(NAMESPACE, namespace, PORTS)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install coscheduling, if the stack has it."""
    if not assembly.stack.coscheduling.enabled:
        return
    args = CoschedulingArgs.of(assembly.stack, assembly.artifacts, after=assembly.after(Crds))
    assembly.served.append(assembly.add(Coscheduling("coscheduling", args, assembly.options)).served)
