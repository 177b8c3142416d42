"""From settings to Kueue's objects: pure, and in the order in which they need each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainyard_api.json_types import Manifest

from ...stack.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Priority,
    Queues,
    Quota,
    ResourceGroup,
    StopPolicy,
    Topology,
)
from . import multikueue_manifests
from .multikueue_manifests import kueue_object


def manifests(queues: Queues) -> list[Manifest]:
    """Every object, those that others name first."""
    return [
        *(topology(name, one) for name, one in queues.topologies.items()),
        *(flavor(name, one) for name, one in queues.flavors.items()),
        *(admission_check(name, one) for name, one in queues.admission_checks.items()),
        *multikueue_manifests.manager(queues.multi_kueue),
        *(priority(name, one) for name, one in queues.priorities.items()),
        *(cohort(name, one) for name, one in queues.cohorts.items()),
        *(cluster_queue(name, one) for name, one in queues.cluster_queues.items()),
        *(local_queue(one) for one in queues.local_queues),
    ]


def topology(name: str, settings: Topology) -> Manifest:
    """A Topology."""
    return kueue_object("Topology", name, levels=[{"nodeLabel": level} for level in settings.levels])


def flavor(name: str, settings: Flavor) -> Manifest:
    """A ResourceFlavor."""
    return kueue_object(
        "ResourceFlavor",
        name,
        **_non_empty(
            nodeLabels=settings.node_labels,
            nodeTaints=[_dump(taint) for taint in settings.node_taints],
            tolerations=[_dump(toleration) for toleration in settings.tolerations],
            topologyName=settings.topology,
        ),
    )


def admission_check(name: str, settings: AdmissionCheck) -> Manifest:
    """An AdmissionCheck."""
    return kueue_object("AdmissionCheck", name, **_dump(settings))


def priority(name: str, settings: Priority) -> Manifest:
    """A WorkloadPriorityClass, which has no spec."""
    head = kueue_object("WorkloadPriorityClass", name)
    del head["spec"]
    return {**head, "value": settings.value, "description": settings.description}


def cohort(name: str, settings: Cohort) -> Manifest:
    """A Cohort."""
    return kueue_object(
        "Cohort",
        name,
        **_non_empty(
            parentName=settings.parent,
            resourceGroups=list(_groups(settings.resource_groups)),
            fairSharing=_weight(settings.fair_weight),
        ),
    )


def cluster_queue(name: str, settings: ClusterQueue) -> Manifest:
    """A ClusterQueue."""
    preemption = settings.preemption
    checks = [
        _non_empty(name=check.name, onFlavors=list(check.on_flavors)) for check in settings.admission_checks
    ]
    return kueue_object(
        "ClusterQueue",
        name,
        **_non_empty(
            cohortName=settings.cohort,
            resourceGroups=list(_groups(settings.resource_groups)),
            admissionChecksStrategy={"admissionChecks": checks} if checks else None,
            fairSharing=_weight(settings.fair_weight),
        ),
        namespaceSelector=settings.namespace_selector.manifest(),
        queueingStrategy=str(settings.queueing_strategy),
        preemption={
            "withinClusterQueue": str(preemption.within_cluster_queue),
            "reclaimWithinCohort": str(preemption.reclaim_within_cohort),
            "borrowWithinCohort": {"policy": str(preemption.borrow_within_cohort)},
        },
        flavorFungibility={
            "whenCanBorrow": str(settings.flavor_fungibility.when_can_borrow),
            "whenCanPreempt": str(settings.flavor_fungibility.when_can_preempt),
        },
        stopPolicy=str(settings.stop_policy),
    )


def local_queue(settings: LocalQueue) -> Manifest:
    """A LocalQueue."""
    manifest = kueue_object(
        "LocalQueue",
        settings.name,
        clusterQueue=settings.cluster_queue,
        stopPolicy=str(settings.stop_policy),
    )
    manifest["metadata"]["namespace"] = settings.namespace
    return manifest


def becomes_active(settings: ClusterQueue) -> bool:
    """Whether a queue becomes Active by itself: not if stopped, and perhaps not before its checks are."""
    return settings.stop_policy is StopPolicy.NONE and not settings.admission_checks


def _groups(groups: Sequence[ResourceGroup]) -> Iterator[Manifest]:
    for group in groups:
        covered = list(group.flavors[0].resources)
        yield {
            "coveredResources": covered,
            "flavors": [
                {
                    "name": quota.name,
                    # In the order of coveredResources, which Kueue insists on.
                    "resources": list(_quotas(covered, quota.resources)),
                }
                for quota in group.flavors
            ],
        }


def _quotas(covered: Iterable[str], quotas: Mapping[str, Quota]) -> Iterator[Manifest]:
    for name in covered:
        quota = quotas[name]
        yield _non_empty(
            name=name,
            nominalQuota=quota.nominal,
            borrowingLimit=quota.borrowing_limit,
            lendingLimit=quota.lending_limit,
        )


def _weight(weight: str | None) -> Manifest | None:
    return {"weight": weight} if weight is not None else None


def _dump(settings: Any) -> Manifest:
    dumped: Manifest = settings.model_dump(by_alias=True, mode="json")
    return _non_empty(**dumped)


def _non_empty(**values: Any) -> Manifest:
    """The values that are not empty."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}
