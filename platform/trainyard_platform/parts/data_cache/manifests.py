"""What a cache's initializer may do: pure."""

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...stack.data_cache import ACCOUNT


def role() -> Manifest:
    """What the initializer may do, and no more, once for all namespaces.

    It creates a ServiceAccount, a LeaderWorkerSet and a Service that its
    TrainJob owns, or finds those of an earlier pod of the same job, waits for
    the cache, reads in its pods why it does not come, and deletes the
    LeaderWorkerSet (upstream's: the ServiceAccount) of a cache that never will.
    """
    rules = [
        rights.rule("leaderworkerset.x-k8s.io", ["leaderworkersets"], ["create", "delete", "get"]),
        rights.rule("", ["services"], ["create", "get"]),
        rights.rule("", ["serviceaccounts"], ["create", "delete", "get"]),
        rights.rule("", ["pods"], ["list"]),
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
