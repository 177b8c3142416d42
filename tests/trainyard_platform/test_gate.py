"""Admission policies that keep each job in its queue."""

from typing import Any

import pytest

from trainyard_platform.parts.queues import gate

SELECTOR = {"matchExpressions": [{"key": "trainyard.dev/tenant", "operator": "Exists"}]}
QUEUE = ".metadata.?labels[?'kueue.x-k8s.io/queue-name'].orValue('')"
TENANT = "namespaceObject.metadata.?labels[?'trainyard.dev/tenant'].orValue('')"
SUSPENDED = "object.spec.?suspend.orValue(false) == true"
PATCHED = "object.spec.?runtimePatches.orValue([]).exists(patch, patch.manager == 'kueue.x-k8s.io/manager')"

SENDS_WORKLOADS = (
    "authorizer.group('kueue.x-k8s.io').resource('workloads').namespace(request.namespace)"
    ".check('create').allowed()"
)
WORKLOADS = (
    "[object.metadata.?annotations[?'kueue.x-k8s.io/prebuilt-workload-name'].orValue(''), "
    "object.metadata.?labels[?'kueue.x-k8s.io/prebuilt-workload-name'].orValue('')]"
)
OLD_WORKLOADS = WORKLOADS.replace("object.", "oldObject.")
NO_WORKLOAD = {
    "expression": f"{WORKLOADS} == ['', ''] || (oldObject != null && {WORKLOADS} == {OLD_WORKLOADS}) "
    f"|| {SENDS_WORKLOADS}",
    "message": "kueue.x-k8s.io/prebuilt-workload-name: must be neither an annotation nor a label, since the "
    "job would then run with the quota of the Workload of another job. Remove it from metadata.annotations "
    "and metadata.labels.",
}


ENTRY = (
    ".spec.?runtimePatches.orValue([]).exists(patch, patch.manager == 'kueue.x-k8s.io/manager' "
    "&& patch.?trainingRuntimeSpec.?template.?spec.hasValue())"
)
KEEPS_ENTRY = {
    "expression": f"oldObject == null || object{QUEUE} == '' || !(oldObject{ENTRY}) || object{ENTRY}",
    "message": "spec.runtimePatches: must keep the entry of manager kueue.x-k8s.io/manager, since without it "
    "Kueue can neither start nor stop the TrainJob. Write this entry into the manifest as kubectl get "
    "trainjob -o yaml shows it, or delete the TrainJob and create it again.",
}


JOBS = (
    "'apps/Deployment', 'apps/ReplicaSet', 'apps/StatefulSet', 'batch/Job', 'jobset.x-k8s.io/JobSet', "
    "'kubeflow.org/JAXJob', 'kubeflow.org/MPIJob', 'kubeflow.org/PaddleJob', 'kubeflow.org/PyTorchJob', "
    "'kubeflow.org/TFJob', 'kubeflow.org/XGBoostJob', 'leaderworkerset.x-k8s.io/LeaderWorkerSet', "
    "'ray.io/RayCluster', 'ray.io/RayJob', 'ray.io/RayService', 'sparkoperator.k8s.io/SparkApplication', "
    "'trainer.kubeflow.org/TrainJob', 'v1/Pod'"
)
OWNED = (
    "object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) == true "
    f"&& owner.apiVersion.split('/')[0] + '/' + owner.kind in [{JOBS}])"
)
FOR_GOOD = (
    "If Kueue is gone for good, delete ValidatingAdmissionPolicyBinding "
    "queued-jobs-wait.policy.trainyard.dev."
)
JOBSET_NAMES_ITS_QUEUE = {
    "expression": f"oldObject != null || object{QUEUE} != '' || {TENANT} == ''",
    "message": "metadata.labels[kueue.x-k8s.io/queue-name]: must name a queue of the namespace. Create the "
    "TrainJob again with this label; kubectl get localqueues lists the queues. If there is a queue default, "
    f"Kueue, which adds the label, is missing: the operator tries again by itself. {FOR_GOOD}",
}
TRAINJOB_NAMES_ITS_QUEUE = {
    "expression": f"oldObject != null || object{QUEUE} != '' || {TENANT} == '' || !({PATCHED}) || {OWNED}",
    "message": "metadata.labels[kueue.x-k8s.io/queue-name]: must name a queue of the namespace, which has no "
    "queue default. kubectl get localqueues lists them.",
}


def specs(**settings: bool) -> dict[tuple[str, str], Any]:
    """The specs of all policies and bindings, by their kind and the first part of their name."""
    manifests = gate.manifests(SELECTOR, **{"holds_jobsets": True, "admission": True, **settings})
    return {
        (manifest["kind"], manifest["metadata"]["name"].partition(".")[0]): manifest["spec"]
        for manifest in manifests
    }


@pytest.mark.parametrize(
    ("holds_jobsets", "resource", "waits", "way"),
    [
        (
            True,
            ("jobset.x-k8s.io", "v1alpha2", "JobSet"),
            f"oldObject != null || object{QUEUE} == '' || {SUSPENDED}",
            "The operator tries again by itself.",
        ),
        (
            False,
            ("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
            f"oldObject != null || (object{QUEUE} == '' ? {TENANT} == '' || {PATCHED} : "
            f"{SUSPENDED} && {PATCHED}) || {OWNED}",
            "Create it again when the platform is back.",
        ),
    ],
    ids=["JobSets", "TrainJobs"],
)
def test_what_a_queue_holds_comes_suspended_and_keeps_its_queue(
    holds_jobsets: bool, resource: tuple[str, str, str], waits: str, way: str
) -> None:
    group, version, kind = resource
    policy = specs(holds_jobsets=holds_jobsets)["ValidatingAdmissionPolicy", "queued-jobs-wait"]
    assert policy == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [f"{kind.lower()}s"],
                }
            ]
        },
        "validations": [
            {
                "expression": waits,
                "message": f"a {kind} of a queue cannot be created now: Kueue, which holds it until there is "
                f"quota, is missing. {way} {FOR_GOOD}",
            },
            JOBSET_NAMES_ITS_QUEUE if holds_jobsets else TRAINJOB_NAMES_ITS_QUEUE,
            {
                "expression": f"oldObject == null || oldObject{QUEUE} == '' || object{QUEUE} != ''",
                "message": "metadata.labels[kueue.x-k8s.io/queue-name]: must not be removed, since without "
                f"it the {kind} would run without quota. Keep the label, or delete the {kind} and create it "
                "again.",
            },
            NO_WORKLOAD if holds_jobsets else KEEPS_ENTRY,
        ],
    }


@pytest.mark.parametrize("holds_jobsets", [True, False])
def test_only_who_may_create_workloads_sends_a_trainjob_for_a_workload_that_exists(
    holds_jobsets: bool,
) -> None:
    policy = specs(holds_jobsets=holds_jobsets)["ValidatingAdmissionPolicy", "queued-jobs-own-themselves"]
    assert policy["matchConstraints"]["resourceRules"] == [{**RULE, "operations": ["CREATE", "UPDATE"]}]
    assert policy["validations"][1:] == [NO_WORKLOAD]


PLATFORM = "no-trainjobs-without-the-platform"
RULE = {
    "apiGroups": ["trainer.kubeflow.org"],
    "apiVersions": ["v1alpha1"],
    "operations": ["CREATE"],
    "resources": ["trainjobs"],
}


@pytest.mark.parametrize("holds_jobsets", [True, False])
def test_only_who_may_create_workloads_deletes_a_trainjob_without_its_jobset(holds_jobsets: bool) -> None:
    manifests = specs(holds_jobsets=holds_jobsets)
    assert manifests["ValidatingAdmissionPolicy", "trainjobs-go-with-their-jobsets"] == {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**RULE, "operations": ["CREATE", "UPDATE", "DELETE"]}]},
        "validations": [
            {
                "expression": "request.operation != 'DELETE' "
                "|| (request.options.?propagationPolicy.orValue('') != 'Orphan' "
                f"&& request.options.?orphanDependents.orValue(false) == false) || {SENDS_WORKLOADS}",
                "message": "a TrainJob must not be deleted without its JobSet, whose pods would run on. "
                "Delete it without propagationPolicy Orphan (kubectl: without --cascade=orphan).",
            },
            {
                "expression": "request.operation == 'DELETE' "
                "|| !('orphan' in object.metadata.?finalizers.orValue([])) "
                "|| (oldObject != null && 'orphan' in oldObject.metadata.?finalizers.orValue([])) "
                f"|| {SENDS_WORKLOADS}",
                "message": "metadata.finalizers: must not contain orphan, since the pods of the TrainJob "
                "would run on after its deletion. Remove this finalizer.",
            },
        ],
    }
    assert manifests["ValidatingAdmissionPolicyBinding", "trainjobs-go-with-their-jobsets"] == {
        "policyName": "trainjobs-go-with-their-jobsets.policy.trainyard.dev",
        "matchResources": {"namespaceSelector": SELECTOR},
        "validationActions": ["Deny"],
    }


def test_no_trainjob_is_created_without_the_webhooks_that_judge_it() -> None:
    policies = specs()
    assert policies["ValidatingAdmissionPolicy", PLATFORM] == {
        "failurePolicy": "Fail",
        "paramKind": {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
        },
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [
            {
                "expression": "params.?webhooks.orValue([]).size() > 0",
                "message": "ValidatingWebhookConfiguration validator.trainer.kubeflow.org has no webhooks. "
                "Have the platform team roll the stack out.",
            }
        ],
    }
    assert policies["ValidatingAdmissionPolicyBinding", PLATFORM] == {
        "policyName": f"{PLATFORM}.policy.trainyard.dev",
        "paramRef": {"name": "validator.trainer.kubeflow.org", "parameterNotFoundAction": "Deny"},
        "matchResources": {"namespaceSelector": SELECTOR},
        "validationActions": ["Deny"],
    }


def test_where_the_stack_has_no_webhooks_what_an_earlier_roll_out_has_left_refuses_nothing() -> None:
    policies = specs(admission=False)
    assert policies.keys() == specs().keys()
    assert policies["ValidatingAdmissionPolicy", PLATFORM] == {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [
            {
                "expression": "true",
                "message": "never refused: admission.enabled is false in the stack file.",
            }
        ],
    }
    assert policies["ValidatingAdmissionPolicyBinding", PLATFORM] == {
        "policyName": f"{PLATFORM}.policy.trainyard.dev",
        "matchResources": {"namespaceSelector": SELECTOR},
        "validationActions": ["Deny"],
    }
