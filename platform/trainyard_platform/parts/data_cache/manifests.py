"""What a cache's initializer may do: pure."""

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...stack.data_cache import ACCOUNT


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
