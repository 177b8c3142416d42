"""Settings of quota: flavors, cohorts, ClusterQueues, LocalQueues and priorities, with Kueue's names.

Every name that is referenced must be declared. So preview reports a typo; otherwise the
queue would never admit a job.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from pydantic import Field, model_validator

from trainyard_api.pools import NodePool, Taint
from trainyard_api.similar import hint
from trainyard_api.strict import Key, LabelValue, Quantity, StrictModel

from .multikueue import MultiKueue
from .tolerations import Toleration
from .value_types import LabelSelector, ObjectName


class QueueingStrategy(StrEnum):
    """The order in which a queue considers its jobs."""

    BEST_EFFORT_FIFO = "BestEffortFIFO"
    STRICT_FIFO = "StrictFIFO"


class StopPolicy(StrEnum):
    """Whether a queue admits jobs. None: it does. Hold: it does not. HoldAndDrain: running jobs stop too."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueuePreemption(StrEnum):
    """Which jobs of the same queue Kueue may preempt for a waiting job."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"


class Reclaim(StrEnum):
    """Which jobs of other queues Kueue may preempt because they borrow the quota of a waiting job's queue."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


class BorrowingPreemption(StrEnum):
    """Whether a job that borrows may preempt jobs of other queues."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class Fungibility(StrEnum):
    """Whether Kueue uses a flavor that needs borrowing or preemption, or tries the next flavor first."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class Flavor(StrictModel):
    """A ResourceFlavor: a kind of node, by labels and taints. Each node pool already has its own flavor."""

    node_labels: dict[Key, LabelValue] = Field(default={})
    """Labels of the nodes. Kueue adds them to the node selector of the pods."""
    node_taints: tuple[Taint, ...] = ()
    """Taints of the nodes. Kueue admits only jobs that tolerate them, with their own tolerations or with the
    `tolerations` of this flavor."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations that Kueue adds to every admitted pod."""
    topology: str | None = None
    """Name of a topology in `topologies`. Kueue uses it to place a job's pods close together."""


class Topology(StrictModel):
    """Levels of nodes that are close to each other, such as a rack."""

    levels: tuple[Key, ...] = Field(min_length=1)
    """Node labels, from the widest level to the narrowest: a block, a rack, kubernetes.io/hostname."""


class Quota(StrictModel):
    """A queue's quota of one resource in one flavor."""

    nominal: Quantity
    """The queue's own quota."""
    borrowing_limit: Quantity | None = None
    """The most that the queue may borrow from its cohort. Default: no limit."""
    lending_limit: Quantity | None = None
    """The most that the queue lends to its cohort. Default: all of its quota."""


class FlavorQuota(StrictModel):
    """A queue's quota in one flavor."""

    name: str
    """Name of a flavor in `flavors`, or of a node pool."""
    resources: dict[str, Quota] = Field(min_length=1)
    """Quota by resource, such as cpu or nvidia.com/gpu."""


class ResourceGroup(StrictModel):
    """Flavors for the same resources. Kueue tries them in this order."""

    flavors: tuple[FlavorQuota, ...] = Field(min_length=1)
    """Flavors with their quota, the preferred flavor first."""

    @model_validator(mode="after")
    def _same_resources(self) -> "ResourceGroup":
        first = self.flavors[0]
        for other in self.flavors[1:]:
            if set(other.resources) != set(first.resources):
                raise ValueError(
                    f"all flavors of a group have quota for the same resources: {first.name} for "
                    f"{_listed(first.resources)}, {other.name} for {_listed(other.resources)}"
                )
        return self


class Preemption(StrictModel):
    """Which jobs Kueue may preempt for a job of this queue."""

    within_cluster_queue: QueuePreemption = QueuePreemption.LOWER_PRIORITY
    """Jobs of the same queue that Kueue may preempt."""
    reclaim_within_cohort: Reclaim = Reclaim.ANY
    """Jobs of other queues that Kueue may preempt because they borrow this queue's quota."""
    borrow_within_cohort: BorrowingPreemption = BorrowingPreemption.NEVER
    """Jobs of other queues that Kueue may preempt for a job that itself needs borrowed quota."""

    @model_validator(mode="after")
    def _borrows_only_with_reclaim(self) -> "Preemption":
        borrows = self.borrow_within_cohort is not BorrowingPreemption.NEVER
        if borrows and self.reclaim_within_cohort is Reclaim.NEVER:
            raise ValueError(
                f"borrowWithinCohort {self.borrow_within_cohort} needs reclaimWithinCohort "
                f"{Reclaim.LOWER_PRIORITY} or {Reclaim.ANY}; it is {self.reclaim_within_cohort}"
            )
        return self


class FlavorChoice(StrictModel):
    """Whether Kueue tries the next flavor before it borrows or preempts."""

    when_can_borrow: Fungibility = Fungibility.MAY_STOP_SEARCH
    """If the job fits into a flavor by borrowing: MayStopSearch uses this flavor. TryNextFlavor first tries
    the next flavor."""
    when_can_preempt: Fungibility = Fungibility.TRY_NEXT_FLAVOR
    """If the job fits into a flavor by preemption: MayStopSearch uses this flavor. TryNextFlavor first tries
    the next flavor."""


class AdmissionCheckUse(StrictModel):
    """An admission check that a job must pass after quota is reserved for it."""

    name: str
    """Name of a check in `admissionChecks` or in `multiKueue.dispatch`."""
    on_flavors: tuple[str, ...] = ()
    """Flavors whose jobs must pass the check. Default: all flavors."""


class ClusterQueue(StrictModel):
    """A ClusterQueue: quota, and the rules by which Kueue admits jobs."""

    cohort: str | None = None
    """Name of a cohort in `cohorts`. The queues of a cohort lend each other unused quota."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    """Quota, by flavor and resource."""
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    """If a job does not fit: StrictFIFO makes the jobs behind it wait. BestEffortFIFO lets them pass."""
    preemption: Preemption = Preemption()
    """Which jobs Kueue may preempt for a waiting job."""
    flavor_fungibility: FlavorChoice = FlavorChoice()
    """When Kueue tries the next flavor."""
    namespace_selector: LabelSelector = LabelSelector()
    """Namespaces whose LocalQueues may use the queue. Default: all namespaces."""
    admission_checks: tuple[AdmissionCheckUse, ...] = ()
    """Admission checks that a job must pass after quota is reserved for it."""
    fair_weight: Quantity | None = None
    """Weight in fair sharing. Default: 1. Needs kueue.fairSharing."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Whether the queue admits jobs. Hold stops admission; HoldAndDrain also stops running jobs."""


class Cohort(StrictModel):
    """A Cohort: queues that lend each other unused quota."""

    parent: str | None = None
    """Name of the parent cohort in `cohorts`."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    """Quota of the cohort itself. It belongs to no queue, and every queue of the cohort may borrow it."""
    fair_weight: Quantity | None = None
    """Weight in fair sharing. Default: 1. Needs kueue.fairSharing."""


class LocalQueue(StrictModel):
    """A LocalQueue, through which a namespace uses a ClusterQueue. Tenants already have one."""

    name: ObjectName = Field(max_length=63)
    """Name, for the label kueue.x-k8s.io/queue-name. In a namespace that Kueue manages, jobs without this
    label use the queue named `default`."""
    namespace: ObjectName = Field(max_length=63)
    """Namespace of the LocalQueue. It must exist, and `kueue.namespaceSelector` must select it: otherwise,
    Kueue never admits a job of this queue."""
    cluster_queue: str
    """Name of a ClusterQueue in `clusterQueues`."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Whether the queue admits jobs. Hold stops admission; HoldAndDrain also stops running jobs."""


class Priority(StrictModel):
    """A WorkloadPriorityClass. It decides which jobs Kueue admits first and which it preempts."""

    value: int = Field(ge=-(2**31), le=2**31 - 1)
    """Priority. Kueue admits jobs with a higher value first. A job without a class has the value 0."""
    description: str = Field(min_length=1)
    """Who should use this class."""


class CheckParameters(StrictModel):
    """The object that configures an admission check."""

    api_group: str
    """API group of the object."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""


class AdmissionCheck(StrictModel):
    """An AdmissionCheck: a further condition that a controller decides, such as provisioned nodes."""

    controller_name: str = Field(min_length=1)
    """Name of the controller, such as kueue.x-k8s.io/provisioning-request."""
    parameters: CheckParameters | None = None
    """The object that configures the check."""


class Queues(StrictModel):
    """Kueue's objects: flavors, topologies, cohorts, queues, priorities and admission checks."""

    flavors: dict[ObjectName, Flavor] = Field(default={})
    """ResourceFlavors, by name, in addition to those of node pools."""
    topologies: dict[ObjectName, Topology] = Field(default={})
    """Topologies, by name, in addition to those of node pools."""
    cohorts: dict[ObjectName, Cohort] = Field(default={})
    """Cohorts, by name: groups of queues that share quota."""
    cluster_queues: dict[ObjectName, ClusterQueue] = Field(default={})
    """ClusterQueues, by name, with their quota."""
    local_queues: tuple[LocalQueue, ...] = ()
    """LocalQueues, in addition to those of tenants."""
    priorities: dict[ObjectName, Priority] = Field(default={})
    """WorkloadPriorityClasses, by name, for the label kueue.x-k8s.io/priority-class."""
    admission_checks: dict[ObjectName, AdmissionCheck] = Field(default={})
    """AdmissionChecks, by name."""
    multi_kueue: MultiKueue = MultiKueue()
    """MultiKueue: this cluster sends jobs to other clusters, or runs the jobs of other clusters."""

    @property
    def is_empty(self) -> bool:
        """Whether the section declares nothing."""
        return self == Queues()

    @property
    def flavors_with_quota(self) -> frozenset[str]:
        """Flavors in which a ClusterQueue or a Cohort has quota, without the quota in `nodePools`."""
        groups = [group for queue in self.cluster_queues.values() for group in queue.resource_groups]
        groups += [group for cohort in self.cohorts.values() for group in cohort.resource_groups]
        return frozenset(flavor.name for group in groups for flavor in group.flavors)

    def sharing(self, cluster_queue: str) -> tuple[list[str], list[str]]:
        """The ClusterQueues that share quota with this queue, itself included, and their cohorts."""
        top = self._top(cluster_queue)
        queues = [name for name in self.cluster_queues if top and self._top(name) == top]
        cohorts = [name for name in self.cohorts if top and self._top_of(name) == top]
        return sorted({cluster_queue, *queues}), sorted(cohorts)

    def behind(self, namespace: str) -> frozenset[str]:
        """The ClusterQueues of a namespace's `localQueues`."""
        return frozenset(local.cluster_queue for local in self.local_queues if local.namespace == namespace)

    def flavors_of(self, cluster_queue: str) -> frozenset[str]:
        """The flavors in which a queue has quota."""
        queue = self.cluster_queues.get(cluster_queue, ClusterQueue())
        return frozenset(flavor.name for group in queue.resource_groups for flavor in group.flavors)

    def _top(self, cluster_queue: str) -> str | None:
        """The topmost cohort above a queue."""
        queue = self.cluster_queues.get(cluster_queue)
        return None if queue is None or queue.cohort is None else self._top_of(queue.cohort)

    def _top_of(self, cohort: str) -> str:
        seen: set[str] = set()
        while cohort not in seen and (above := self.cohorts.get(cohort)) and above.parent:
            seen.add(cohort)
            cohort = above.parent
        return cohort

    def problems(self, pools: Mapping[str, NodePool], *, fair_sharing: bool) -> Iterator[str]:
        """Names that are declared twice, and references to names that do not exist.

        Args:
            pools: The node pools by name, which are flavors too, and topologies if they have one.
            fair_sharing: Whether Kueue uses weights.
        """
        for name in self.flavors:
            if name in pools:
                yield f"flavors.{name}: a node pool has this name, and is already a flavor"
        for name in self.topologies:
            if name in pools and pools[name].topology:
                yield f"topologies.{name}: a node pool has this name, and its own topology: rename this one"
        for place, name, declared, kind in self._references([*self.flavors, *pools]):
            if name not in declared:
                yield f"{place}: there is no {kind} {name!r}{hint(name, declared)}"
        for problem in self.multi_kueue.problems(self.admission_checks):
            yield f"multiKueue.{problem}"
        if not fair_sharing:
            yield from self._useless_weights()

    def _references(self, flavors: Sequence[str]) -> Iterator[tuple[str, str, Collection[str], str]]:
        """For each reference: its place, the name, what is declared, and the kind."""
        for name, flavor in self.flavors.items():
            if flavor.topology:
                yield f"flavors.{name}.topology", flavor.topology, self.topologies, "topology"
        for name, cohort in self.cohorts.items():
            if cohort.parent:
                yield f"cohorts.{name}.parent", cohort.parent, self.cohorts, "cohort"
            for place, quota in flavor_quotas(f"cohorts.{name}", cohort.resource_groups):
                yield f"{place}.name", quota.name, flavors, "flavor"
        checks = [*self.admission_checks, *self.multi_kueue.dispatch]
        for name, queue in self.cluster_queues.items():
            at = f"clusterQueues.{name}"
            if queue.cohort:
                yield f"{at}.cohort", queue.cohort, self.cohorts, "cohort"
            for place, quota in flavor_quotas(at, queue.resource_groups):
                yield f"{place}.name", quota.name, flavors, "flavor"
            for position, check in enumerate(queue.admission_checks):
                check_path = f"{at}.admissionChecks[{position}]"
                yield f"{check_path}.name", check.name, checks, "admission check"
                for flavor_name in check.on_flavors:
                    yield f"{check_path}.onFlavors", flavor_name, flavors, "flavor"
        for position, local in enumerate(self.local_queues):
            place = f"localQueues[{position}].clusterQueue"
            yield place, local.cluster_queue, self.cluster_queues, "cluster queue"

    def _useless_weights(self) -> Iterator[str]:
        weights = {f"cohorts.{name}": cohort.fair_weight for name, cohort in self.cohorts.items()}
        weights |= {f"clusterQueues.{name}": queue.fair_weight for name, queue in self.cluster_queues.items()}
        for place, weight in weights.items():
            if weight is not None:
                yield f"{place}.fairWeight: has no effect unless kueue.fairSharing is true"


def flavor_quotas(at: str, groups: Sequence[ResourceGroup]) -> Iterator[tuple[str, FlavorQuota]]:
    """The quota in each flavor of the groups, with its path; `at` is that of what has the groups."""
    for number, group in enumerate(groups):
        for position, quota in enumerate(group.flavors):
            yield f"{at}.resourceGroups[{number}].flavors[{position}]", quota


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
