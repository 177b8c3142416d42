"""The platform of one stack: its parts, in the order in which they need each other.

Called by the program that `Pulumi.yaml` of a clone or of another site names.
"""

import pulumi

from trainyard_api import places
from trainyard_api.errors import UserError

from . import cluster, versions
from .artifacts import Artifacts
from .assembly import Assembly
from .catalog import stack_runtimes
from .parts.accelerators import component as accelerators
from .parts.admission import component as admission
from .parts.catalog import component as catalog
from .parts.coscheduling import component as coscheduling
from .parts.crds import component as crds
from .parts.data_cache import component as data_cache
from .parts.external_secrets import component as external_secrets
from .parts.jobset import component as jobset
from .parts.kubeflow import component as kubeflow
from .parts.kueue import component as kueue
from .parts.network_policies import component as network_policies
from .parts.node_pools import component as node_pools
from .parts.observability import component as observability
from .parts.operator import component as operator
from .parts.policies import component as policies
from .parts.queues import component as queues
from .parts.storage import component as storage
from .parts.system import component as system
from .parts.tenants import component as tenants
from .parts.volcano import component as volcano
from .stack import settings

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


def run() -> None:
    """Register the platform of the selected stack with Pulumi.

    Raises:
        pulumi.RunError: Something that its user can mend, which Pulumi shows without a traceback.
    """
    try:
        _install()
    except UserError as error:
        raise pulumi.RunError(str(error)) from error


def _install() -> None:
    site = places.site()
    config = pulumi.Config("trainyard")
    stack = settings.load(config.get("platform"), pulumi.get_stack())
    artifacts = Artifacts(stack.artifacts, site.root)
    versions.check(stack, artifacts, pulumi.get_stack())
    render_to = config.get("renderTo")
    runtimes = stack_runtimes.load(
        site.runtimes, stack, artifacts.registry, pulumi.log.info, beneath=site.beneath
    )
    assembly = Assembly(
        stack=stack,
        artifacts=artifacts,
        runtimes=runtimes,
        options=cluster.options(cluster.provider(stack.cluster, pulumi.get_stack(), render_to)),
        renders=render_to is not None,
    )
    for part in PARTS:
        part.install(assembly)
    cluster.export_identity()
