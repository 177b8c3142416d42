"""Volcano's scheduler, controllers and webhooks, from upstream's chart.

Its webhooks' certificate comes from a Helm hook, which is a Job here: the same
image and command, but as a resource it is seen by previews and policies, `up`
continues after an interruption where a Helm release would be stuck, and the
CRDs can be left out of what the chart renders (`charts.helm`).
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
from ...stack.value_types import ComputeResources, PullPolicy
from ..crds.component import Crds
from . import manifests
from .manifests import CERTIFICATE_JOB, NAMESPACE, Image

RELEASE = "volcano"
PORTS = Ports(everybody=(8443,), pods=(8080, 8081))
USER = 1000

_ASSIGNED = {
    "default_csc": {"runAsUser": None, "capabilities": {"add": None}},
    "default_sc": {"seLinuxOptions": None},
}
"""Removes what the chart says about whom it runs as."""


@dataclass(frozen=True, kw_only=True)
class VolcanoArgs:
    """What the Volcano component needs from the stack."""

    chart: Chart
    registry: str
    tag: str
    image_pull_policy: PullPolicy
    replicas: int
    resources: ComputeResources
    values: Mapping[str, Any]
    """Further values of the chart."""
    user: int | None = USER
    """The user that it runs as; None where the cluster assigns users."""
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, stack: StackSettings, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "VolcanoArgs":
        """What the stack says, with the pinned images where it names no registry."""
        volcano = stack.volcano
        return cls(
            chart=artifacts.chart("volcano"),
            registry=volcano.image_registry or artifacts.registry("docker.io"),
            tag=artifacts.version("volcano"),
            image_pull_policy=volcano.image_pull_policy,
            replicas=volcano.replicas,
            resources=volcano.resources,
            values=volcano.values,
            user=None if stack.cluster.assigns_users else USER,
            controllers=stack.controllers,
            after=after,
        )


class Volcano(pulumi.ComponentResource):
    """Installs Volcano and waits until its webhooks are trusted."""

    served: Served

    def __init__(self, name: str, args: VolcanoArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Volcano", name, {}, opts)
        namespace = declare(
            manifest.namespace(NAMESPACE),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            NAMESPACE,
        )
        certificate = self._certificate(args, [namespace, *args.after])
        compute = helm.resources(args.resources)
        values: dict[str, Any] = {
            "basic": {
                "image_registry": args.registry,
                "image_tag_version": args.tag,
                "image_pull_policy": str(args.image_pull_policy),
            },
            "custom": {
                "admission_resources": compute,
                "controller_resources": compute,
                "scheduler_resources": compute,
                **{f"{part}_replicas": args.replicas for part in ("admission", "controller", "scheduler")},
                "leader_elect_enable": args.replicas > 1,
                **({} if args.user else _ASSIGNED),
            },
        }
        helm.install(
            RELEASE,
            args.chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[certificate]),
            controllers=args.controllers,
            further=helm.Further("volcano", args.values),
        )
        self.served = Served(NAMESPACE, namespace, PORTS)
        self.register_outputs({})

    def _certificate(self, args: VolcanoArgs, after: list[pulumi.Resource]) -> pulumi.Resource:
        """The Job that creates the webhooks' certificate, with the permissions to store it."""
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        rights = [declare(manifest, inside, CERTIFICATE_JOB) for manifest in manifests.job_rights()]
        image = Image(registry=args.registry, tag=args.tag, pull_policy=args.image_pull_policy)
        return declare(
            manifests.job(image, args.controllers, args.user),
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[*rights, *after],
                custom_timeouts=pulumi.CustomTimeouts(create="5m"),
            ),
            CERTIFICATE_JOB,
        )


def install(assembly: Assembly) -> None:
    """Install Volcano, if the stack has it."""
    if not assembly.stack.volcano.enabled:
        return
    args = VolcanoArgs.of(assembly.stack, assembly.artifacts, after=assembly.after(Crds))
    assembly.served.append(assembly.add(Volcano("volcano", args, assembly.options)).served)
