"""Admission policies: no job gets past its queue because something of the platform is missing (ADR 17)."""

from collections.abc import Mapping
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects.admission_policies import WEBHOOKS, WITH_WEBHOOKS, WRITES, bound, policy

NAME: Final = f"queued-jobs-wait.{names.POLICY_DOMAIN}"
OWNERS_NAME: Final = f"queued-jobs-own-themselves.{names.POLICY_DOMAIN}"
ORPHANS_NAME: Final = f"trainjobs-go-with-their-jobsets.{names.POLICY_DOMAIN}"
PLATFORM_NAME: Final = f"no-trainjobs-without-the-platform.{names.POLICY_DOMAIN}"
"""Its name is what people read: the API server has no words for a missing parameter."""
_QUEUE: Final = f"object.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
_OLD_QUEUE: Final = f"oldObject.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
_PATCHED: Final = (
    f"object.spec.?runtimePatches.orValue([]).exists(patch, patch.manager == '{names.KUEUES_PATCHES}')"
)
"""What Kueue's webhook adds to a TrainJob; without it Kueue admits the job, and never resumes it."""
_SUSPENDED: Final = "object.spec.?suspend.orValue(false) == true"
_TENANT: Final = f"namespaceObject.metadata.?labels[?'{names.TENANT_LABEL}'].orValue('')"
_FOR_GOOD: Final = f"If Kueue is gone for good, delete ValidatingAdmissionPolicyBinding {NAME}."
_MISSING: Final = (
    "a {kind} of a queue cannot be created now: Kueue, which holds it until there is quota, is missing. "
    f"{{way}} {_FOR_GOOD}"
)
_UNNAMED: Final = (
    f"metadata.labels[{names.QUEUE_LABEL}]: must name a queue of the namespace, which has no queue default. "
    "kubectl get localqueues lists them."
)
_UNNAMED_OF_JOBSETS: Final = (
    f"metadata.labels[{names.QUEUE_LABEL}]: must name a queue of the namespace. Create the TrainJob again "
    "with this label; kubectl get localqueues lists the queues. If there is a queue default, Kueue, which "
    f"adds the label, is missing: the operator tries again by itself. {_FOR_GOOD}"
)
_STAYS: Final = f"oldObject == null || {_OLD_QUEUE} == '' || {_QUEUE} != ''"
"""Kueue lets the label of a suspended job go where a namespace has no queue `default`, and then does not hold
the job any more. Neither Kueue nor the operator ever removes it."""
_LEAVES: Final = (
    f"metadata.labels[{names.QUEUE_LABEL}]: must not be removed, since without it the {{kind}} would run "
    "without quota. Keep the label, or delete the {kind} and create it again."
)
_KUEUES_PATCHES: Final = (
    f"{{}}.spec.?runtimePatches.orValue([]).exists(patch, patch.manager == '{names.KUEUES_PATCHES}' "
    "&& patch.?trainingRuntimeSpec.?template.?spec.hasValue())"
)
_STAYS_PATCHED: Final = (
    f"oldObject == null || {_QUEUE} == '' || !({_KUEUES_PATCHES.format('oldObject')}) "
    f"|| {_KUEUES_PATCHES.format('object')}"
)
"""Kueue changes what its entry says of ReplicatedJobs, and never removes the entry. If a client-side `kubectl
apply` does, the operator's webhook has put it back by now."""
_UNPATCHED: Final = (
    f"spec.runtimePatches: must keep the entry of manager {names.KUEUES_PATCHES}, since without it Kueue can "
    "neither start nor stop the TrainJob. Write this entry into the manifest as kubectl get trainjob -o yaml "
    "shows it, or delete the TrainJob and create it again."
)
_SENDS_WORKLOADS: Final = (
    f"authorizer.group('{names.KUEUE_GROUP}').resource('workloads').namespace(request.namespace)"
    ".check('create').allowed()"
)
"""Administrators and MultiKueue may, tenants may not."""
_WORKLOADS: Final = (
    "[{0}.metadata.?annotations[?'{1}'].orValue(''), {0}.metadata.?labels[?'{1}'].orValue('')]"
)
_NEW_WORKLOADS: Final = _WORKLOADS.format("object", names.PREBUILT_WORKLOAD)
_OLD_WORKLOADS: Final = _WORKLOADS.format("oldObject", names.PREBUILT_WORKLOAD)
_BRINGS_NO_WORKLOAD: Final = (
    f"{_NEW_WORKLOADS} == ['', ''] || (oldObject != null && {_NEW_WORKLOADS} == {_OLD_WORKLOADS}) "
    f"|| {_SENDS_WORKLOADS}"
)
"""With one of them, Kueue takes an existing Workload for the job's: the annotation's, else the label's.
MultiKueue sets it in a worker cluster."""
_OF_ANOTHER: Final = (
    f"{names.PREBUILT_WORKLOAD}: must be neither an annotation nor a label, since the job would then run "
    "with the quota of the Workload of another job. Remove it from metadata.annotations and metadata.labels."
)
_ORPHANED: Final = f"'{names.ORPHAN_FINALIZER}' in {{}}.metadata.?finalizers.orValue([])"
_TAKES_ITS_JOBSET: Final = (
    "request.operation != 'DELETE' || (request.options.?propagationPolicy.orValue('') != 'Orphan' "
    f"&& request.options.?orphanDependents.orValue(false) == false) || {_SENDS_WORKLOADS}"
)
"""Otherwise its JobSet runs on. A Workload of a TrainJob loses its owner and, with Kueue 0.18 and later, its
quota."""
_WILL_TAKE_IT: Final = (
    f"request.operation == 'DELETE' || !({_ORPHANED.format('object')}) "
    f"|| (oldObject != null && {_ORPHANED.format('oldObject')}) || {_SENDS_WORKLOADS}"
)
"""With the finalizer, a deletion that does not say what becomes of the JobSet leaves it."""
_JOBS: Final = (
    *("apps/Deployment", "apps/ReplicaSet", "apps/StatefulSet", "batch/Job", "jobset.x-k8s.io/JobSet"),
    *(f"kubeflow.org/{kind}Job" for kind in ("JAX", "MPI", "Paddle", "PyTorch", "TF", "XGBoost")),
    *("leaderworkerset.x-k8s.io/LeaderWorkerSet", "ray.io/RayCluster", "ray.io/RayJob", "ray.io/RayService"),
    *("sparkoperator.k8s.io/SparkApplication", "trainer.kubeflow.org/TrainJob", "v1/Pod"),
)
"""Kinds that Kueue (0.19) takes for a job: what such a job owns runs with that job's quota. AppWrappers are
left out, since people send TrainJobs in them."""
_OF_A_JOB: Final = (
    "{}.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) == true "
    f"&& owner.apiVersion.split('/')[0] + '/' + owner.kind in [{', '.join(map(repr, _JOBS))}])"
)


def manifests(
    namespace_selector: Mapping[str, Any], *, holds_jobsets: bool, admission: bool
) -> list[Manifest]:
    """The policies, and their bindings to the namespaces that Kueue looks at.

    Kueue's webhook names the queue of what is created, and suspends it, before they are evaluated.

    Args:
        namespace_selector: Selects the namespaces in which Kueue queues jobs.
        holds_jobsets: Whether its queues hold JobSets, and not TrainJobs.
        admission: Whether the operator's webhooks judge TrainJobs: none is then created without them.
            Otherwise the policy about them refuses nothing.
    """
    held = _jobsets_wait() if holds_jobsets else _trainjobs_wait()
    selected = {"matchResources": {"namespaceSelector": dict(namespace_selector)}}
    # Without webhooks it lets all pass: the one that an earlier roll-out has left would refuse all.
    platform = _webhooks_are_there() if admission else _without_webhooks()
    return [
        *bound(NAME, held, selected),
        *bound(OWNERS_NAME, _trainjobs_own_themselves(), selected),
        *bound(ORPHANS_NAME, _trainjobs_go_with_their_jobsets(), selected),
        *bound(PLATFORM_NAME, platform, {**selected, **(WITH_WEBHOOKS if admission else {})}),
    ]


def _trainjobs_wait() -> Manifest:
    message = _MISSING.format(kind=names.TRAINJOB, way="Create it again when the platform is back.")
    return policy(
        [names.TRAINJOBS],
        WRITES,
        # A match condition cannot see the namespace. What another job owns is refused as such.
        f"oldObject != null || ({_QUEUE} == '' ? {_TENANT} == '' || {_PATCHED} : {_SUSPENDED} && {_PATCHED}) "
        f"|| {_OF_A_JOB.format('object')}",
        message,
        also={
            # Kueue's webhook was there, and has added no label.
            f"oldObject != null || {_QUEUE} != '' || {_TENANT} == '' || !({_PATCHED}) "
            f"|| {_OF_A_JOB.format('object')}": _UNNAMED,
            _STAYS: _LEAVES.format(kind=names.TRAINJOB),
            _STAYS_PATCHED: _UNPATCHED,
        },
    )


def _jobsets_wait() -> Manifest:
    message = _MISSING.format(kind=names.JOBSET, way="The operator tries again by itself.")
    return policy(
        [names.JOBSETS],
        WRITES,
        f"oldObject != null || {_QUEUE} == '' || {_SUSPENDED}",
        message,
        also={
            f"oldObject != null || {_QUEUE} != '' || {_TENANT} == ''": _UNNAMED_OF_JOBSETS,
            _STAYS: _LEAVES.format(kind=names.JOBSET),
            _BRINGS_NO_WORKLOAD: _OF_ANOTHER,
        },
        group=(names.JOBSET_GROUP, "v1alpha2"),
    )


def _trainjobs_own_themselves() -> Manifest:
    before = f"oldObject != null && {_OF_A_JOB.format('oldObject')}"
    return policy(
        [names.TRAINJOBS],
        WRITES,
        f"!({_OF_A_JOB.format('object')}) || ({before})",
        "metadata.ownerReferences: the controller of a TrainJob must not be another job, since Kueue would "
        "then count it as a part of that job and give it no quota of its own. Remove the reference, or its "
        "field controller.",
        also={_BRINGS_NO_WORKLOAD: _OF_ANOTHER},
    )


def _trainjobs_go_with_their_jobsets() -> Manifest:
    finalizer = (
        f"metadata.finalizers: must not contain {names.ORPHAN_FINALIZER}, since the pods of the TrainJob "
        "would run on after its deletion. Remove this finalizer."
    )
    return policy(
        [names.TRAINJOBS],
        [*WRITES, "DELETE"],
        _TAKES_ITS_JOBSET,
        "a TrainJob must not be deleted without its JobSet, whose pods would run on. Delete it without "
        "propagationPolicy Orphan (kubectl: without --cascade=orphan).",
        also={_WILL_TAKE_IT: finalizer},
    )


def _webhooks_are_there() -> Manifest:
    """The operator's webhooks come last and go first. Unchecked jobs must not wait for them."""
    return policy(
        [names.TRAINJOBS],
        ["CREATE"],
        "params.?webhooks.orValue([]).size() > 0",
        f"ValidatingWebhookConfiguration {names.VALIDATING_WEBHOOKS} has no webhooks. Have the platform team "
        "roll the stack out.",
        paramKind=WEBHOOKS,
    )


def _without_webhooks() -> Manifest:
    return policy(
        [names.TRAINJOBS],
        ["CREATE"],
        "true",
        "never refused: admission.enabled is false in the stack file.",
    )
