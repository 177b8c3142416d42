"""The manifest that sends a TrainJob again: all that its user wrote, and nothing that a cluster adds."""

import copy
from typing import Any

import pytest

from trainyard_assist import resend

GATES = "kueue.x-k8s.io/admission-gated-by"
QUEUE = "kueue.x-k8s.io/queue-name"
POD = {
    "volumes": [
        {"name": "code", "secret": {"secretName": "code"}},
        {"name": "data", "configMap": {"name": "data"}},
        {
            "name": "both",
            "projected": {"sources": [{"secret": {"name": "token"}}, {"configMap": {"name": "data"}}]},
        },
        {"name": "scratch", "emptyDir": {}},
    ]
}


def patch(manager: str, **template: Any) -> dict[str, Any]:
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def written(**more: Any) -> dict[str, Any]:
    """A TrainJob as its user wrote it, with everything that a user may write."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": "hello",
            "namespace": "team",
            "labels": {QUEUE: "default", "kueue.x-k8s.io/priority-class": "high", "team.example/run": "7"},
            "annotations": {"trainyard.dev/retention": "24h", "trainyard.dev/max-restarts": "0"},
            **more.pop("metadata", {}),
        },
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "mine"},
            "trainer": {"numNodes": 2, "env": [{"name": "A", "value": "b"}], "command": ["python", "t.py"]},
            "activeDeadlineSeconds": 60,
            "runtimePatches": [
                patch("me", spec=POD),
                patch("volcano", metadata={"annotations": {"scheduling.volcano.sh/queue-name": "gpus"}}),
            ],
            **more,
        },
    }


def stored(wish: dict[str, Any]) -> dict[str, Any]:
    """The TrainJob as the API server has it, with what the API server and the operator add."""
    trainjob = copy.deepcopy(wish)
    trainjob["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T10:00:00Z",
        "managedFields": [{"manager": "kubectl", "operation": "Update"}],
        "deletionTimestamp": "2026-01-01T11:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": [*trainjob["metadata"].get("finalizers", []), "foregroundDeletion"],
    }
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    trainjob["metadata"]["annotations"] = applied | trainjob["metadata"].get("annotations", {})
    spec = trainjob["spec"]
    spec.setdefault("suspend", False)
    spec.setdefault("managedBy", "trainer.kubeflow.org/trainjob-controller")
    for entry in spec.get("runtimePatches", []):
        entry["time"] = "2026-01-01T10:00:00Z"
    return {**trainjob, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def queued(wish: dict[str, Any]) -> dict[str, Any]:
    """The same in a queue that holds TrainJobs, where Kueue resumes and suspends it."""
    trainjob = stored(wish)
    if trainjob["spec"]["suspend"]:
        gates = trainjob["metadata"]["annotations"].get(GATES)
        ours = "trainyard.dev/sent-suspended"
        trainjob["metadata"]["annotations"][GATES] = f"{gates},{ours}" if gates else ours
    kueues = patch("kueue.x-k8s.io/manager", spec={"nodeSelector": {"pool": "a"}})
    trainjob["spec"]["runtimePatches"] = [*trainjob["spec"].get("runtimePatches", []), kueues]
    trainjob["spec"]["suspend"] = True
    return trainjob


BARE = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "hello", "namespace": "team", "labels": {QUEUE: "default"}},
    "spec": {"runtimeRef": {"name": "plain"}},
}


@pytest.mark.parametrize("cluster", [stored, queued])
@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(BARE, id="nothing but a runtime"),
        pytest.param(written(), id="everything"),
        pytest.param(written(suspend=True), id="suspended"),
        pytest.param(written(managedBy="kueue.x-k8s.io/multikueue"), id="for another cluster"),
        pytest.param(
            written(suspend=True, metadata={"annotations": {GATES: "team.example/budget"}}),
            id="with a gate of its own",
        ),
        pytest.param(
            written(
                metadata={
                    "finalizers": ["team.example/cleanup"],
                    "ownerReferences": [{"kind": "ConfigMap", "name": "sweep", "uid": "s"}],
                }
            ),
            id="with a finalizer and an owner",
        ),
    ],
)
def test_what_a_cluster_adds_goes_and_what_its_user_wrote_stays(wish: dict[str, Any], cluster: Any) -> None:
    assert resend.manifest(cluster(wish)) == wish


def test_another_name_is_the_only_other_difference() -> None:
    assert resend.manifest(stored(written()), "again") == {
        **written(),
        "metadata": {**written()["metadata"], "name": "again"},
    }


def test_a_copy_is_not_taken_for_an_object_of_the_tool_that_manages_the_first() -> None:
    marks = {
        "labels": {QUEUE: "default", "app.kubernetes.io/instance": "jobs", "app.kubernetes.io/name": "hello"},
        "annotations": {"argocd.argoproj.io/tracking-id": "jobs:trainer.kubeflow.org/TrainJob:team/hello"},
    }
    trainjob = stored(written(metadata=marks))
    assert resend.manifest(trainjob) == written(metadata=marks)
    labels = {QUEUE: "default", "app.kubernetes.io/name": "hello"}
    assert resend.manifest(trainjob, "again")["metadata"] == {
        "name": "again",
        "namespace": "team",
        "labels": labels,
    }


def test_a_copy_is_not_taken_for_the_last_job_of_the_folder_of_the_first() -> None:
    labels = {QUEUE: "default", "trainyard.dev/folder": "resnet-1a2b3c4d"}
    trainjob = stored(written(metadata={"labels": labels}))
    assert resend.manifest(trainjob) == written(metadata={"labels": labels})
    assert resend.manifest(trainjob, "again") == written(
        metadata={"name": "again", "labels": {QUEUE: "default"}}
    )


def test_a_name_that_the_api_server_has_made_stays() -> None:
    generated = stored(written(metadata={"generateName": "hel"}))
    assert resend.manifest(generated) == written()


def test_who_suspended_a_running_job_of_a_jobset_queue_gets_it_suspended_again() -> None:
    """There `spec.suspend` is the user's alone."""
    trainjob = stored(written())
    trainjob["spec"]["suspend"] = True
    assert resend.manifest(trainjob) == written(suspend=True)


def test_what_another_controller_sends_is_not_sent_again_under_its_name() -> None:
    owner = {"kind": "Workflow", "name": "sweep", "uid": "w", "controller": True}
    trainjob = stored(written(metadata={"ownerReferences": [owner]}))
    assert resend.refusal(trainjob) == (
        "belongs to Workflow sweep, which sends it: retry that, or send a job of your own with --name"
    )
    assert resend.refusal(trainjob, "mine") == ""
    assert "ownerReferences" not in resend.manifest(trainjob, "mine")["metadata"]
    for part in ("labels", "annotations"):
        copied = stored(written(metadata={part: {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}))
        assert resend.refusal(copied, "mine") == "was sent by MultiKueue from another cluster: retry it there"
    assert resend.refusal(stored(written())) == ""


@pytest.mark.parametrize("trainjob", [{}, {"metadata": None, "spec": "x"}, {"spec": {"runtimePatches": [7]}}])
def test_what_has_no_form_makes_no_error(trainjob: dict[str, Any]) -> None:
    assert set(resend.manifest(trainjob)) == {"apiVersion", "kind", "metadata", "spec"}
    assert (resend.refusal(trainjob), resend.mounted(trainjob)) == ("", [])


def test_secrets_and_configmaps_that_its_patches_mount_are_named_once() -> None:
    assert resend.mounted(written()) == [("Secret", "code"), ("Secret", "token"), ("ConfigMap", "data")]


OLD = {"metadata": {"name": "hello", "uid": "u"}}
NEW = {"metadata": {"name": "again", "uid": "v"}}
OF_OLD = {"kind": "TrainJob", "name": "hello", "uid": "u", "blockOwnerDeletion": True}
OF_NEW = {"kind": "TrainJob", "name": "again", "uid": "v", "blockOwnerDeletion": True}
OTHER = {"kind": "ConfigMap", "name": "sweep", "uid": "s"}
CHILD = {"metadata": {"ownerReferences": [OTHER, OF_OLD]}}


def test_what_belongs_to_a_job_goes_to_the_next_one() -> None:
    assert resend.owners(CHILD, OLD) == [OTHER]
    assert resend.owners(CHILD, OLD, NEW) == [OTHER, OF_NEW]
    assert resend.owners(CHILD, OLD, NEW, shared=True) == [OTHER, OF_OLD, OF_NEW]
