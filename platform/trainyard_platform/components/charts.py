"""How an upstream chart becomes part of the stack: without its CRDs, its webhooks in order.

The CRDs are the `crds` component's, and `chart_order` makes webhooks stand
only while something answers them. helm.v4.Chart runs no Helm hooks; what a
chart does in a hook, its component does as a resource of its own.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi_kubernetes.helm.v4 import Chart as HelmChart
from pulumi_kubernetes.helm.v4 import PostRendererArgs, RepositoryOptsArgs

from .. import chart_order
from ..artifacts import Chart
from ..controllers import Controllers
from ..model import ComputeResources


def install(
    name: str,
    chart: Chart,
    namespace: str,
    values: dict[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    controllers: Controllers,
    restricted: bool = True,
    without: Sequence[str] = (),
) -> HelmChart:
    """The chart as release `name` in a namespace that is there.

    Its pods have what the stack says of `controllers`, and what the Pod Security level `restricted` asks
    of them, unless they need more; what patterns of KIND/NAME name is left out.
    """
    fields = controllers.of_pods()
    told = [f"--pods={json.dumps(fields)}"] if fields else []
    told += ["--budgets"] if controllers.disruption_budgets else []
    told += ["--restricted"] if restricted else []
    repository = RepositoryOptsArgs(repo=chart.repository) if chart.repository else None
    return HelmChart(
        name,
        name=name,
        chart=chart.chart,
        version=chart.version,
        repository_opts=repository,
        namespace=namespace,
        skip_crds=True,
        post_renderer=PostRendererArgs(
            command=sys.executable, args=["-P", str(Path(chart_order.__file__).resolve()), *told, *without]
        ),
        values=values,
        opts=opts,
    )


def image(reference: str) -> tuple[str, str]:
    """Repository and tag as charts take them.

    They join the two with a colon, whichever colon that is: of a digest it is the digest's own.
    """
    repository, tag = reference.rsplit(":", 1)
    return repository, tag


def resources(compute: ComputeResources) -> dict[str, Any]:
    """A container's resources: a limit of memory alone.

    Helm merges values: a CPU limit of the chart's own has to be taken away.
    """
    return {
        "requests": {"cpu": compute.cpu, "memory": compute.memory},
        "limits": {"cpu": None, "memory": compute.memory},
    }
