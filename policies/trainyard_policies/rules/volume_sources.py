"""A namespace's pods mount only volumes that Kubernetes gives to the namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import names

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject

SOURCES: Final = (
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
"""Sources of a volume that are in the namespace, on the pod's own disk, or an image."""
_FIELDS: Final = frozenset({"name", *SOURCES, "hostPath"})  # hostPath is what the rule host-access refuses


def check(workload: Workload, _: Parameters) -> Iterator[Finding]:
    """No volume of a server or a driver that a namespace's runtime or TrainJob names itself."""
    if workload.kind == names.CLUSTER_TRAINING_RUNTIME:
        return  # the platform team decides which storage its runtimes mount
    for job in workload.jobs:
        path = job.pod_path.child("volumes")
        for position, volume in enumerate(job.volumes):
            for source, value in volume.items():
                if value is not None and source not in _FIELDS:
                    at = path.index(position).child(source)
                    yield Finding(at, "must not be mounted by its address or driver: use a claim")


RULE = Rule(
    id="volume-sources",
    title="TrainJobs and namespaced runtimes mount no storage by its address",
    why="The kubelet mounts a volume such as nfs, iscsi or an inline csi from the node's network, which no "
    "NetworkPolicy limits. Whoever knows the address of a storage server reads and changes the data of "
    "other tenants there.",
    remedy="Use a PersistentVolumeClaim. Or ask your platform team for a PersistentVolume, or for a "
    "ClusterTrainingRuntime with this volume.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    check=check,
)
