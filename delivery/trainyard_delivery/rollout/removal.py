"""The output of `trainyard destroy` before and after it removes a stack: pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from trainyard_api import names
from trainyard_platform.stack.settings import StackSettings

from ..impact import Job, State, Touched
from ..pulumi_state import Provider
from . import words
from .events import Op, Step

_CRD: Final = "CustomResourceDefinition"
WITHOUT: Final = {
    names.OPERATOR: "TrainJobs get no JobSet, no status and no end by a deadline",
    names.JOBSET_CONTROLLER: "JobSets are not started, restarted or ended",
    names.KUEUE_CONTROLLER: "no job leaves a queue, and nobody counts quota",
    "volcano-scheduler": "pods that name Volcano as their scheduler get no node",
    names.COSCHEDULING_SCHEDULER: "pods that name coscheduling as their scheduler get no node",
}
"""By the name of a controller's Deployment: what happens without it."""
_DELETED: Final = {
    names.CLUSTER_TRAINING_RUNTIME: "jobs without a JobSet wait for them",
    "Node": "the pods on them are deleted",
}
"""By kind: what else follows when its objects are deleted."""
_LEFT: Final = {
    _CRD: "with every TrainJob, JobSet and Workload; their pods run on",
    "Namespace": "with all that is in them; people of tenants lose their rights",
    "ClusterQueue": "with the quota of jobs that run",
    "ValidatingAdmissionPolicy": "without the platform, no TrainJob of a tenant is created",
    "NodePool": "Karpenter keeps their nodes, and makes new ones",
}
"""By kind: what it means that its objects stay."""
_MOST_JOBS: Final = 20
"""TrainJobs with the same fate that are listed one by one."""
_UNTIL: Final = "until the next up"


def paragraphs(steps: Sequence[Step], fates: Sequence[Touched]) -> Iterator[str]:
    """What is deleted, what stays, and the effect on TrainJobs.

    Args:
        steps: All of the preview of a removal, with what is left reported as such.
        fates: The effect on each TrainJob that has not ended.
    """
    for op, follows, ending in (
        (Op.DELETE, _DELETED, ""),
        (Op.LEAVE, _LEFT, f": stay in the cluster, and nothing manages them {_UNTIL}"),
    ):
        if not (of_op := [step for step in steps if step.op is op]):
            continue
        yield words.by_kind(op, of_op) + ending
        yield from (f"    {step.name}: {WITHOUT[step.ref.name]}" for step in _controllers(of_op) if step.ref)
        by_kind: defaultdict[str, list[Step]] = defaultdict(list)
        for step in of_op:
            by_kind[step.name.partition(" ")[0]].append(step)
        yield from (
            f"    {_named(kind, by_kind[kind])}: {follows[kind]}" for kind in follows if kind in by_kind
        )
    yield f"TrainJobs that have not ended: {len(fates) or 'none'}"
    by_fate: defaultdict[tuple[State, str, str], list[Touched]] = defaultdict(list)
    for fate in sorted(fates, key=_running_first):
        by_fate[fate.job.state, fate.keeps, fate.loses].append(fate)
    for (state, _, _), group in by_fate.items():
        yield from words.touched(group[:_MOST_JOBS])
        if group[_MOST_JOBS:]:
            yield f"    and {len(group) - _MOST_JOBS} more ({state}) in the same way"


def _running_first(fate: Touched) -> tuple[int, str, str]:
    return list(State).index(fate.job.state), fate.job.namespace, fate.job.name


def _controllers(steps: Iterable[Step]) -> list[Step]:
    controllers = [
        step for step in steps if step.ref and step.ref.kind == "Deployment" and step.ref.name in WITHOUT
    ]
    return sorted(controllers, key=lambda step: step.name)


def _named(kind: str, steps: Sequence[Step]) -> str:
    """Namespaces by name, because people look for them; other kinds only counted."""
    if kind != "Namespace":
        return f"{len(steps)} {kind}"
    return f"{kind} {', '.join(sorted(step.ref.name for step in steps if step.ref))}"


def fates(stack: StackSettings, steps: Iterable[Step], jobs: Iterable[Job]) -> Iterator[Touched]:
    """The effect on each TrainJob when the stack is removed.

    Args:
        stack: What the stack installs: other controllers stay.
        steps: All of the preview, with what is left reported as such.
        jobs: Those that have not ended.
    """
    pools = _pools_without_nodes(steps)
    for job in jobs:
        yield _fate(stack, job, loses_nodes=bool(job.pools & pools))


def _fate(stack: StackSettings, job: Job, *, loses_nodes: bool) -> Touched:
    restarts = not stack.jobset.enabled
    if job.state is State.RUNNING:
        if loses_nodes:
            return Touched(job, "its TrainJob and its JobSet", "its pods on nodes that are deleted")
        loses = "its status" if restarts else "its status, restarts and further steps"
        return Touched(job, "its pods, which run on", f"{loses} {_UNTIL}")
    if job.state is State.SUSPENDED:
        return Touched(job, "its TrainJob", f"its start {_UNTIL}, also if somebody resumes it")
    if not job.local_queue:
        return Touched(job, "its TrainJob", f"its start {_UNTIL}")
    if restarts and job.started and not stack.kueue.installs:
        return Touched(job, "its place in the queue, and may start", f"its status {_UNTIL}")
    return Touched(job, "its place in the queue", f"its start {_UNTIL}")


def _pools_without_nodes(steps: Iterable[Step]) -> AbstractSet[str]:
    """The pools whose nodes are deleted: simulated nodes, and node groups of a cloud."""
    deleted = [step for step in steps if step.op is Op.DELETE]
    simulated = {
        str(step.before["metadata"].get("labels", {}).get(names.POOL_LABEL))
        for step in deleted
        if step.ref is not None and step.ref.kind == "Node"
    }
    return simulated | {step.urn.rpartition("::")[2] for step in deleted if step.ref is None}


def afterwards(stack: str, steps: Iterable[Step], options: Sequence[str] = ()) -> Iterator[str]:
    """Commands to install the stack again, and to remove the objects that stay.

    `options` are those of kubectl that lead to the stack's cluster.
    """
    yield f"To bring it back, and take over what has stayed: make up STACK={stack}"
    groups = {
        step.ref.name.partition(".")[2]
        for step in steps
        if step.op is Op.LEAVE and step.ref is not None and step.ref.kind == _CRD
    }
    if groups:
        kubectl = shlex.join(["kubectl", *options])
        yield (
            "To remove the CRDs for good, with all of their objects, also those of others: "
            f"{kubectl} get crds -o name | grep -E '{'|'.join(sorted(groups))}' | xargs {kubectl} delete"
        )
    yield 'Before that, and for all else that has stayed: docs/upgrade-and-removal.md, "Remove the platform"'


def contradictions(
    rolled_out: Provider | None, kubeconfig: str | None, context: str | None, *, same_cluster: bool = False
) -> list[str]:
    """A sentence for each setting of the cluster in which the stack file and the last roll-out differ.

    A removal uses the cluster of the last roll-out, even if the file has changed.

    Args:
        rolled_out: How the last roll-out found its cluster; None: there was none.
        kubeconfig: Of the stack file; None: it names none.
        context: Likewise.
        same_cluster: Whether the uid says that both lead to the same cluster.
    """
    if rolled_out is None:
        return []
    fields = (
        ("cluster.kubeconfig", kubeconfig, rolled_out.kubeconfig),
        ("cluster.context", context, rolled_out.context),
    )
    differing = {field: (of_file, of_state) for field, of_file, of_state in fields if of_file != of_state}
    then = ": that is the cluster that would be destroyed. Change the stack file back, or roll out first"
    if same_cluster:
        named = " ".join(differing)
        then = f', for the same cluster. Pulumi would still use that: first run `up` with --replace "{named}"'
    return [
        f"{field} of the stack file is {of_file or 'none'}, and the last roll-out had "
        f"{of_state or 'none'}{then}"
        for field, (of_file, of_state) in differing.items()
    ]
