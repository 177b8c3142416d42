"""The platform of one stack: its parts, in the order in which they need each other."""

from pathlib import Path

import pulumi

from trainyard_platform import cluster, versions
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.assembly import Assembly
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.errors import PlatformError
from trainyard_platform.parts.accelerators import component as accelerators
from trainyard_platform.parts.admission import component as admission
from trainyard_platform.parts.catalog import component as catalog
from trainyard_platform.parts.coscheduling import component as coscheduling
from trainyard_platform.parts.crds import component as crds
from trainyard_platform.parts.data_cache import component as data_cache
from trainyard_platform.parts.external_secrets import component as external_secrets
from trainyard_platform.parts.jobset import component as jobset
from trainyard_platform.parts.kubeflow import component as kubeflow
from trainyard_platform.parts.kueue import component as kueue
from trainyard_platform.parts.network_policies import component as network_policies
from trainyard_platform.parts.node_pools import component as node_pools
from trainyard_platform.parts.observability import component as observability
from trainyard_platform.parts.operator import component as operator
from trainyard_platform.parts.policies import component as policies
from trainyard_platform.parts.queues import component as queues
from trainyard_platform.parts.storage import component as storage
from trainyard_platform.parts.system import component as system
from trainyard_platform.parts.tenants import component as tenants
from trainyard_platform.parts.volcano import component as volcano
from trainyard_platform.stack import settings

PARTS = (
    accelerators,
    crds,
    jobset,
    node_pools,
    kueue,
    queues,
    tenants,
    volcano,
    coscheduling,
    storage,
    data_cache,
    system,
    policies,
    catalog,
    kubeflow,
    operator,
    external_secrets,
    network_policies,
    admission,
    observability,
)


def main() -> None:
    """Put the platform of the selected stack together."""
    root = Path(__file__).resolve().parent.parent
    config = pulumi.Config("trainyard")
    stack = settings.load(config.get("platform"), pulumi.get_stack())
    artifacts = Artifacts(stack.artifacts, root)
    versions.check(stack, artifacts, pulumi.get_stack())
    render_to = config.get("renderTo")
    assembly = Assembly(
        stack=stack,
        artifacts=artifacts,
        runtimes=stack_runtimes.load(root / "runtimes", stack, artifacts.registry, pulumi.log.info),
        options=cluster.options(cluster.provider(stack.cluster, pulumi.get_stack(), render_to)),
        renders=render_to is not None,
    )
    for part in PARTS:
        part.install(assembly)


try:
    main()
except PlatformError as error:
    raise pulumi.RunError(str(error)) from error  # which Pulumi shows as it stands, without a traceback
