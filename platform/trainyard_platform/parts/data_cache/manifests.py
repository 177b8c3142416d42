"""What a cache's initializer may do, and which runtimes start one: pure."""

from collections.abc import Iterable

from trainyard_api import names

from ...catalog.files import Runtime
from ...objects import rights
from ...objects.manifest import Manifest
from .settings import ACCOUNT

CACHE_IMAGE = "CACHE_IMAGE"
"""Variable with the cache's image for such an initializer."""


def starts_cache(runtime: Runtime) -> bool:
    """Whether the runtime's initializer starts a cache in the cluster."""
    return any(
        entry.get("name") == CACHE_IMAGE
        for job in runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"]
        for container in job["template"]["spec"]["template"]["spec"]["containers"]
        for entry in container.get("env") or []
    )


def without_cache(runtimes: Iterable[Runtime]) -> tuple[list[Runtime], list[str]]:
    """The runtimes that a cluster without a data cache can have, and the names of the others."""
    runtimes = list(runtimes)
    kept = [runtime for runtime in runtimes if not starts_cache(runtime)]
    return kept, [runtime.name for runtime in runtimes if starts_cache(runtime)]


def role() -> Manifest:
    """What the initializer may do, and no more, once for all namespaces.

    It creates a ServiceAccount, a LeaderWorkerSet and a Service that its
    TrainJob owns, waits for the cache, and deletes the ServiceAccount if that
    fails.
    """
    rules = [
        rights.rule("leaderworkerset.x-k8s.io", ["leaderworkersets"], ["create", "get"]),
        rights.rule("", ["services"], ["create"]),
        rights.rule("", ["serviceaccounts"], ["create", "delete"]),
        rights.rule(names.TRAINER_GROUP, [names.TRAINJOBS], ["get"]),
        # For owner references, where OwnerReferencesPermissionEnforcement is on, as in OpenShift.
        rights.rule(names.TRAINER_GROUP, [f"{names.TRAINJOBS}/finalizers"], ["update"]),
    ]
    return rights.role({"name": ACCOUNT}, rules)


def account(namespace: str) -> list[Manifest]:
    """The initializer's ServiceAccount in a namespace, with permissions only there."""
    metadata = {"name": ACCOUNT, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        rights.binding(metadata, ACCOUNT, [rights.account(ACCOUNT, namespace)], kind="ClusterRole"),
    ]
