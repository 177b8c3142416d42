"""Admission policies that keep each job in its queue."""

from typing import Any

import pytest

from trainyard_platform.parts.queues import gate

SELECTOR = {"matchExpressions": [{"key": "trainyard.dev/tenant", "operator": "Exists"}]}
QUEUE = ".metadata.?labels[?'kueue.x-k8s.io/queue-name'].orValue('')"
TENANT = "namespaceObject.metadata.?labels[?'trainyard.dev/tenant'].orValue('')"
SUSPENDED = "object.spec.?suspend.orValue(false) == true"
PATCHED = "object.spec.?runtimePatches.orValue([]).exists(patch, patch.manager == 'kueue.x-k8s.io/manager')"


def specs(**settings: bool) -> dict[tuple[str, str], Any]:
    """The specs of all policies and bindings, by their kind and the first part of their name."""
    manifests = gate.manifests(SELECTOR, **{"holds_jobsets": True, "admission": True, **settings})
    return {
        (manifest["kind"], manifest["metadata"]["name"].partition(".")[0]): manifest["spec"]
        for manifest in manifests
    }


@pytest.mark.parametrize(
    ("holds_jobsets", "resource", "complete", "way"),
    [
        (
            True,
            ("jobset.x-k8s.io", "v1alpha2", "JobSet"),
            SUSPENDED,
            "The operator tries again by itself.",
        ),
        (
            False,
            ("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
            f"{SUSPENDED} && {PATCHED}",
            "Create it again when the platform is back.",
        ),
    ],
    ids=["JobSets", "TrainJobs"],
)
def test_what_a_queue_holds_comes_suspended_and_keeps_its_queue(
    holds_jobsets: bool, resource: tuple[str, str, str], complete: str, way: str
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
                "expression": f"oldObject != null || (object{QUEUE} == '' ? {TENANT} == '' : {complete})",
                "message": f"a {kind} of a queue cannot be created now: Kueue, which holds it until there is "
                f"quota, is missing. {way} If Kueue is gone for good, delete "
                "ValidatingAdmissionPolicyBinding queued-jobs-wait.policy.trainyard.dev.",
            },
            {
                "expression": f"oldObject == null || oldObject{QUEUE} == '' || object{QUEUE} != ''",
                "message": "metadata.labels[kueue.x-k8s.io/queue-name]: must not be removed, since without "
                f"it the {kind} would run without quota. Keep the label, or delete the {kind} and create it "
                "again.",
            },
        ],
    }
