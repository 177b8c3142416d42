"""JobSet's controller and webhooks, from upstream's chart.

Neither `up` nor `destroy` leaves a gap in which JobSets cannot be written: see
`charts.helm`.
"""

import pulumi

from trainyard_api import names

from ...artifacts import Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...objects.protection import Ports
from ...stack.jobset import JobSet as Settings
from ...stack.pod_settings import Controllers
from ..crds.component import Crds

RELEASE = "jobset"
NAMESPACE = names.JOBSET_NAMESPACE
PORTS = Ports(everybody=(9443,), pods=(8443,))


class JobSet(pulumi.ComponentResource):
    """Installs JobSet's controller and waits until its webhooks answer."""

    served: Served

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        settings: Settings,
        chart: Chart,
        image: str,
        controllers: Controllers,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:JobSet", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        namespace = declare(manifest.namespace(NAMESPACE), inside, NAMESPACE)
        values = {
            "image": {**helm.image(image), "pullPolicy": str(settings.image_pull_policy)},
            "controller": {"replicas": settings.replicas, "resources": helm.resources(settings.resources)},
        }
        helm.install(
            RELEASE,
            chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[namespace, *after]),
            controllers=controllers,
            further=helm.Further("jobset", settings.values),
        )
        self.served = Served(NAMESPACE, namespace, PORTS)
        self.register_outputs({"namespace": NAMESPACE})


def install(assembly: Assembly) -> None:
    """Install JobSet, with the pinned image if the stack names none, unless the cluster already has it."""
    stack, artifacts = assembly.stack, assembly.artifacts
    if not stack.jobset.enabled:
        return
    jobset = JobSet(
        "jobset",
        assembly.options,
        settings=stack.jobset,
        chart=artifacts.chart("jobset"),
        image=stack.jobset.image or artifacts.image("jobset"),
        controllers=stack.controllers,
        after=assembly.after(Crds),
    )
    assembly.deleted_with = assembly.add(jobset)
    assembly.served.append(jobset.served)
    pulumi.export("jobsetNamespace", NAMESPACE)
