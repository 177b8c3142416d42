"""How an upstream chart becomes part of the stack: without its CRDs, its webhooks in order.

The `crds` component installs CRDs, and `order` keeps webhooks only while
something answers them. helm.v4.Chart runs no Helm hooks; what a chart does in
a hook, its component does as a resource of its own.
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
from ..stack import chart_values as values
from ..stack.pod_settings import Controllers
from ..stack.settings import CONFIG_KEY
from ..stack.value_types import ComputeResources
from . import order


@dataclass(frozen=True)
class Further:
    """Values that a stack gives to a chart."""

    part: str
    """The part of the stack that sets them."""
    values: Mapping[str, Any]

    def beside(self, platform_values: Mapping[str, Any]) -> dict[str, Any]:
        """Both, with a warning for each of these that has no effect."""
        for path in values.overruled(self.values, platform_values, f"{CONFIG_KEY}.{self.part}.values"):
            pulumi.log.warn(
                f"{path}: the platform sets this value itself, and its own takes precedence: remove the line"
            )
        return values.merged(self.values, platform_values)


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
    """The chart as release `name` in a namespace that exists.

    The stack's further values apply where we set none; each other one is a warning. Its pods get the stack's
    settings in `controllers`, and what the Pod Security level `restricted` requires, unless they
    need more; what patterns of KIND/NAME match is left out.
    """
    fields = controllers.of_pods()
    arguments = [f"--pods={json.dumps(fields)}"] if fields else []
    arguments += ["--budgets"] if controllers.disruption_budgets else []
    arguments += ["--restricted"] if restricted else []
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
            command=sys.executable, args=["-P", str(Path(order.__file__).resolve()), *arguments, *without]
        ),
        values=values if further is None else further.beside(values),
        opts=opts,
    )


def image(reference: str) -> dict[str, str]:
    """An image as the values of a chart have it: repository and tag.

    Charts join the two with a colon; for a digest, that is the digest's own colon.
    """
    repository, tag = reference.rsplit(":", 1)
    return {"repository": repository, "tag": tag}


def resources(compute: ComputeResources) -> dict[str, Any]:
    """A container's resources, with a limit only for memory.

    Helm merges values: the chart's own CPU limit has to be removed.
    """
    return {
        "requests": {"cpu": compute.cpu, "memory": compute.memory},
        "limits": {"cpu": None, "memory": compute.memory},
    }
