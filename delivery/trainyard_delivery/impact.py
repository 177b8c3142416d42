"""Effects of changes of stacks and runtimes on existing TrainJobs: pure.

Called by `trainyard impact` with what a stack asked for before and asks for
now, and with the state of the cluster. Says for each TrainJob that a change
affects what it keeps and what it loses, as the operator and Kueue treat it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from trainyard_api import capacity, names, quantity
from trainyard_api.json_types import Json, Manifest
from trainyard_api.pools import EFA, NVIDIA_GPU, NVIDIA_PARTITION, Provider
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.parts.node_pools import manifests as pool_manifests
from trainyard_platform.parts.operator import manifests as operator_manifests
from trainyard_platform.parts.queues import manifests as queue_manifests
from trainyard_platform.parts.tenants import manifests as tenant_manifests
from trainyard_platform.stack.kueue import KueueController
from trainyard_platform.stack.settings import StackSettings
from trainyard_platform.stack.tenants import Tenant

NODE_POOL: Final = "NodePool"
GANG_SCHEDULER: Final = "GangScheduler"
SCHEDULERS: Final = {"volcano": "volcano", "coscheduling": names.COSCHEDULING_SCHEDULER}
"""Parts of a stack that schedule gangs, and what pods name each as their schedulerName."""
NAMESPACE: Final = "Namespace"
ROLE_BINDING: Final = "RoleBinding"
_OF_KUEUE: Final = frozenset(
    {
        *("AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "MultiKueueConfig"),
        *("ResourceFlavor", "Topology", "WorkloadPriorityClass"),
    }
)
"""Kinds of a stack's queues."""


class Ref(NamedTuple):
    """An object that a stack asks for; the namespace is empty for a cluster-scoped one."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_QUEUES: Final = Ref("Kueue", "", "queues")
"""Kueue itself."""


class Verb(StrEnum):
    """The change of an object."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    LEFT = "left in the cluster"
    """The stack no longer has it, and nobody deletes it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that differs; None stands for its absence."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Change:
    """An object that a stack asks for differently than before."""

    ref: Ref
    verb: Verb
    before: Json
    after: Json
    fields: tuple[Field, ...] = ()


class State(StrEnum):
    """How far an unfinished TrainJob is."""

    RUNNING = "running"
    QUEUED = "queued"
    """It waits: for quota, or for its first JobSet."""
    SUSPENDED = "suspended"
    """Somebody has suspended it, and it waits until somebody resumes it."""


@dataclass(frozen=True, slots=True)
class Job:
    """An unfinished TrainJob, and what it depends on."""

    namespace: str
    name: str
    state: State
    runtime: Ref
    started: bool
    """Whether it has a JobSet, whose runtime is kept for it."""
    local_queue: str = ""
    cluster_queue: str = ""
    flavors: frozenset[str] = frozenset()
    """Flavors that its pods were admitted to."""
    pools: frozenset[str] = frozenset()
    """Pools on whose nodes it has pods."""
    priority_class: str = ""
    revision: str = ""
    """Revision of its runtime; empty if not decided yet."""
    requests: Mapping[str, str] = field(default_factory=dict)
    """Its request to the queue while it waits, by resource; empty once it has quota."""
    held_by_kueue: bool = False
    """Whether a queue holds the TrainJob itself, and not its JobSet."""
    schedulers: frozenset[str] = frozenset()
    """schedulerName of its JobSet's pods."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The effect of a change on a TrainJob."""

    job: Job
    keeps: str
    loses: str = ""


def objects(stack: StackSettings, runtimes: Sequence[Runtime]) -> dict[Ref, Json]:
    """A stack's objects of the kinds that TrainJobs depend on."""
    objects: dict[Ref, Json] = {
        Ref(names.CLUSTER_TRAINING_RUNTIME, "", runtime.name): {
            "metadata": runtime.manifest["metadata"],
            "spec": runtime.manifest["spec"],
        }
        for runtime in runtimes
    }
    if stack.kueue.enabled:
        held = names.JOBSET if stack.queues_hold_jobsets else names.TRAINJOB
        objects[_QUEUES] = {"hold": held, "controller": str(stack.kueue.controller)}
    for name, pool in stack.node_pools.items():
        objects[Ref(NODE_POOL, "", name)] = pool.model_dump(by_alias=True, mode="json")
    queues = queue_manifests.manifests(pool_manifests.with_pools(stack.queues, stack.node_pools))
    for part in SCHEDULERS:
        if getattr(stack, part).enabled:
            objects[Ref(GANG_SCHEDULER, "", part)] = {"enabled": True}
    for name, tenant in stack.tenants.items():
        namespace = tenant_manifests.namespace(name, tenant)
        objects[Ref(NAMESPACE, "", name)] = {"metadata": {"labels": namespace["metadata"]["labels"]}}
    inside = [
        manifest for name, tenant in stack.tenants.items() for manifest in _tenant_manifests(name, tenant)
    ]
    for manifest in [*queues, *inside, *_of_mpi(stack)]:
        metadata = manifest["metadata"]
        content = {
            key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")
        }
        objects[Ref(manifest["kind"], metadata.get("namespace", ""), metadata["name"])] = content
    return objects


def _tenant_manifests(name: str, tenant: Tenant) -> Iterator[Manifest]:
    """A tenant's queue, and who may do what in its namespace."""
    for manifest in (*tenant_manifests.contents(name, tenant), *tenant_manifests.bindings(name, tenant)):
        if manifest["kind"] in ("LocalQueue", ROLE_BINDING):
            yield manifest


def _of_mpi(stack: StackSettings) -> Iterator[Manifest]:
    """The binding that lets the operator keep the keys of MPI jobs in a namespace, or in `EVERYWHERE`."""
    for namespace in sorted({*stack.operator.mpi_namespaces, *stack.tenants}):
        _, binding = operator_manifests.mpi(namespace)
        yield binding


def changes(before: Mapping[Ref, Json], after: Mapping[Ref, Json]) -> tuple[Change, ...]:
    """The differences, in the order of kinds and names."""
    changes = []
    for ref in sorted({*before, *after}):
        old, new = before.get(ref), after.get(ref)
        if old is None and new is not None:
            changes.append(Change(ref, Verb.ADDED, {}, new))
        elif new is None and old is not None:
            changes.append(Change(ref, Verb.LEFT if _is_left(ref, before, after) else Verb.REMOVED, old, {}))
        elif old is not None and new is not None and (fields := differences(old, new)):
            changes.append(Change(ref, Verb.CHANGED, old, new, fields))
    return tuple(changes)


def differences(before: Json, after: Json) -> tuple[Field, ...]:
    """The fields in which two objects differ, in the order of their paths."""
    return tuple(_differences("", before, after))


def _is_left(ref: Ref, before: Mapping[Ref, Json], after: Mapping[Ref, Json]) -> bool:
    """A namespace holds jobs: it stays, with everything in it but people's rights (`parts.tenants`).

    So do queues when the platform's Kueue is removed (`parts.queues`).
    """
    if ref.kind == ROLE_BINDING:
        return False
    installed_kueue = before.get(_QUEUES, {}).get("controller") == KueueController.INSTALL
    if ref.kind in _OF_KUEUE and installed_kueue and _QUEUES not in after:
        return True
    namespace = ref if ref.kind == NAMESPACE else Ref(NAMESPACE, "", ref.namespace)
    return namespace in before and namespace not in after


def touched(change: Change, jobs: Sequence[Job], after: Mapping[Ref, Json]) -> tuple[Touched, ...]:
    """The TrainJobs that a change affects; an addition affects none.

    Args:
        change: The change.
        jobs: All TrainJobs that have not ended.
        after: What the stack asks for after all changes, at least its ClusterQueues and Cohorts.
    """
    if change.verb is Verb.ADDED:
        return ()
    queues = _capacity(after)
    return tuple(effect for job in jobs if (effect := _touched(change, job, queues)) is not None)


def _capacity(objects: Mapping[Ref, Json]) -> capacity.Queues:
    cluster_queues, cohorts = (
        [
            capacity.pool({**manifest, "metadata": {"name": ref.name}})
            for ref, manifest in objects.items()
            if ref.kind == kind
        ]
        for kind in ("ClusterQueue", "Cohort")
    )
    return capacity.Queues({}, cluster_queues, cohorts)


def _touched(change: Change, job: Job, queues: capacity.Queues) -> Touched | None:
    kind, _, name = change.ref
    match kind:
        case names.CLUSTER_TRAINING_RUNTIME if job.runtime == change.ref:
            return _by_runtime(change, job)
        case "ClusterQueue" if job.cluster_queue == name:
            return _by_queue(change, job, queues)
        case "ClusterQueue" | "Cohort":
            shortage = _never_given(queues.cluster.get(job.cluster_queue), queues, job.requests)
            return Touched(job, _waiting(job, _IN_QUEUE), f"its start: {shortage}") if shortage else None
        case "LocalQueue" if (job.namespace, job.local_queue) == change.ref[1:]:
            return _by_local_queue(change, job)
        case "Kueue" if job.local_queue and change.before.get("hold") != change.after.get("hold"):
            return Touched(job, "all that it has: make up refuses this until it has ended, or is deleted")
        case "GangScheduler" if SCHEDULERS[name] in job.schedulers:
            return _by_scheduler(job)
        case "ResourceFlavor" if name in job.flavors:
            return Touched(job, "its nodes and its quota, until it is evicted or ends")
        case "NodePool" if name in job.pools | job.flavors:
            return _by_pool(change, job)
        case "WorkloadPriorityClass" if job.priority_class == name:
            return _by_priority(change, job)
    return None


_CANNOT_COUNT: Final = "Kueue needs the runtime to count its pods"
_KEEPS_QUOTA: Final = (
    f"the return of its quota: {_CANNOT_COUNT}, and gives its quota to others only once the "
    "TrainJob is deleted, or the runtime is back"
)


def _by_runtime(change: Change, job: Job) -> Touched:
    is_removed = change.verb is Verb.REMOVED
    if job.held_by_kueue and job.state is State.RUNNING:  # Kueue counts by the runtime as it is now (ADR 30).
        if is_removed:
            return Touched(job, "its pods, until it ends or is evicted", _KEEPS_QUOTA)
        restarts = "its pods: Kueue stops them at its next event, and restarts it with the changed runtime"
        return Touched(job, "its TrainJob", restarts)
    if job.held_by_kueue and job.started and is_removed:
        return Touched(job, _waiting(job, "its place"), f"its start: {_CANNOT_COUNT}")
    if job.started and not job.held_by_kueue:
        loss = "its runtime for a later run: it cannot be created again" if is_removed else ""
        return Touched(job, "the runtime that it started with, whatever becomes of its pods", loss)
    if is_removed:
        return Touched(job, _waiting(job, "its place"), "its runtime: it will be Blocked (RuntimeNotFound)")
    return Touched(
        job, _waiting(job, "its place"), "the runtime as it was: its pods will be built from the changed one"
    )


_IN_QUEUE: Final = "its place in the queue"


def _waiting(job: Job, place: str) -> str:
    """What a waiting job keeps: its place, unless it is suspended and has none."""
    return place if job.state is State.QUEUED else "its TrainJob"


def _by_queue(change: Change, job: Job, queues: capacity.Queues) -> Touched:
    if change.verb is Verb.REMOVED:
        if job.state is State.RUNNING:
            return Touched(job, "its pods and its quota: Kueue holds the queue until it ends")
        return Touched(job, "nothing", "its queue: it is no longer admitted")
    if change.verb is Verb.LEFT:
        if job.state is State.RUNNING:
            return Touched(job, "its pods", "its quota: without Kueue, nobody counts it")
        start = "it never starts" if job.held_by_kueue else "it starts without quota"
        return Touched(job, "its TrainJob", f"its queue: without Kueue, {start}")
    if (stopped := _by_stop_policy(change, job)) is not None:
        return stopped
    removed_flavors = _flavors(change.before) - _flavors(change.after)
    if job.state is State.RUNNING:
        if lost_flavors := sorted(removed_flavors & job.flavors):
            way_back = f"the way back: once evicted it is not admitted to {', '.join(lost_flavors)} again"
            return Touched(job, "its pods and its quota until it is evicted or ends", way_back)
        return Touched(job, "its pods and its quota; more than the queue's own share may be taken back")
    if shortage := _never_given(queues.cluster.get(change.ref.name), queues, job.requests):
        return Touched(job, _waiting(job, _IN_QUEUE), f"its start: {shortage}")
    loss = f"flavor {', '.join(sorted(removed_flavors))}" if removed_flavors else ""
    return Touched(job, _waiting(job, _IN_QUEUE), loss)


def _by_stop_policy(change: Change, job: Job) -> Touched | None:
    """The effect of a queue that is stopped; None if that does not change."""
    policy = change.after.get("spec", {}).get("stopPolicy")
    if policy == change.before.get("spec", {}).get("stopPolicy"):
        return None
    if policy == "HoldAndDrain" and job.state is State.RUNNING:
        return Touched(job, "its place in the queue", "its pods: Kueue suspends it")
    if policy in ("Hold", "HoldAndDrain"):
        return Touched(job, "its pods" if job.state is State.RUNNING else _waiting(job, _IN_QUEUE))
    return None


def _never_given(queue: capacity.Pool | None, queues: capacity.Queues, requests: Mapping[str, str]) -> str:
    """The request that a queue can never satisfy, also with all that its cohorts lend; empty: it can."""
    if queue is None:
        return ""
    for resource, request in sorted(requests.items()):
        groups = [group for group in queue.groups if resource in group.resources]
        amounts = [queues.most(queue, (flavor, resource)) for group in groups for flavor in group.flavors]
        needed, most = quantity.parse(request), sum(filter(None, amounts))
        if None not in amounts and needed.nano > most:
            has = quantity.Quantity(most, needed.notation)
            return f"it asks for {request} of {resource}, and the queue has {has} at most"
    return ""


def _by_scheduler(job: Job) -> Touched:
    if job.state is State.RUNNING:
        return Touched(job, "its pods", "its scheduler: recreated pods stay Pending")
    return Touched(job, _waiting(job, _IN_QUEUE), "its scheduler: its pods will stay Pending")


def _by_local_queue(change: Change, job: Job) -> Touched:
    if change.verb is Verb.LEFT:
        rights = "the rights of its team, which can no longer see or stop it"
        return Touched(job, "its queue, which stays with the namespace", rights)
    if change.verb is Verb.REMOVED:
        if job.state is State.RUNNING:
            return Touched(job, "its pods and its quota until it is evicted or ends")
        return Touched(job, "nothing", "its queue: it is no longer admitted")
    if (stopped := _by_stop_policy(change, job)) is not None:
        return stopped
    # Kueue refuses another ClusterQueue (`consequences`), and a new stop policy has been looked at above.
    return Touched(job, "its pods and its quota" if job.state is State.RUNNING else _waiting(job, _IN_QUEUE))


def _by_priority(change: Change, job: Job) -> Touched:
    """Kueue copies a changed value into the Workloads that exist; without the class, they keep theirs."""
    before, after = (part.get("value", 0) for part in (change.before, change.after))
    if change.verb is not Verb.CHANGED or before == after:
        return Touched(job, "its priority")
    kept = "its pods and its quota" if job.state is State.RUNNING else "its TrainJob"
    return Touched(job, kept, f"its priority of {before}: Kueue gives it the new one, {after}, at once")


_OF_NODES: Final = ("compactPlacement", "networks", "maintenance", "capacityType", "reservation")
"""Fields of a pool that its nodes have from the start: a change recreates them."""
_OF_MACHINES: Final = ("type", "image", "version", "disk", "gpuDriver")
"""The same, of `machine`. A cloud's node group is not told the others, from which the quota is computed."""
_NEURON: Final = "aws.amazon.com/neuron"
"""Beginning of the resources for whose drivers EKS has another image."""


def _by_pool(change: Change, job: Job) -> Touched:
    # A preview shows Karpenter's own NodePool, which names no provider.
    provider = Provider(change.before.get("provider", Provider.KARPENTER))
    if change.verb is Verb.LEFT:
        return Touched(job, "its pods")
    if provider is Provider.EXISTING:
        return Touched(job, "its pods: the stack removes no nodes that it did not create")
    if change.verb is Verb.REMOVED or _ends_pods(change, provider):
        return Touched(
            job, "its TrainJob", "pods on nodes that are removed; the JobSet's failure policy applies"
        )
    return Touched(job, "its pods")


def _ends_pods(change: Change, provider: Provider) -> bool:
    """Whether a pool loses nodes or gets other ones, or its nodes a taint that ends pods.

    Karpenter ends no node on which something runs, and gives taints only to new nodes.
    """
    if provider is Provider.KARPENTER:
        return False
    if _made_of(change.before, provider) != _made_of(change.after, provider):
        return True
    zones, new_zones = (frozenset(pool.get("zones") or ()) for pool in (change.before, change.after))
    # GKE adds zones to a pool that stays.
    if zones - new_zones if provider is Provider.GKE else zones != new_zones:
        return True
    if _nodes(change.after, provider) < _nodes(change.before, provider):
        return True
    taints = change.before.get("taints") or ()
    new_taints = [taint for taint in change.after.get("taints") or () if taint not in taints]
    return any(taint["effect"] == "NoExecute" for taint in new_taints)


def _made_of(pool: Json, provider: Provider) -> tuple[object, ...]:
    """What the nodes of a pool have from the start, apart from their zones."""
    machine, accelerator = pool.get("machine") or {}, pool.get("accelerator") or {}
    fields = tuple(pool.get(part) for part in _OF_NODES)
    if provider is Provider.KWOK:
        return (*fields, machine, accelerator)
    further, resource = machine.get("resources") or {}, accelerator.get("resource") or ""
    has_nvidia = any(name == NVIDIA_GPU or name.startswith(NVIDIA_PARTITION) for name in (resource, *further))
    given: tuple[object, ...] = ()
    if provider is Provider.AKS:
        given = (has_nvidia,)  # only then it gets a driver
    elif provider is Provider.EKS:
        drivers = (has_nvidia, resource.startswith(_NEURON))
        given = (further.get(EFA), machine.get("image") or drivers)
    elif resource == NVIDIA_GPU:
        given = (accelerator.get("type"), accelerator.get("count"))
    return (*fields, *(machine.get(part) for part in _OF_MACHINES), *given)


def _nodes(pool: Json, provider: Provider) -> int:
    """The most nodes that a pool has; of a fixed pool of GKE, in each of its zones."""
    nodes: int = pool["nodes"]
    is_elastic = pool.get("minNodes") is not None and pool["minNodes"] < nodes
    return nodes // len(pool["zones"]) if provider is Provider.GKE and not is_elastic else nodes


def _flavors(queue: Json) -> frozenset[str]:
    groups = queue.get("spec", {}).get("resourceGroups", ())
    return frozenset(flavor["name"] for group in groups for flavor in group["flavors"])


def _differences(path: str, old: Any, new: Any) -> Iterator[Field]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _differences(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{path}[{index}]", old_item, new_item)
    elif old != new:
        yield Field(path, old, new)
