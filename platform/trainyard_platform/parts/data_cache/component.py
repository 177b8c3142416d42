"""The data cache: LeaderWorkerSet from upstream's chart, and who may start a cache."""

from collections.abc import Mapping, Sequence

import pulumi

from trainyard_api import names
from trainyard_policies.parameters import Parameters
from trainyard_policies.rules import image_registry
from trainyard_policies.subject import Subject

from ...artifacts import Chart
from ...assembly import Assembly, Served
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...objects.protection import Ports
from ...stack.data_cache import DataCache as Settings
from ...stack.pod_settings import Controllers
from ...stack.settings import StackSettings
from ...stack.tenants import Tenant
from ..crds.component import Crds
from ..tenants.component import Tenants
from . import manifests

RELEASE = "lws"
NAMESPACE = names.LWS_NAMESPACE
PORTS = Ports(everybody=(9443,), pods=(8443,))


class DataCache(pulumi.ComponentResource):
    """Installs LeaderWorkerSet and lets tenants start caches."""

    served: Served

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        settings: Settings,
        chart: Chart,
        image: str,
        parameters: Parameters,
        images: Sequence[str] | None,
        tenants: Mapping[str, Tenant],
        controllers: Controllers,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:DataCache", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        namespace = declare(manifest.namespace(NAMESPACE), inside, NAMESPACE)
        manager = {**helm.image(image), "pullPolicy": str(settings.image_pull_policy)}
        helm.install(
            RELEASE,
            chart,
            NAMESPACE,
            {
                "image": {"manager": manager},
                "replicaCount": settings.replicas,
                "resources": helm.resources(settings.resources),
                "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            },
            pulumi.ResourceOptions(parent=self, depends_on=[namespace, *after]),
            controllers=controllers,
        )
        self.served = Served(NAMESPACE, namespace, PORTS)
        policies = [declare(manifest, inside) for manifest in manifests.policies(parameters, images)]
        role = declare(manifests.role(), pulumi.ResourceOptions(parent=self, depends_on=[*policies, *after]))
        for tenant, tenant_settings in tenants.items():
            for account_manifest in manifests.account(tenant, tenant_settings.pull_secrets):
                declare(account_manifest, pulumi.ResourceOptions(parent=self, depends_on=[role, *after]))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install what a data cache needs, if the stack has it, with the pinned image if it names none."""
    stack, artifacts = assembly.stack, assembly.artifacts
    if not stack.data_cache.enabled:
        return
    cache = DataCache(
        "data-cache",
        assembly.options,
        settings=stack.data_cache,
        chart=artifacts.chart("lws"),
        image=stack.data_cache.image or artifacts.image("lws"),
        parameters=stack.rules.parameters,
        images=_images(stack),
        tenants=stack.tenants,
        controllers=stack.controllers,
        after=assembly.after(Crds, Tenants),
    )
    assembly.served.append(assembly.add(cache).served)


def _images(stack: StackSettings) -> Sequence[str] | None:
    """Where images of caches come from: as the rule about a TrainJob's images has it, and the stack's own."""
    level = stack.rules.level(image_registry.RULE, Subject.TRAINJOBS)
    if not stack.admission.holds_rules or not level.refuses:
        return None
    registries, own = stack.rules.parameters.registries, stack.data_cache.cache_image
    return (*registries, *([own] if own and own not in registries else []))
