"""What watches the platform: how it is scraped, when it alerts, and its dashboards.

It installs neither Prometheus nor Grafana: it declares what those of the
cluster read.
"""

from collections.abc import Iterable

import pulumi

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...assembly import Assembly
from ...objects.declare import declare
from ...stack.settings import StackSettings
from ..crds.component import Crds
from ..kueue import manifests as kueue
from ..kueue.component import Kueue
from ..operator import endpoints as operator
from ..operator.component import Operator
from . import manifests

SERVICE = f"{names.OPERATOR}-metrics"


class Observability(pulumi.ComponentResource):
    """Declares monitors, alerts and dashboards."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        objects: Iterable[Manifest],
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Observability", name, {}, opts)
        for manifest in objects:
            declare(manifest, pulumi.ResourceOptions(parent=self, depends_on=after))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare monitors, alerts and dashboards, if the stack has them."""
    if assembly.stack.observability.enabled:
        objects, after = _manifests(assembly.stack), assembly.after(Crds, Operator, Kueue)
        Observability("observability", assembly.options, objects=objects, after=after)


def _manifests(stack: StackSettings) -> list[Manifest]:
    settings, home = stack.observability, names.SYSTEM_NAMESPACE
    # The parts of the platform that not every stack has, as the data files name them.
    optional = (
        ("admission", stack.admission.enabled),
        ("kueue", stack.kueue.installs),
        ("jobset", stack.jobset.enabled),
        ("volcano", stack.volcano.enabled),
        ("coscheduling", stack.coscheduling.enabled),
    )
    parts = [part for part, there in optional if there]
    authenticates = stack.operator.metrics_authentication
    certificate = operator.certificate(stack) if authenticates else None
    port = names.SECURE_METRICS_PORT if authenticates else names.METRICS_PORT
    declared = [
        manifests.operator_service(SERVICE, home, operator.LABELS, port),
        manifests.operator_monitor(SERVICE, home, settings, certificate),
        manifests.rules(home, parts, settings),
        *manifests.dashboard_maps(home, parts, settings),
    ]
    scraped = [home]
    if stack.kueue.installs:
        declared.append(
            manifests.kueue_monitor(home, kueue.NAMESPACE, kueue.METRICS_SERVICE_LABELS, settings)
        )
        scraped.append(kueue.NAMESPACE)
    if settings.prometheus:
        declared += manifests.may_scrape(settings.prometheus, scraped)
    return declared
