"""The data cache: LeaderWorkerSet from upstream's chart, and who may start a cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from ...artifacts import Artifacts, Chart
from ...assembly import Assembly
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...stack.data_cache import DataCache as Settings
from ...stack.pod_settings import Controllers
from ...stack.settings import StackSettings
from ..crds.component import Crds
from ..tenants.component import Tenants
from . import manifests

RELEASE = "lws"
NAMESPACE = "lws-system"


@dataclass(frozen=True, kw_only=True)
class DataCacheArgs:
    """What the data cache needs from the stack."""

    chart: Chart
    image: str
    settings: Settings
    tenants: Sequence[str]
    """Namespaces whose TrainJobs may start a cache."""
    controllers: Controllers
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(
        cls, stack: StackSettings, artifacts: Artifacts, *, after: Sequence[pulumi.Resource]
    ) -> "DataCacheArgs":
        """What the stack says, with the pinned image where it names none."""
        return cls(
            chart=artifacts.chart("lws"),
            image=stack.data_cache.image or artifacts.image("lws"),
            settings=stack.data_cache,
            tenants=list(stack.tenants),
            controllers=stack.controllers,
            after=after,
        )


class DataCache(pulumi.ComponentResource):
    """Installs LeaderWorkerSet and lets tenants start caches."""

    namespaces: Mapping[str, pulumi.Resource]
    """Of its controller, by name."""

    def __init__(self, name: str, args: DataCacheArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:DataCache", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=list(args.after))
        namespace = declare(manifest.namespace(NAMESPACE), inside, NAMESPACE)
        repository, tag = helm.image(args.image)
        image = {
            "repository": repository,
            "tag": tag,
            "pullPolicy": str(args.settings.image_pull_policy),
        }
        helm.install(
            RELEASE,
            args.chart,
            NAMESPACE,
            {
                "image": {"manager": image},
                "replicaCount": args.settings.replicas,
                "resources": helm.resources(args.settings.resources),
                "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            },
            pulumi.ResourceOptions(parent=self, depends_on=[namespace, *args.after]),
            controllers=args.controllers,
        )
        self.namespaces = {NAMESPACE: namespace}
        role = declare(manifests.role(), inside)
        for tenant in args.tenants:
            for account_manifest in manifests.account(tenant):
                declare(account_manifest, pulumi.ResourceOptions(parent=self, depends_on=[role, *args.after]))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install what a data cache needs, if the stack has it."""
    if not assembly.stack.data_cache.enabled:
        return
    args = DataCacheArgs.of(assembly.stack, assembly.artifacts, after=assembly.after(Crds, Tenants))
    cache = assembly.add(DataCache("data-cache", args, assembly.options))
    assembly.unserved |= cache.namespaces
