"""The effects of a preview or an update, as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from trainyard_api import names, shown
from trainyard_api.json_types import Json, JsonValue
from trainyard_api.pools import Provider
from trainyard_platform.objects.annotations import KEPT

from .. import consequences, impact
from ..drift import comparison, paths
from ..drift.differences import Absent, Difference, differences
from ..drift.verdicts import Ref, recreates_pods
from .events import Op, Step, Violation

_MARKS: Final = {
    Op.CREATE: "+",
    Op.TAKE_OVER: "*",
    Op.UPDATE: "~",
    Op.REPLACE: "±",
    Op.DELETE: "-",
    Op.LEAVE: "=",
}
_BESIDE: Final = {Op.LEAVE: ": stays in the cluster", Op.TAKE_OVER: ": exists already, and is taken over"}
_COUNTED: Final = {
    Op.CREATE: "to create",
    Op.TAKE_OVER: "to take over",
    Op.UPDATE: "to change",
    Op.REPLACE: "to replace",
    Op.DELETE: "to delete",
    Op.LEAVE: "to leave in the cluster",
    Op.SAME: "unchanged",
}
_MANY: Final = 20
"""Created or deleted objects that are listed one by one; more are counted by kind."""
_MOST_FIELDS: Final = 20
_FEW: Final = 3
"""Objects that one policy advises against, shown with its messages; of more, only the names."""
_LONGEST: Final = 120
"""Characters of a value that is shown."""
_PULUMIS: Final = "pulumi.com/"
_CONTROLLERS: Final = (
    "Deployment",
    "Namespace",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_GONE: Final = (Op.DELETE, Op.LEAVE)
"""Steps after which the stack no longer has the object."""
_NODE_GROUPS: Final = {
    "aws:eks/nodeGroup:NodeGroup": Provider.EKS,
    "gcp:container/nodePool:NodePool": Provider.GKE,
    "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool": Provider.AKS,
}
"""Pulumi's types of what has a pool's nodes in a cloud. Its name is the pool's."""
_RECREATING: Final = {
    Provider.EKS: ("launchTemplate", "releaseVersion"),
    Provider.GKE: ("nodeConfig", "version"),
    Provider.AKS: ("orchestratorVersion", "osSku"),
}
"""Inputs of a node group with which it stays, but its cloud recreates the nodes."""
_CHANGED_IN_PLACE: Final = ("labels", "taints")
"""Parts of GKE's nodeConfig that nodes get while they run."""
_FAILED: Final = "update failed"
"""Pulumi's words for an update with errors."""


def left(
    steps: Sequence[Step], deleted_with: Mapping[str, str], components: Collection[str] = ()
) -> Iterator[Step]:
    """The steps, with those that Pulumi calls a deletion but that delete nothing reported as such.

    What is deleted with something else, Pulumi does not delete itself: it
    stays if that stays, or if it is not inside of that.

    Args:
        steps: All of a preview.
        deleted_with: By the URN of a resource, that of its `deletedWith`.
        components: URNs of deleted components. They have no steps, and no object is inside of one.
    """
    deleted = {step.urn: step for step in steps if step.op is Op.DELETE}

    def stays(step: Step) -> bool:
        urn = deleted_with.get(step.urn, "")
        host = deleted.get(urn)
        if step.retained or host is None:
            return step.retained or urn in components
        inside = step.ref is not None and host.ref is not None and step.ref.namespace == host.ref.name
        return host.retained or not inside

    for step in steps:
        is_left = step.urn in deleted and stays(step)
        yield Step(step.urn, Op.LEAVE, step.before, {}) if is_left else step


def may_exist(steps: Iterable[Step]) -> frozenset[Ref]:
    """Objects to create that may exist in the cluster, because they stay when a stack is removed."""
    return frozenset(
        step.ref
        for step in steps
        if step.op is Op.CREATE
        and step.ref is not None
        and KEPT.items() <= step.after["metadata"].get("annotations", {}).items()
    )


def controllers(steps: Sequence[Step]) -> frozenset[Ref]:
    """Controllers to create, their namespaces, and their webhooks, of which a cluster has only one.

    A removal deletes them, also if somebody else has them.
    """
    return frozenset(
        step.ref
        for step in steps
        if step.op is Op.CREATE and step.ref is not None and step.ref.kind in _CONTROLLERS
    ) - may_exist(steps)


def taken_over(steps: Iterable[Step], existing: Collection[Ref]) -> Iterator[Step]:
    """The steps, with the creation of what exists in the cluster reported as what it is."""
    for step in steps:
        exists = step.op is Op.CREATE and step.ref in existing
        yield Step(step.urn, Op.TAKE_OVER, {}, step.after) if exists else step


def summary(steps: Iterable[Step]) -> str:
    """The number of steps of each kind."""
    counted = Counter(step.op for step in steps)
    counts = [f"{counted[op]} {words}" for op, words in _COUNTED.items() if counted[op]]
    return ", ".join(counts) or "nothing in it"


def changing(steps: Iterable[Step]) -> int:
    """The number of steps that change something."""
    return sum(step.op is not Op.SAME for step in steps)


def details(steps: Sequence[Step], effects: Mapping[str, Sequence[impact.Touched]]) -> Iterator[str]:
    """A paragraph for each object that changes.

    Args:
        steps: All of a preview.
        effects: What a step does to TrainJobs, by its URN.
    """
    steps = sorted(steps, key=lambda step: step.name)
    for step in (step for step in steps if step.going and step.op in (Op.SAME, Op.UPDATE)):
        yield f"! {step.name}: is being deleted {step.going}"
        yield "    Kubernetes deletes it as soon as nothing holds it. Then roll out again to recreate it."
    for op in (Op.REPLACE, Op.UPDATE):
        for step in (step for step in steps if step.op is op):
            yield f"{_MARKS[op]} {step.name}" + (": deleted, and recreated" if op is Op.REPLACE else "")
            yield from _fields(step)
            yield from _means(step)
            yield from touched(effects.get(step.urn, ()))
    for op in (Op.DELETE, Op.LEAVE, Op.TAKE_OVER, Op.CREATE):
        of_op = [step for step in steps if step.op is op]
        touching = [step for step in of_op if effects.get(step.urn) or any(_means(step))]
        for step in of_op if len(of_op) <= _MANY else touching:
            yield _line(step)
            yield from _means(step)
            yield from touched(effects.get(step.urn, ()))
        if len(of_op) > _MANY:
            yield by_kind(op, [step for step in of_op if step not in touching])


def by_kind(op: Op, steps: Iterable[Step]) -> str:
    """How many objects of each kind have such a step."""
    kinds = Counter(step.name.partition(" ")[0] for step in steps)
    return f"{_MARKS[op]} " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def violations(reported: Sequence[Violation], steps: Iterable[Step]) -> Iterator[str]:
    """Messages of policies: each refusal, advice on changed objects, and the amount of other advice."""
    by_urn = {step.urn: step for step in steps}

    def about(violation: Violation) -> str:
        return f"{by_urn[violation.urn].name}: " if violation.urn in by_urn else ""

    refusals = [violation for violation in reported if violation.mandatory]
    for violation in sorted(refusals, key=lambda violation: (violation.policy, about(violation))):
        yield f"refused by {violation.policy}: {about(violation)}{_flat(violation.text)}"
    advice = [violation for violation in reported if not violation.mandatory]
    same = {urn for urn, step in by_urn.items() if step.op is Op.SAME}
    unchanged = [violation for violation in advice if violation.urn in same]
    on_changes = [violation for violation in advice if violation not in unchanged]
    for policy in sorted({violation.policy for violation in on_changes}):
        of_policy = sorted((violation for violation in on_changes if violation.policy == policy), key=about)
        if len(of_policy) <= _FEW:
            for violation in of_policy:
                yield f"advised against by {policy}: {about(violation)}{_flat(violation.text)}"
        else:
            named = list(dict.fromkeys(about(violation).removesuffix(": ") for violation in of_policy))
            yield f"advised against by {policy}: {shown.listed(named, _FEW)}: VERBOSE=1 says what"
    if unchanged:
        number = len({violation.urn for violation in unchanged})
        many = f"{number} object{'' if number == 1 else 's'}"
        yield f"advice on what does not change, {many}: VERBOSE=1 has it"


def _flat(text: str) -> str:
    return " ".join(text.split())


def change(step: Step) -> impact.Change | None:
    """The change in `impact`'s terms; None for steps that TrainJobs do not depend on."""
    if step.ref is None:
        return _of_node_group(step)
    verb = {
        Op.UPDATE: impact.Verb.CHANGED,
        Op.DELETE: impact.Verb.REMOVED,
        Op.LEAVE: impact.Verb.LEFT,
    }.get(step.op)
    if verb is None:
        return None
    ref = impact.Ref(step.ref.kind, step.ref.namespace, step.ref.name)
    return impact.Change(ref, verb, step.before, step.after)


def after(steps: Iterable[Step]) -> dict[impact.Ref, Json]:
    """The objects of the stack after its update, in `impact`'s terms."""
    return {
        impact.Ref(step.ref.kind, step.ref.namespace, step.ref.name): step.after
        for step in steps
        if step.ref is not None and step.op not in _GONE
    }


def refs_after(steps: Iterable[Step]) -> frozenset[Ref]:
    """The objects of the stack after its update, as `drift` knows them."""
    return frozenset(step.ref for step in steps if step.ref is not None and step.op not in _GONE)


def _of_node_group(step: Step) -> impact.Change | None:
    """The loss of a pool's nodes in a cloud, which deletes them also before it creates others."""
    provider = _provider(step)
    if provider is None or not (step.op in (Op.DELETE, Op.REPLACE) or _recreates_nodes(step)):
        return None
    ref = impact.Ref(impact.NODE_POOL, "", step.urn.rpartition("::")[2])
    return impact.Change(ref, impact.Verb.REMOVED, {"provider": provider}, {})


def _provider(step: Step) -> Provider | None:
    """The cloud of a node group; None for other resources."""
    return _NODE_GROUPS.get(step.urn.rpartition("::")[0].rpartition("$")[2])


def _recreates_nodes(step: Step) -> bool:
    """Whether a node group stays, but gets other nodes."""
    provider = _provider(step)
    if step.op is not Op.UPDATE or provider is None:
        return False
    before, after = (
        [_of_nodes(inputs, key) for key in _RECREATING[provider]] for inputs in (step.before, step.after)
    )
    return before != after


def _of_nodes(inputs: Json, key: str) -> Json | str | None:
    value: Json | str | None = inputs.get(key)
    if not isinstance(value, dict):
        return value
    return {part: setting for part, setting in value.items() if part not in _CHANGED_IN_PLACE}


def _means(step: Step) -> Iterator[str]:
    """Effects other than on TrainJobs."""
    if (changed := change(step)) is not None:
        yield from (f"    {sentence}" for sentence in consequences.of(changed))


def _line(step: Step) -> str:
    return f"{_MARKS[step.op]} {step.name}{_BESIDE.get(step.op, '')}"


def _fields(step: Step) -> Iterator[str]:
    changes = [
        difference
        for difference in differences(step.after, step.before)
        if _PULUMIS not in paths.text(difference.path)
    ]
    secret = step.ref is not None and step.ref.kind == "Secret"
    for difference in changes[:_MOST_FIELDS]:
        yield f"    {_field(difference, secret=secret)}"
    if changes[_MOST_FIELDS:]:
        yield f"    and {len(changes) - _MOST_FIELDS} more fields: VERBOSE=1 has them"
    changed = (paths.text(difference.path) for difference in changes)
    if step.ref is not None and recreates_pods(step.ref, changed):
        yield "    its pods are recreated, one after the other"
    if _recreates_nodes(step):
        yield "    the cloud recreates its nodes, one after the other; protect does not prevent this"


def _field(difference: Difference, *, secret: bool) -> str:
    before, after = (
        _text(comparison.shown(value, difference.path) if secret else value)
        for value in (difference.cluster, difference.git)
    )
    before, after = shown.apart(before, after, _LONGEST)
    return f"{paths.text(difference.path)}: {before} -> {after}"


def _text(value: JsonValue) -> str:
    if isinstance(value, Absent):
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value)


def touched(jobs: Iterable[impact.Touched]) -> Iterator[str]:
    """A line for each TrainJob: what it keeps and loses."""
    for effect in jobs:
        loses = f"; loses {effect.loses}" if effect.loses else ""
        yield f"    {effect.job.namespace}/{effect.job.name} ({effect.job.state}) keeps {effect.keeps}{loses}"


def is_unanswered(errors: Iterable[str]) -> bool:
    """Whether these errors of an update only report webhooks that did not answer."""
    causes = [error for error in errors if not error.endswith(_FAILED)]
    return bool(causes) and all(names.UNANSWERED in cause for cause in causes)
