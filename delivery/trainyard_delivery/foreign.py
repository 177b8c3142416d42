"""Controllers of a cluster that a stack would overwrite, though it did not create them: pure.

The provider's create is an upsert, and takes precedence over every other
manager of a field. So it would replace the Deployment and the configuration of somebody
else's Kueue, or the whole platform of another stack, and a removal of the stack would delete its namespace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_platform.parts.tenants import owners

from . import pulumi_state
from .drift.verdicts import Ref
from .rollout.events import Step

_PROVIDERS: Final = "pulumi-kubernetes"
"""How the field managers of Pulumi's provider begin."""
_INSTEAD: Final = {
    names.KUEUE_NAMESPACE: "kueue.controller: existing",
    names.JOBSET_NAMESPACE: "jobset.enabled: false",
    names.LWS_NAMESPACE: "dataCache.enabled: false",
    names.SCHEDULER_PLUGINS: "coscheduling.enabled: false",
    names.VOLCANO_NAMESPACE: "volcano.enabled: false",
}
"""By namespace, the setting with which a stack installs no controller there."""


def owner(live: Json) -> str:
    """Who has an object of the cluster; empty if the platform has, whatever state knows of it."""
    managers = [entry.get("manager") or "" for entry in live["metadata"].get("managedFields") or ()]
    if any(name.startswith(_PROVIDERS) or name == names.PLATFORM_MANAGER for name in managers):
        return ""
    return owners.owner(live) or next((name for name in managers if name), "somebody else")


def of_another_stack(live: Mapping[Ref, Json], stack: str) -> Iterator[str]:
    """A sentence for each object that says that the cluster's platform is of another stack than this one."""
    for ref, metadata in live.items():
        other = pulumi_state.stack_of(metadata) or stack
        if other != stack:
            yield _replaced(ref, other, stack)


def replaced(steps: Iterable[Step], state: Json, stack: str) -> Mapping[Ref, str]:
    """The same by objects that the stack has already, so that another one was rolled out over it since.

    Or the state is of another cluster. A stack that has been renamed finds its old name, which is also that
    of its state.

    Args:
        steps: Those of a preview that has read the cluster.
        state: What the last roll-out of the stack has left.
        stack: Its name.
    """
    last = {
        resource["urn"]: pulumi_state.stack_of(pulumi_state.inputs(resource))
        for resource in pulumi_state.objects(state)
    }
    return {
        step.ref: _replaced(step.ref, step.platform_of, stack)
        for step in steps
        if step.ref is not None and step.platform_of not in ("", stack, last.get(step.urn, ""))
    }


def _replaced(ref: Ref, other: str, stack: str) -> str:
    return (
        f"refused: this cluster has the platform of the stack {other}, and the roll-out would "
        f"replace it with the platform of {stack}. If this is the wrong cluster, select the right "
        "one in the kubeconfig: kubectl config use-context NAME. Otherwise, first remove the "
        f"platform: trainyard destroy --stack {other}. If Pulumi's state of {other} is lost, run "
        f'`up` with --replace "{ref.key}"'
    )


def refusals(owned_by: Mapping[Ref, str]) -> Iterator[str]:
    """A sentence for each namespace with such objects, by what owns each of them."""
    by_namespace: defaultdict[str, dict[Ref, str]] = defaultdict(dict)
    for ref in sorted(owned_by, key=lambda ref: (ref.namespace, ref.key)):
        by_namespace[_namespace(ref)][ref] = owned_by[ref]
    for namespace, objects in sorted(by_namespace.items()):
        keys = [ref.key for ref in objects]
        instead = _INSTEAD.get(namespace)
        yield (
            f"refused: the cluster already has {' and '.join(keys)}, of "
            f"{' and '.join(sorted({*objects.values()}))}. The roll-out would overwrite what the stack also "
            "has, and the removal of the stack would delete it. "
            + (f"If the cluster is to keep it, set {instead} in the stack file. " if instead else "")
            + f'To take it over, run `up` with --replace "{" ".join(keys)}"'
        )


def unseen(refs: Collection[Ref], why: str) -> str:
    """The sentence that refuses to create these where nobody can see whether somebody else has them."""
    keys = sorted(ref.key for ref in refs)
    return (
        f"refused: could not see whether the cluster already has {' and '.join(keys)} from somebody else: "
        f"{why}. Run the same command again. To roll out without this check, run `up` with "
        f'--replace "{" ".join(keys)}"'
    )


def _namespace(ref: Ref) -> str:
    """The namespace that a stack has the controller in; somebody else may have it in another one."""
    if ref.kind.endswith("WebhookConfiguration"):  # named after its controller, such as kueue-...
        return f"{ref.name.partition('-')[0]}-system"
    return ref.namespace or ref.name
