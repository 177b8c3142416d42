"""Kueue's controller and webhooks, from upstream's chart.

It queues the kinds of jobs that the stack names, in the namespaces that it
selects; neither its controller nor its webhooks look at any other. Its
configuration sets everything that a default of a later version could change.
"""

from collections.abc import Sequence

import pulumi
import yaml

from ...artifacts import Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...stack.kueue import Integration
from ...stack.kueue import Kueue as Settings
from ...stack.pod_settings import Controllers
from ..crds.component import Crds
from . import manifests
from .manifests import NAMESPACE, PORTS, RELEASE

_OTHER_JOBS = (
    *("jaxjob", "leaderworkerset", "mpijob", "paddlejob", "pytorchjob", "raycluster", "rayjob"),
    *("rayservice", "sparkapplication", "tfjob", "xgboostjob"),
)
_ROLES_FOR_OTHER_JOBS = tuple(f"ClusterRole/*-{job}-*-role" for job in _OTHER_JOBS)
"""The chart has two ClusterRoles for every kind that Kueue can queue; these it never queues here."""


class Kueue(pulumi.ComponentResource):
    """Installs Kueue and waits until its webhooks answer."""

    namespace: pulumi.Resource
    served: Served

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        settings: Settings,
        integrations: Sequence[Integration],
        chart: Chart,
        image: str,
        controllers: Controllers,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Kueue", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        self.namespace = declare(manifest.namespace(NAMESPACE), inside, NAMESPACE)
        manager = {
            "image": {**helm.image(image), "pullPolicy": str(settings.image_pull_policy)},
            "resources": helm.resources(settings.resources),
        }
        values = {
            "controllerManager": {
                "replicas": settings.replicas,
                "manager": manager,
                "featureGates": manifests.feature_gates(settings),
                "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2},
            },
            "managerConfig": {
                "controllerManagerConfigYaml": yaml.safe_dump(
                    manifests.configuration(settings, integrations), sort_keys=False
                )
            },
        }
        helm.install(
            RELEASE,
            chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[self.namespace, *after]),
            controllers=controllers,
            further=helm.Further("kueue", settings.values),
            without=_ROLES_FOR_OTHER_JOBS,
        )
        self.served = Served(NAMESPACE, self.namespace, PORTS)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install Kueue, if the stack does so, with the pinned image if it names none."""
    stack, artifacts = assembly.stack, assembly.artifacts
    if not stack.kueue.installs:
        return
    kueue = Kueue(
        "kueue",
        assembly.options,
        settings=stack.kueue,
        integrations=stack.integrations,
        chart=artifacts.chart("kueue"),
        image=stack.kueue.image or artifacts.image("kueue"),
        controllers=stack.controllers,
        after=assembly.after(Crds),
    )
    assembly.deleted_with = assembly.add(kueue).namespace
    assembly.served.append(kueue.served)
