"""Manifests as the API server has them, for the tests of everything around the core."""

from __future__ import annotations

from typing import Any

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
ALL_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
EVENTS = "/api/v1/namespaces/team/events"
SYSTEM_LEASES = "/apis/coordination.k8s.io/v1/namespaces/trainyard-system/leases"
REVISIONS = "/apis/apps/v1/namespaces/trainyard-system/controllerrevisions"


def trainjob(name: str = "tj", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"runtimeRef": {"name": "rt", "kind": "ClusterTrainingRuntime"}, **spec},
    }


def runtime(name: str = "rt") -> dict[str, Any]:
    job = {
        "name": "node",
        "groupName": "default",
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "img"}]}}},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "generation": 1},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


def jobset(name: str = "tj", owner: str | None = "job-uid", **fields: Any) -> dict[str, Any]:
    owners = []
    if owner is not None:
        owners.append(
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "name": name,
                "uid": owner,
                "controller": True,
            }
        )
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners},
        "spec": {"suspend": False, "replicatedJobs": []},
        **fields,
    }
