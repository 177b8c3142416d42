"""JobSet's controller and webhooks, from upstream's chart.

The chart installs without its CRD, which is `crds`'. Its webhooks are created
when the controller answers and deleted before it (`chart_order`), so that
neither `up` nor `destroy` leaves a time in which JobSets cannot be written.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.helm.v4 import Chart as HelmChart
from pulumi_kubernetes.helm.v4 import PostRendererArgs
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from .. import chart_order, settings
from ..artifacts import Artifacts, Chart
from ..settings import ComputeResources, PullPolicy

RELEASE = "jobset"


@dataclass(frozen=True, kw_only=True)
class JobSetArgs:
    """What the JobSet component needs from the stack."""

    chart: Chart
    image: str
    image_pull_policy: PullPolicy
    replicas: int
    resources: ComputeResources
    namespace: str = "jobset-system"
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, jobset: settings.JobSet, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "JobSetArgs":
        """What the stack says, with the pinned image where it names none."""
        return cls(
            chart=artifacts.chart("jobset"),
            image=jobset.image or artifacts.image("jobset"),
            image_pull_policy=jobset.image_pull_policy,
            replicas=jobset.replicas,
            resources=jobset.resources,
            after=after,
        )


class JobSet(pulumi.ComponentResource):
    """Installs JobSet's controller and waits until its webhooks answer."""

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: JobSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:JobSet", name, {}, opts)
        namespace = Namespace(
            args.namespace,
            metadata=ObjectMetaArgs(
                name=args.namespace, labels={"pod-security.kubernetes.io/enforce": "restricted"}
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        # The chart joins repository and tag with a colon, whichever colon that is.
        repository, tag = args.image.rsplit(":", 1)
        HelmChart(
            RELEASE,
            name=RELEASE,
            chart=args.chart.chart,
            version=args.chart.version,
            namespace=args.namespace,
            skip_crds=True,
            post_renderer=PostRendererArgs(
                command=sys.executable, args=["-P", str(Path(chart_order.__file__).resolve())]
            ),
            values={
                "image": {"repository": repository, "tag": tag, "pullPolicy": str(args.image_pull_policy)},
                "controller": {
                    "replicas": args.replicas,
                    "resources": {
                        "requests": {"cpu": args.resources.cpu, "memory": args.resources.memory},
                        # Helm merges: the chart's own CPU limit has to be taken away.
                        "limits": {"cpu": None, "memory": args.resources.memory},
                    },
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[namespace, *args.after]),
        )
        self.namespace = pulumi.Output.from_input(args.namespace)
        self.register_outputs({"namespace": self.namespace})
