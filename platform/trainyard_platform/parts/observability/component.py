"""What watches the platform: how it is scraped, when it alerts, and its dashboards.

It installs neither Prometheus nor Grafana: it declares what those of the
cluster read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...assembly import Assembly
from ...objects.declare import declare
from ...stack.observability import Observability as Settings
from ...stack.settings import StackSettings
from ..crds.component import Crds
from ..kueue import manifests as kueue
from ..kueue.component import Kueue
from ..operator import endpoints as operator
from ..operator.component import Operator
from . import manifests
from .manifests import Certificate

SERVICE = f"{names.OPERATOR}-metrics"


@dataclass(frozen=True, kw_only=True)
class ObservabilityArgs:
    """What is monitored, and by whom."""

    settings: Settings
    admission: bool
    kueue: bool
    certificate: Certificate | None = None
    """Of the operator's metrics, if they need authentication."""
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(cls, stack: StackSettings, *, after: Sequence[pulumi.Resource]) -> "ObservabilityArgs":
        """What the stack says."""
        return cls(
            settings=stack.observability,
            admission=stack.admission.enabled,
            kueue=stack.kueue.installs,
            certificate=operator.certificate(stack) if stack.operator.metrics_authentication else None,
            after=after,
        )

    @property
    def parts(self) -> list[str]:
        """The parts of the platform that not every stack has, as the data files name them."""
        return [part for part, there in (("admission", self.admission), ("kueue", self.kueue)) if there]


class Observability(pulumi.ComponentResource):
    """Declares monitors, alerts and dashboards."""

    def __init__(
        self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("trainyard:platform:Observability", name, {}, opts)
        for manifest in _manifests(args):
            declare(manifest, pulumi.ResourceOptions(parent=self, depends_on=list(args.after)))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare monitors, alerts and dashboards, if the stack has them."""
    if not assembly.stack.observability.enabled:
        return
    args = ObservabilityArgs.of(assembly.stack, after=assembly.after(Crds, Operator, Kueue))
    Observability("observability", args, assembly.options)


def _manifests(args: ObservabilityArgs) -> list[Manifest]:
    settings, home = args.settings, names.SYSTEM_NAMESPACE
    port = names.METRICS_PORT if args.certificate is None else names.SECURE_METRICS_PORT
    declared = [
        manifests.operator_service(SERVICE, home, operator.LABELS, port),
        manifests.operator_monitor(SERVICE, home, settings, args.certificate),
        manifests.rules(home, args.parts, settings),
        *manifests.dashboard_maps(home, args.parts, settings),
    ]
    scraped = [home]
    if args.kueue:
        declared.append(
            manifests.kueue_monitor(home, kueue.NAMESPACE, kueue.METRICS_SERVICE_LABELS, settings)
        )
        scraped.append(kueue.NAMESPACE)
    if settings.prometheus:
        declared += manifests.may_scrape(settings.prometheus, scraped)
    return declared
