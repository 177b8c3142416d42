"""Settings of quota: flavors, cohorts, ClusterQueues, LocalQueues and priorities, in Kueue's words.

Whatever is named must be declared, so that a typo is a sentence in preview and
not a queue that never admits.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum

from pydantic import Field, model_validator

from trainyard_api.pools import Taint, TaintEffect
from trainyard_api.similar import hint
from trainyard_api.strict import Quantity, StrictModel

from .multikueue import MultiKueue
from .value_types import LabelSelector


class TolerationOperator(StrEnum):
    """How a toleration matches a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class QueueingStrategy(StrEnum):
    """The order in which a queue looks at its jobs."""

    BEST_EFFORT_FIFO = "BestEffortFIFO"
    STRICT_FIFO = "StrictFIFO"


class StopPolicy(StrEnum):
    """Whether a queue admits jobs: it does, it keeps what runs, or it stops all."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class PreemptionPolicy(StrEnum):
    """Whose jobs may be stopped for one that waits."""

    NEVER = "Never"
    ANY = "Any"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"


class BorrowingPreemption(StrEnum):
    """Whether a job may stop those of other queues in order to borrow."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class Fungibility(StrEnum):
    """What to do when a flavor would do at a price."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class Toleration(StrictModel):
    """A toleration that pods get."""

    key: str = Field(min_length=1)
    """The taint's key."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Whether the taint's value matters."""
    value: str = ""
    """The taint's value."""
    effect: TaintEffect | None = None
    """The taint's effect; every effect if left out."""


class Flavor(StrictModel):
    """A ResourceFlavor: a kind of node, by labels and taints. Those of node pools are made from the pools."""

    node_labels: dict[str, str] = Field(default={})
    """Labels of the nodes; pods get them as node selector."""
    node_taints: tuple[Taint, ...] = ()
    """Taints of the nodes; a job that does not tolerate them is not admitted, unless `tolerations` do."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations that every admitted pod gets."""
    topology: str | None = None
    """A topology of `topologies`, for placing a job's pods close together."""


class Topology(StrictModel):
    """The levels in which nodes lie near each other."""

    levels: tuple[str, ...] = Field(min_length=1)
    """Node labels, the widest first: a block, a rack, kubernetes.io/hostname."""


class Quota(StrictModel):
    """How much of a resource a queue has of a flavor."""

    nominal: Quantity
    """Its own share."""
    borrowing_limit: Quantity | None = None
    """The most that it may borrow from its cohort; no limit if left out."""
    lending_limit: Quantity | None = None
    """The most that it lends to its cohort; all of it if left out."""


class FlavorQuota(StrictModel):
    """The quotas of a flavor."""

    name: str
    """The flavor: of `flavors`, or a node pool."""
    resources: dict[str, Quota] = Field(min_length=1)
    """Quota by resource, such as cpu or nvidia.com/gpu."""


class ResourceGroup(StrictModel):
    """Flavors that are tried in their order, all for the same resources."""

    flavors: tuple[FlavorQuota, ...] = Field(min_length=1)
    """The flavors, the first choice first."""

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
    """Which jobs may be stopped for one of this queue."""

    within_cluster_queue: PreemptionPolicy = PreemptionPolicy.LOWER_PRIORITY
    """Those of this queue."""
    reclaim_within_cohort: PreemptionPolicy = PreemptionPolicy.ANY
    """Those that have borrowed this queue's share."""
    borrow_within_cohort: BorrowingPreemption = BorrowingPreemption.NEVER
    """Those of other queues, for a job that itself would borrow."""


class FlavorChoice(StrictModel):
    """What to do when the next flavor might do without borrowing or preemption."""

    when_can_borrow: Fungibility = Fungibility.MAY_STOP_SEARCH
    """When the flavor would do with borrowing."""
    when_can_preempt: Fungibility = Fungibility.TRY_NEXT_FLAVOR
    """When it would do with preemption."""


class AdmissionCheckUse(StrictModel):
    """A check that a job has to pass after it has its quota."""

    name: str
    """A check of `admissionChecks`, or of `multiKueue.dispatch`."""
    on_flavors: tuple[str, ...] = ()
    """Only for jobs admitted on these flavors; for all if left out."""


class ClusterQueue(StrictModel):
    """Quota, and the rules by which jobs get it."""

    cohort: str | None = None
    """The cohort, of `cohorts`, with whose queues it borrows and lends."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    """Its quota."""
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    """Whether a job that does not fit holds up those behind it."""
    preemption: Preemption = Preemption()
    """Which jobs may be stopped for one that waits."""
    flavor_fungibility: FlavorChoice = FlavorChoice()
    """When the next flavor is tried."""
    namespace_selector: LabelSelector = LabelSelector()
    """Namespaces whose LocalQueues may use it; all that have one if left out."""
    admission_checks: tuple[AdmissionCheckUse, ...] = ()
    """What a job has to pass after it has its quota."""
    fair_weight: Quantity | None = None
    """Weight in fair sharing, 1 if left out; needs kueue.fairSharing."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Whether it admits jobs."""


class Cohort(StrictModel):
    """Queues that lend each other what they do not use."""

    parent: str | None = None
    """A cohort above this one."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    """Quota that belongs to nobody and that all of them may borrow."""
    fair_weight: Quantity | None = None
    """Weight in fair sharing, 1 if left out; needs kueue.fairSharing."""


class LocalQueue(StrictModel):
    """A namespace's door to a ClusterQueue. Tenants get theirs by themselves."""

    name: str = Field(min_length=1)
    """Its name, for the label kueue.x-k8s.io/queue-name; `default` serves jobs without the label."""
    namespace: str = Field(min_length=1)
    """Its namespace, which is there already."""
    cluster_queue: str
    """A queue of `clusterQueues`."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Whether it admits jobs."""


class Priority(StrictModel):
    """A WorkloadPriorityClass: the order in which jobs are admitted, and who is preempted."""

    value: int = Field(ge=-(2**31), le=2**31 - 1)
    """The higher, the sooner; 0 is that of a job without a class."""
    description: str = Field(min_length=1)
    """For whom it is."""


class CheckParameters(StrictModel):
    """The object that configures an admission check."""

    api_group: str
    """Its API group."""
    kind: str
    """Its kind."""
    name: str
    """Its name."""


class AdmissionCheck(StrictModel):
    """A check by a controller of its own, such as one that provisions nodes."""

    controller_name: str = Field(min_length=1)
    """Who answers it, such as kueue.x-k8s.io/provisioning-request."""
    parameters: CheckParameters | None = None
    """Its configuration."""


class Queues(StrictModel):
    """Everything that Kueue admits by."""

    flavors: dict[str, Flavor] = Field(default={})
    """Kinds of nodes, by name, beside those of node pools."""
    topologies: dict[str, Topology] = Field(default={})
    """Levels of nearness, by name, beside those of node pools."""
    cohorts: dict[str, Cohort] = Field(default={})
    """Who shares with whom, by name."""
    cluster_queues: dict[str, ClusterQueue] = Field(default={})
    """Quota, by name."""
    local_queues: tuple[LocalQueue, ...] = ()
    """Doors to the quota, beside those of tenants."""
    priorities: dict[str, Priority] = Field(default={})
    """Priorities, by name, for the label kueue.x-k8s.io/priority-class."""
    admission_checks: dict[str, AdmissionCheck] = Field(default={})
    """Further conditions of admission, by name."""
    multi_kueue: MultiKueue = MultiKueue()
    """Jobs that run in other clusters, or that others send here."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared."""
        return self == Queues()

    @property
    def flavors_with_quota(self) -> frozenset[str]:
        """The flavors that a cluster queue or a cohort names, beside the node pools' own quota."""
        groups = [group for queue in self.cluster_queues.values() for group in queue.resource_groups]
        groups += [group for cohort in self.cohorts.values() for group in cohort.resource_groups]
        return frozenset(flavor.name for group in groups for flavor in group.flavors)

    def sharing(self, cluster_queue: str) -> tuple[list[str], list[str]]:
        """The ClusterQueues that share their quota with this one, itself included, and their cohorts."""
        top = self._top(cluster_queue)
        queues = [name for name in self.cluster_queues if top and self._top(name) == top]
        cohorts = [name for name in self.cohorts if top and self._top_of(name) == top]
        return sorted({cluster_queue, *queues}), sorted(cohorts)

    def behind(self, namespace: str) -> frozenset[str]:
        """The ClusterQueues of a namespace's `localQueues`."""
        return frozenset(local.cluster_queue for local in self.local_queues if local.namespace == namespace)

    def flavors_of(self, cluster_queue: str) -> frozenset[str]:
        """The flavors of which a queue has quota."""
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

    def problems(self, pools: Collection[str], *, fair_sharing: bool) -> Iterator[str]:
        """References to something that does not exist.

        Args:
            pools: Names of the node pools, which are flavors too.
            fair_sharing: Whether Kueue uses weights.
        """
        for name in self.flavors:
            if name in pools:
                yield f"flavors.{name}: a node pool has this name, and is already a flavor"
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
            for place, flavor_name in _flavors(f"cohorts.{name}", cohort.resource_groups):
                yield place, flavor_name, flavors, "flavor"
        checks = [*self.admission_checks, *self.multi_kueue.dispatch]
        for name, queue in self.cluster_queues.items():
            at = f"clusterQueues.{name}"
            if queue.cohort:
                yield f"{at}.cohort", queue.cohort, self.cohorts, "cohort"
            for place, flavor_name in _flavors(at, queue.resource_groups):
                yield place, flavor_name, flavors, "flavor"
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


def _flavors(place: str, groups: Sequence[ResourceGroup]) -> Iterator[tuple[str, str]]:
    for number, group in enumerate(groups):
        for position, flavor in enumerate(group.flavors):
            yield f"{place}.resourceGroups[{number}].flavors[{position}].name", flavor.name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
