"""Volcano's scheduler, controllers and webhooks, from upstream's chart.

Its webhooks' certificate comes from a Helm hook, which is a Job here: the same
image and command, but as a resource it is seen by previews and policies, `up`
continues after an interruption where a Helm release would be stuck, and the
CRDs can be left out of what the chart renders (`charts.helm`).
"""

from typing import Any

import pulumi

from trainyard_api.json_types import Manifest

from ...artifacts import Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...objects.protection import Ports
from ...stack.pod_settings import Controllers
from ...stack.volcano import Volcano as Settings
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


class Volcano(pulumi.ComponentResource):
    """Installs Volcano and waits until its webhooks are trusted."""

    served: Served

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        settings: Settings,
        chart: Chart,
        image: Image,
        user: int | None,
        controllers: Controllers,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Volcano", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        namespace = declare(manifest.namespace(NAMESPACE), inside, NAMESPACE)
        certificate = self._certificate(manifests.job(image, controllers, user), [namespace, *after])
        compute, replicas = helm.resources(settings.resources), settings.replicas
        values: dict[str, Any] = {
            "basic": {
                "image_registry": image.registry,
                "image_tag_version": image.tag,
                "image_pull_policy": str(image.pull_policy),
            },
            "custom": {
                "admission_resources": compute,
                "controller_resources": compute,
                "scheduler_resources": compute,
                **{f"{part}_replicas": replicas for part in ("admission", "controller", "scheduler")},
                "leader_elect_enable": replicas > 1,
                **({} if user else _ASSIGNED),
            },
        }
        helm.install(
            RELEASE,
            chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[certificate]),
            controllers=controllers,
            further=helm.Further("volcano", settings.values),
        )
        self.served = Served(NAMESPACE, namespace, PORTS)
        self.register_outputs({})

    def _certificate(self, job: Manifest, after: list[pulumi.Resource]) -> pulumi.Resource:
        """The Job that creates the webhooks' certificate, with the permissions to store it."""
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        rights = [declare(manifest, inside, CERTIFICATE_JOB) for manifest in manifests.job_rights()]
        return declare(
            job,
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[*rights, *after],
                custom_timeouts=pulumi.CustomTimeouts(create="5m"),
            ),
            CERTIFICATE_JOB,
        )


def install(assembly: Assembly) -> None:
    """Install Volcano, if the stack has it, with the pinned images if it names no registry."""
    stack, artifacts = assembly.stack, assembly.artifacts
    settings = stack.volcano
    if not settings.enabled:
        return
    volcano = Volcano(
        "volcano",
        assembly.options,
        settings=settings,
        chart=artifacts.chart("volcano"),
        image=Image(
            registry=settings.image_registry or artifacts.registry("docker.io"),
            tag=artifacts.version("volcano"),
            pull_policy=settings.image_pull_policy,
        ),
        user=None if stack.cluster.assigns_users else USER,
        controllers=stack.controllers,
        after=assembly.after(Crds),
    )
    assembly.served.append(assembly.add(volcano).served)
