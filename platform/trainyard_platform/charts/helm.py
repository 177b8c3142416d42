"""How an upstream chart becomes part of the stack: without its CRDs, its webhooks in order.

The CRDs are the `crds` component's, and `order` makes webhooks stand
only while something answers them. helm.v4.Chart runs no Helm hooks; what a
chart does in a hook, its component does as a resource of its own.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi_kubernetes.helm.v4 import Chart as HelmChart
from pulumi_kubernetes.helm.v4 import PostRendererArgs, RepositoryOptsArgs

from ..artifacts import Chart
from ..controllers import Controllers
from ..model import ComputeResources
from ..settings import CONFIG_KEY
from . import order, values


@dataclass(frozen=True)
class Further:
    """Values that a stack gives to a chart."""

    part: str
    """The part of the stack that says them."""
    values: Mapping[str, Any]

    def beside(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """Both, with a warning for each of these that is in vain."""
        for path in values.overruled(self.values, ours, f"{CONFIG_KEY}.{self.part}.values"):
            pulumi.log.warn(
                f"{path}: the platform states this value itself, and its own stands: remove the line"
            )
        return values.merged(self.values, ours)


def install(
    name: str,
    chart: Chart,
    namespace: str,
    values: dict[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    controllers: Controllers,
    further: Further | None = None,
    restricted: bool = True,
    without: Sequence[str] = (),
) -> HelmChart:
    """The chart as release `name` in a namespace that is there.

    It has further values of the stack's where we state none, and each that is in vain is a warning.
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
            command=sys.executable, args=["-P", str(Path(order.__file__).resolve()), *told, *without]
        ),
        values=values if further is None else further.beside(values),
        opts=opts,
    )


def image(reference: str) -> tuple[str, str]:
    """Repository and tag as charts take them.

    They join the two with a colon, whichever colon that is: of a digest it is the digest's own.
    """
    repository, tag = reference.rsplit(":", 1)
    return repository, tag


def resources(compute: ComputeResources) -> dict[str, Any]:
    """A container's resources: a limit only of memory.

    Helm merges values: a CPU limit of the chart's own has to be taken away.
    """
    return {
        "requests": {"cpu": compute.cpu, "memory": compute.memory},
        "limits": {"cpu": None, "memory": compute.memory},
    }
