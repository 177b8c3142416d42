"""What a cache's initializer may do: pure."""

from collections.abc import Iterator
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...objects.admission_policies import bound, policy
from ...stack.data_cache import ACCOUNT, GROUP

SETS_NAME: Final = f"caches-need-no-devices.{names.POLICY_DOMAIN}"
SERVICES_NAME: Final = f"caches-stay-in-the-cluster.{names.POLICY_DOMAIN}"
_WRITES: Final = ("CREATE", "UPDATE")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
"""What the pods of a cache may request: they run outside of the queues."""
_BY_ITS_ACCOUNT: Final = [
    {
        "name": "by-a-cache-initializer",
        "expression": "request.userInfo.username.startsWith('system:serviceaccount:') "
        f"&& request.userInfo.username.endsWith(':{ACCOUNT}')",
    }
]


def policies() -> Iterator[Manifest]:
    """What a tenant cannot do with the rights of the initializer, whose token its people can get."""
    yield from bound(
        SETS_NAME,
        policy(
            ["leaderworkersets"],
            _WRITES,
            " && ".join(
                _has_no_devices(f"object.spec.leaderWorkerTemplate.?{template}.?spec")
                for template in ("leaderTemplate", "workerTemplate")
            ),
            "spec.leaderWorkerTemplate: pods of a data cache may request only "
            f"{', '.join(_RESOURCES)}, since they run without the quota of a queue. Remove the "
            "other resources and resourceClaims, or use them in a TrainJob.",
            group=(GROUP, "v1"),
            matchConditions=_BY_ITS_ACCOUNT,
        ),
    )
    yield from bound(
        SERVICES_NAME,
        policy(
            ["services"],
            _WRITES,
            "object.spec.?type.orValue('ClusterIP') == 'ClusterIP' "
            "&& object.spec.?externalIPs.orValue([]).size() == 0",
            "spec: the Service of a data cache must be of type ClusterIP, without externalIPs: only pods of "
            "the cluster use it.",
            group=("", "v1"),
            matchConditions=_BY_ITS_ACCOUNT,
        ),
    )


def _has_no_devices(pod: str) -> str:
    """CEL: whether neither the pod nor a container of it requests anything else."""
    allowed = f"[{', '.join(repr(resource) for resource in _RESOURCES)}]"

    def only(owner: str) -> str:
        return " && ".join(
            f"{owner}.?resources.?{amounts}.orValue({{}}).all(name, name in {allowed})"
            for amounts in ("limits", "requests")
        )

    containers = [
        f"{pod}.?{kind}.orValue([]).all(container, {only('container')})"
        for kind in ("containers", "initContainers")
    ]
    return " && ".join([f"{pod}.?resourceClaims.orValue([]).size() == 0", only(pod), *containers])


def role() -> Manifest:
    """What the initializer may do, and no more, once for all namespaces.

    It creates a ServiceAccount, a LeaderWorkerSet and a Service that its
    TrainJob owns, or finds those of an earlier pod of the same job, waits for
    the cache, reads in its pods why it does not come, and deletes the
    LeaderWorkerSet (upstream's: the ServiceAccount) of a cache that never will.
    """
    rules = [
        rights.rule(GROUP, ["leaderworkersets"], ["create", "delete", "get"]),
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
