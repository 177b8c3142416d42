"""PADDLE_* and LIGHTGBM_*: what each node of a job is told of the others."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.core_values import containers, replicated_job, runtime, trainjob
from trainyard_operator.core.admit.validation import validate
from trainyard_operator.core.model import Runtime

Object = dict[str, Any]
INDEX = {
    "valueFrom": {
        "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    }
}
FIRST, SECOND = "tj-node-0-0.tj:29500", "tj-node-0-1.tj:29500"
PADDLE = [
    {"name": "PADDLE_TRAINER_ID", **INDEX},
    {"name": "PADDLE_TRAINERS_NUM", "value": "2"},
    {"name": "PADDLE_TRAINER_ENDPOINTS", "value": f"{FIRST},{SECOND}"},
    {"name": "PADDLE_CURRENT_ENDPOINT", "value": "tj-node-0-$(PADDLE_TRAINER_ID).tj:29500"},
    {"name": "PADDLE_MASTER", "value": FIRST},
]
GLOO = {"name": "PADDLE_DISTRI_BACKEND", "value": "gloo"}
LIGHTGBM = [
    {"name": "LIGHTGBM_RANK", **INDEX},
    {"name": "LIGHTGBM_MACHINES", "value": f"{FIRST},{SECOND}"},
    {"name": "LIGHTGBM_NUM_MACHINES", "value": "2"},
    {"name": "LIGHTGBM_LOCAL_LISTEN_PORT", "value": "29500"},
]


def labelled(framework: str, policy: Object | None = None) -> Runtime:
    rt = runtime(policy or {"numNodes": 1}, [replicated_job()])
    return replace(rt, labels={"trainer.kubeflow.org/framework": framework})


def node(framework: str, policy: Object | None = None, **trainer: Any) -> Object:
    made: Object = containers(trainjob({"trainer": trainer}), labelled(framework, policy))["node"]
    return made


@pytest.mark.parametrize(("framework", "env"), [("paddle", [*PADDLE, GLOO]), ("lightgbm", LIGHTGBM)])
def test_each_node_has_its_number_and_the_addresses_of_all(framework: str, env: list[Object]) -> None:
    made = node(framework, numNodes=2)
    assert (made["env"], made["ports"]) == (env, [{"containerPort": 29500}])


@pytest.mark.parametrize("framework", ["paddle", "lightgbm"])
def test_a_node_alone_needs_none(framework: str) -> None:
    assert {"env", "ports"} & node(framework, numNodes=1).keys() == set()


def test_paddle_chooses_its_backend_where_there_are_gpus() -> None:
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    assert node("paddle", numNodes=2, resourcesPerNode=resources)["env"] == PADDLE


def test_paddle_chooses_its_backend_where_the_runtime_has_gpus() -> None:
    gpus = {"name": "node", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    rt = replace(labelled("paddle"), spec=runtime({"numNodes": 1}, [replicated_job(containers=[gpus])]).spec)
    job = trainjob({"trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"memory": "1Gi"}}}})
    assert containers(job, rt)["node"]["env"] == PADDLE


@pytest.mark.parametrize(
    ("framework", "own", "env"),
    [
        ("paddle", {**GLOO, "value": "mine"}, PADDLE),
        ("lightgbm", {"name": "LIGHTGBM_LOCAL_LISTEN_PORT", "value": "1"}, LIGHTGBM[:-1]),
    ],
)
def test_what_the_trainjob_sets_stays(framework: str, own: Object, env: list[Object]) -> None:
    assert node(framework, numNodes=2, env=[own])["env"] == [own, *env]


def test_a_master_of_the_trainjobs_own_is_that_of_paddles_launcher_which_sets_the_rest() -> None:
    own = {"name": "PADDLE_MASTER", "value": "mine:1"}
    assert node("paddle", numNodes=2, env=[own])["env"] == [own]


@pytest.mark.parametrize("framework", ["paddle", "lightgbm"])
def test_a_policy_of_the_runtime_takes_precedence_over_its_label(framework: str) -> None:
    policy = {"numNodes": 1, "jax": {}}
    assert node(framework, policy, numNodes=2) == node("jax", policy, numNodes=2)


@pytest.mark.parametrize("framework", ["paddle", "lightgbm"])
def test_the_addresses_of_all_fit_into_a_variable(framework: str) -> None:
    [error] = validate(trainjob({"trainer": {"numNodes": 9999}}), None, labelled(framework)).errors
    assert (error.path, "each pod has the addresses of all" in error.detail) == (
        "spec.trainer.numNodes",
        True,
    )


def test_the_address_of_a_node_is_its_own_whatever_the_job_is_called() -> None:
    job = replace(trainjob({"trainer": {"numNodes": 2}}), name="a-0-0")
    env = {entry["name"]: entry.get("value") for entry in containers(job, labelled("paddle"))["node"]["env"]}
    assert env["PADDLE_CURRENT_ENDPOINT"] == "a-0-0-node-0-$(PADDLE_TRAINER_ID).a-0-0:29500"
