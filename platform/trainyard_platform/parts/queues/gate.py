"""Admission policies: no job gets past its queue because something of the platform is missing (ADR 17)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard_api import names

NAME: Final = f"queued-jobs-wait.{names.POLICY_DOMAIN}"
OWNERS_NAME: Final = f"queued-jobs-own-themselves.{names.POLICY_DOMAIN}"
PLATFORM_NAME: Final = f"no-trainjobs-without-the-platform.{names.POLICY_DOMAIN}"
"""Its name is what people read: the API server has no words for a missing parameter."""
_GROUP: Final = "admissionregistration.k8s.io"
_QUEUE: Final = f"object.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
_PATCHED: Final = (
    f"object.spec.?runtimePatches.orValue([]).exists(patch, patch.manager == '{names.KUEUES_PATCHES}')"
)
"""What Kueue's webhook adds to a TrainJob; without it Kueue admits the job, and never resumes it."""
_SUSPENDED: Final = "object.spec.?suspend.orValue(false) == true"
_TENANT: Final = f"namespaceObject.metadata.?labels[?'{names.TENANT_LABEL}'].orValue('')"
_MISSING: Final = (
    "a {kind} of a queue cannot be created now: Kueue, which holds it until there is quota, is missing. "
    f"{{way}} If Kueue is gone for good, delete ValidatingAdmissionPolicyBinding {NAME}."
)
_JOBS: Final = (
    *("apps/Deployment", "apps/ReplicaSet", "apps/StatefulSet", "batch/Job", "jobset.x-k8s.io/JobSet"),
    *(f"kubeflow.org/{kind}Job" for kind in ("JAX", "MPI", "Paddle", "PyTorch", "TF", "XGBoost")),
    *("leaderworkerset.x-k8s.io/LeaderWorkerSet", "ray.io/RayCluster", "ray.io/RayJob", "ray.io/RayService"),
    *("sparkoperator.k8s.io/SparkApplication", "trainer.kubeflow.org/TrainJob", "v1/Pod"),
)
"""Kinds that Kueue (0.19) takes for a job: what such a job owns runs with that job's quota. AppWrappers are
left out, since people send TrainJobs in them."""


def manifests(
    namespace_selector: Mapping[str, Any], *, holds_jobsets: bool, admission: bool
) -> list[dict[str, Any]]:
    """The policies, and their bindings to the namespaces that Kueue looks at.

    Kueue's webhook names the queue of what is created, and suspends it, before they are asked.

    Args:
        namespace_selector: Selects the namespaces in which Kueue queues jobs.
        holds_jobsets: Whether its queues hold JobSets, and not TrainJobs.
        admission: Whether the operator's webhooks judge TrainJobs: none is then created without them.
    """
    held = _jobsets_wait() if holds_jobsets else _trainjobs_wait()
    selected = {"matchResources": {"namespaceSelector": dict(namespace_selector)}}
    policies = [
        *_policy_and_binding(NAME, held, selected),
        *_policy_and_binding(OWNERS_NAME, _trainjobs_own_themselves(), selected),
    ]
    if admission:
        webhooks = {"name": names.VALIDATING_WEBHOOKS, "parameterNotFoundAction": "Deny"}
        policies += _policy_and_binding(
            PLATFORM_NAME, _webhooks_are_there(), {**selected, "paramRef": webhooks}
        )
    return policies


def _trainjobs_wait() -> dict[str, Any]:
    message = _MISSING.format(kind=names.TRAINJOB, way="Create it again when the platform is back.")
    return _policy(
        (names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINJOBS),
        ["CREATE"],
        # A match condition cannot see the namespace.
        f"{_QUEUE} == '' ? {_TENANT} == '' : {_SUSPENDED} && {_PATCHED}",
        message,
    )


def _jobsets_wait() -> dict[str, Any]:
    message = _MISSING.format(kind=names.JOBSET, way="The operator tries again by itself.")
    return _policy(
        (names.JOBSET_GROUP, "v1alpha2", names.JOBSETS),
        ["CREATE"],
        f"{_QUEUE} == '' ? {_TENANT} == '' : {_SUSPENDED}",
        message,
    )


def _trainjobs_own_themselves() -> dict[str, Any]:
    jobs = ", ".join(f"'{kind}'" for kind in _JOBS)
    of_a_job = (
        "{}.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) == true "
        f"&& owner.apiVersion.split('/')[0] + '/' + owner.kind in [{jobs}])"
    )
    before = f"oldObject != null && {of_a_job.format('oldObject')}"
    return _policy(
        (names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINJOBS),
        ["CREATE", "UPDATE"],
        f"!({of_a_job.format('object')}) || ({before})",
        "metadata.ownerReferences: the controller of a TrainJob must not be another job, since Kueue would "
        "then count it as a part of that job and give it no quota of its own. Remove the reference, or its "
        "field controller.",
    )


def _webhooks_are_there() -> dict[str, Any]:
    """The operator's webhooks come last and go first. Whoever they have not judged must not wait for them."""
    policy = _policy(
        (names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINJOBS),
        ["CREATE"],
        "params.?webhooks.orValue([]).size() > 0",
        f"ValidatingWebhookConfiguration {names.VALIDATING_WEBHOOKS} has no webhooks. Have the platform team "
        "roll the stack out.",
    )
    kind = {"apiVersion": f"{_GROUP}/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**policy, "paramKind": kind}


def _policy(
    kind: tuple[str, str, str], operations: Sequence[str], expression: str, message: str
) -> dict[str, Any]:
    group, version, resource = kind
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
    }
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": message}],
    }


def _policy_and_binding(
    name: str, policy: dict[str, Any], scope: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    binding = {"policyName": name, "validationActions": ["Deny"], **scope}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        yield {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
