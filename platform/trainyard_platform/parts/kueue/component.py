"""Kueue's controller and webhooks, from upstream's chart.

It queues the kinds of jobs that the stack names, in the namespaces that it
selects; neither its controller nor its webhooks look at any other. Its
configuration sets everything that a default of a later version could change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import yaml

from ...artifacts import Artifacts, Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...stack.kueue import Integration
from ...stack.kueue import Kueue as Settings
from ...stack.pod_settings import Controllers
from ...stack.settings import StackSettings
from ..crds.component import Crds
from . import manifests
from .manifests import NAMESPACE, PORTS, RELEASE

_OTHER_JOBS = (
    *("jaxjob", "leaderworkerset", "mpijob", "paddlejob", "pytorchjob", "raycluster", "rayjob"),
    *("rayservice", "sparkapplication", "tfjob", "xgboostjob"),
)
_ROLES_FOR_OTHER_JOBS = tuple(f"ClusterRole/*-{job}-*-role" for job in _OTHER_JOBS)
"""The chart has two ClusterRoles for every kind that Kueue can queue; these it never queues here."""


@dataclass(frozen=True, kw_only=True)
class KueueArgs:
    """What the Kueue component needs from the stack."""

    chart: Chart
    image: str
    settings: Settings
    integrations: Sequence[Integration]
    """The kinds of jobs that it queues."""
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, stack: StackSettings, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "KueueArgs":
        """What the stack says, with the pinned image where it names none."""
        return cls(
            chart=artifacts.chart("kueue"),
            image=stack.kueue.image or artifacts.image("kueue"),
            settings=stack.kueue,
            integrations=stack.integrations,
            controllers=stack.controllers,
            after=after,
        )


class Kueue(pulumi.ComponentResource):
    """Installs Kueue and waits until its webhooks answer."""

    namespace: pulumi.Resource
    served: Served

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Kueue", name, {}, opts)
        self.namespace = declare(
            manifest.namespace(NAMESPACE),
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            NAMESPACE,
        )
        repository, tag = helm.image(args.image)
        manager = {
            "image": {
                "repository": repository,
                "tag": tag,
                "pullPolicy": str(args.settings.image_pull_policy),
            },
            "resources": helm.resources(args.settings.resources),
        }
        values = {
            "controllerManager": {
                "replicas": args.settings.replicas,
                "manager": manager,
                "featureGates": manifests.feature_gates(args.settings),
                "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2},
            },
            "managerConfig": {
                "controllerManagerConfigYaml": yaml.safe_dump(
                    manifests.configuration(args.settings, args.integrations), sort_keys=False
                )
            },
        }
        helm.install(
            RELEASE,
            args.chart,
            NAMESPACE,
            values,
            pulumi.ResourceOptions(parent=self, depends_on=[self.namespace, *args.after]),
            controllers=args.controllers,
            further=helm.Further("kueue", args.settings.values),
            without=_ROLES_FOR_OTHER_JOBS,
        )
        self.served = Served(NAMESPACE, self.namespace, PORTS)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install Kueue, if the stack does so."""
    if not assembly.stack.kueue.installs:
        return
    args = KueueArgs.of(assembly.stack, assembly.artifacts, after=assembly.after(Crds))
    kueue = assembly.add(Kueue("kueue", args, assembly.options))
    assembly.deleted_with = kueue.namespace
    assembly.served.append(kueue.served)
