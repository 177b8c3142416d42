"""The data cache: who may start one, and what is left out where there is none."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import program
from tests.support.program import Registered
from trainyard_platform.catalog import equipment
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.parts.data_cache import manifests

OPERATOR = {"image": "docker.io/trainyard/operator:1"}
QUEUES = {"kueue": {"enabled": True}, "queues": {"clusterQueues": {"all": {}}}}
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
RBAC = "rbac.authorization.k8s.io"


def runtime(name: str, *env: str) -> Runtime:
    container = {"name": "dataset-initializer", "env": [{"name": one, "value": "x"} for one in env]}
    job = {
        "name": "dataset-initializer",
        "template": {"spec": {"template": {"spec": {"containers": [container]}}}},
    }
    spec = {"template": {"spec": {"replicatedJobs": [job]}}}
    return Runtime(name=name, framework="torch", manifest={"spec": spec})


def test_runtimes_that_start_a_cache_are_told_apart_by_the_image_that_they_name() -> None:
    cached, plain = runtime("cached", "CACHE_IMAGE", "TRAIN_JOB_NAME"), runtime("plain", "TRAIN_JOB_NAME")
    assert equipment.without_cache([cached, plain]) == ([plain], ["cached"])


def test_an_initializer_may_make_what_a_cache_is_of_and_nothing_else() -> None:
    def rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
        return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}

    assert manifests.role() == {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kubeflow-trainer-cache-initializer"},
        "rules": [
            rule("leaderworkerset.x-k8s.io", "leaderworkersets", "create", "delete", "get"),
            rule("", "services", "create", "get"),
            rule("", "serviceaccounts", "create", "delete", "get"),
            rule("", "pods", "list"),
            rule("trainer.kubeflow.org", "trainjobs", "get"),
            rule("trainer.kubeflow.org", "trainjobs/finalizers", "update"),
        ],
    }


def test_it_may_so_in_the_namespaces_of_tenants() -> None:
    metadata = {"name": "kubeflow-trainer-cache-initializer", "namespace": "team"}
    assert manifests.account("team") == [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {
                "apiGroup": RBAC,
                "kind": "ClusterRole",
                "name": "kubeflow-trainer-cache-initializer",
            },
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    ]


def graph(folder: Path, **settings: Any) -> dict[str, Registered]:
    source = {"source": "folder", "folder": str(program.artifacts_folder(folder))}
    team = {"tenants": {"team": {"clusterQueue": "all"}}}
    registered = program.run({"operator": OPERATOR, "artifacts": source, **QUEUES, **team, **settings})
    return {one.key: one for one in registered}


@pytest.mark.usefixtures("pins")
def test_a_stack_with_a_cache_has_leaderworkerset_and_its_tenants_may_start_one(tmp_path: Path) -> None:
    found = graph(tmp_path, dataCache={"enabled": True, "replicas": 2})
    chart = found["kubernetes:helm.sh/v4:Chart lws"]
    assert (chart.inputs["namespace"], chart.inputs["skipCrds"]) == ("lws-system", True)
    assert chart.inputs["values"] == {
        "image": {
            "manager": {
                "repository": "registry.k8s.io/lws/lws",
                "tag": "v0.9.0",
                "pullPolicy": "IfNotPresent",
            }
        },
        "replicaCount": 2,
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "256Mi"},
        },
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    assert found[f"{CRD} leaderworkersets.leaderworkerset.x-k8s.io"].retain
    name = "team/kubeflow-trainer-cache-initializer"
    binding = found[f"kubernetes:{RBAC}/v1:RoleBinding rolebinding-{name}"]
    assert "kubernetes:core/v1:Namespace namespace-team" in binding.depends_on
    assert f"kubernetes:core/v1:ServiceAccount serviceaccount-{name}" in found


@pytest.mark.usefixtures("pins")
def test_a_stack_without_one_has_nothing_of_it(tmp_path: Path) -> None:
    found = graph(tmp_path)
    assert [key for key in found if "lws" in key or "cache" in key or "leaderworker" in key] == []
