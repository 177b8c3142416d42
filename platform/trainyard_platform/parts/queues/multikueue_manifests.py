"""From MultiKueue's settings to Kueue's objects and a worker's permissions: pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...stack.kueue import Integration
from ...stack.multikueue import MultiKueue

ACCOUNT = "trainyard-multikueue"
"""The ServiceAccount of a manager in a worker."""

_RESOURCES = {
    Integration.TRAINJOB: (names.TRAINER_GROUP, names.TRAINJOBS),
    Integration.JOBSET: (names.JOBSET_GROUP, names.JOBSETS),
    Integration.JOB: ("batch", "jobs"),
    Integration.POD: ("", "pods"),
}
_SENT = ("create", "delete", "get", "list", "watch")
_CHANGED: Mapping[Integration, Sequence[str]] = {Integration.JOB: ("patch",)}
"""What a manager also does to jobs that it has sent: an elastic Job gets its new parallelism."""


def manager(settings: MultiKueue) -> list[Manifest]:
    """The objects by which a manager sends jobs, those that others name first."""
    clusters = [
        kueue_object(
            "MultiKueueCluster",
            name,
            clusterSource={"kubeConfig": {"location": cluster.kubeconfig_secret, "locationType": "Secret"}},
        )
        for name, cluster in settings.workers.items()
    ]
    configs = [
        kueue_object("MultiKueueConfig", name, clusters=list(dispatch.workers))
        for name, dispatch in settings.dispatch.items()
    ]
    checks = [
        kueue_object(
            "AdmissionCheck",
            name,
            controllerName=names.MANAGED_BY_MULTIKUEUE,
            parameters={"apiGroup": names.KUEUE_GROUP, "kind": "MultiKueueConfig", "name": name},
        )
        for name in settings.dispatch
    ]
    return [*clusters, *configs, *checks]


def worker(namespace: str, integrations: Iterable[Integration]) -> list[Manifest]:
    """The account that a manager uses, and what it may do: send jobs, and follow them.

    Args:
        namespace: Kueue's.
        integrations: Kinds of jobs that are queued; a manager watches all of them.
    """
    jobs = [(*_RESOURCES[kind], (*_SENT, *_CHANGED.get(kind, ()))) for kind in integrations]
    account = {"name": ACCOUNT, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        rights.role(
            {"name": ACCOUNT},
            [
                # Kueue does not send a job anew whose priority has changed: it changes the Workload.
                rights.rule(names.KUEUE_GROUP, ["workloads"], (*_SENT, "patch", "update")),
                rights.rule(names.KUEUE_GROUP, ["workloads/status"], ["get", "patch", "update"]),
                *(rights.rule(group, [resource], verbs) for group, resource, verbs in jobs),
                *(rights.rule(group, [f"{resource}/status"], ["get"]) for group, resource, _ in jobs),
            ],
        ),
        rights.binding({"name": ACCOUNT}, ACCOUNT, [rights.account(**account)]),
    ]


def kueue_object(kind: str, name: str, **spec: Any) -> Manifest:
    """An object of Kueue's API."""
    return {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
