"""JobSet's controller and webhooks, from upstream's chart.

Neither `up` nor `destroy` leaves a gap in which JobSets cannot be written: see
`charts.helm`.
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

RELEASE = "jobset"
PORTS = Ports(everybody=(9443,), pods=(8443,))


@dataclass(frozen=True, kw_only=True)
class JobSetArgs:
    """What the JobSet component needs from the stack."""

    chart: Chart
    image: str
    image_pull_policy: PullPolicy
    replicas: int
    resources: ComputeResources
    values: Mapping[str, Any]
    """Further values of the chart."""
    namespace: str = "jobset-system"
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, stack: StackSettings, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "JobSetArgs":
        """What the stack says, with the pinned image where it names none."""
        jobset = stack.jobset
        return cls(
            chart=artifacts.chart("jobset"),
            controllers=stack.controllers,
            image=jobset.image or artifacts.image("jobset"),
            image_pull_policy=jobset.image_pull_policy,
            replicas=jobset.replicas,
            resources=jobset.resources,
            values=jobset.values,
            after=after,
        )


class JobSet(pulumi.ComponentResource):
    """Installs JobSet's controller and waits until its webhooks answer."""

    namespace: pulumi.Output[str]
    served: Served

    def __init__(self, name: str, args: JobSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:JobSet", name, {}, opts)
        namespace = declare(
            manifest.namespace(args.namespace),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            args.namespace,
        )
        repository, tag = helm.image(args.image)
        helm.install(
            RELEASE,
            args.chart,
            args.namespace,
            {
                "image": {"repository": repository, "tag": tag, "pullPolicy": str(args.image_pull_policy)},
                "controller": {"replicas": args.replicas, "resources": helm.resources(args.resources)},
            },
            pulumi.ResourceOptions(parent=self, depends_on=[namespace, *args.after]),
            controllers=args.controllers,
            further=helm.Further("jobset", args.values),
        )
        self.served = Served(args.namespace, namespace, PORTS)
        self.namespace = pulumi.Output.from_input(args.namespace)
        self.register_outputs({"namespace": self.namespace})


def install(assembly: Assembly) -> None:
    """Install JobSet, unless the cluster already has it."""
    if not assembly.stack.jobset.enabled:
        return
    args = JobSetArgs.of(assembly.stack, assembly.artifacts, after=assembly.after(Crds))
    jobset = assembly.add(JobSet("jobset", args, assembly.options))
    assembly.deleted_with = jobset
    assembly.served.append(jobset.served)
    pulumi.export("jobsetNamespace", jobset.namespace)
