"""TF_CONFIG: what each task of a TensorFlow job is told of the others."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.core_values import built, containers, jobset, replicated_job, runtime, trainjob
from trainyard_operator.core.admit.validation import validate
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.build.plugins import peers
from trainyard_operator.core.decide import child_annotations, revisions
from trainyard_operator.core.model import Runtime, TrainJob

Object = dict[str, Any]
INDEX = {
    "name": "TF_TASK_INDEX",
    "valueFrom": {
        "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    },
}
OWN = {"name": "TF_CONFIG", "value": "{}"}


def labelled(policy: Object, *beside: Object, framework: str = "tensorflow", **trainer: Any) -> Runtime:
    jobs = [*beside, replicated_job(**trainer)]
    return replace(runtime(policy, jobs), labels={"trainer.kubeflow.org/framework": framework})


def beside(name: str, count: int = 1, **container: Any) -> Object:
    return replicated_job(
        name, None, [{"name": "node", "image": f"for-{name}", **container}], parallelism=count
    )


def addresses(job: str, count: int) -> list[str]:
    return [f"tj-{job}-0-{index}.tj:29500" for index in range(count)]


def env(job: TrainJob, rt: Runtime, step: str = "node") -> list[Object]:
    variables: list[Object] = containers(job, rt, step)["node"].get("env", [])
    return variables


def config(job: TrainJob, rt: Runtime, step: str, index: int) -> Any:
    """TF_CONFIG as the kubelet makes it: each variable may name those before it."""
    first, second = env(job, rt, step)[-2:]
    assert (first, second["name"]) == (INDEX, "TF_CONFIG")
    return json.loads(second["value"].replace("$(TF_TASK_INDEX)", str(index)))


def test_each_worker_has_all_of_them_by_name_and_its_own_number() -> None:
    job, rt = trainjob({"trainer": {"numNodes": 3}}), labelled({"numNodes": 1})
    assert config(job, rt, "node", 2) == {
        "cluster": {"worker": addresses("node", 3)},
        "task": {"type": "worker", "index": 2},
    }
    assert containers(job, rt)["node"]["ports"] == [{"containerPort": 29500}]


def test_a_job_without_a_trainer_is_of_as_many_workers_as_its_runtime_says() -> None:
    assert config(trainjob(), labelled({"numNodes": 2}), "node", 0)["cluster"] == {
        "worker": addresses("node", 2)
    }


def test_one_node_needs_no_cluster() -> None:
    assert env(trainjob(), labelled({"numNodes": 1})) == []


def test_chief_and_parameter_servers_are_told_what_they_are_and_the_evaluator_is_no_member() -> None:
    rt = labelled({"numNodes": 2}, beside("chief"), beside("ps", 2), beside("evaluator"))
    cluster = {"worker": addresses("node", 2), "chief": addresses("chief", 1), "ps": addresses("ps", 2)}
    assert {step: config(trainjob(), rt, step, 0) for step in ("node", "chief", "ps", "evaluator")} == {
        step: {"cluster": cluster, "task": {"type": type_, "index": 0}}
        for step, type_ in [("node", "worker"), ("chief", "chief"), ("ps", "ps"), ("evaluator", "evaluator")]
    }
    jobs = built(trainjob(), rt)["spec"]["replicatedJobs"]
    assert {job["name"]: job["template"]["spec"]["parallelism"] for job in jobs} == {
        "chief": 1,
        "ps": 2,
        "evaluator": 1,
        "node": 2,
    }


PROGRAM: Object = {"image": "mine", "command": ["python"], "args": ["train.py"]}


def test_who_is_beside_the_workers_runs_the_trainjobs_program_without_its_resources() -> None:
    seed = {"name": "SEED", "value": "7"}
    resources = {"limits": {"nvidia.com/gpu": 8}}
    job = trainjob({"trainer": {**PROGRAM, "env": [seed], "resourcesPerNode": resources}})
    chief = containers(job, labelled({"numNodes": 1}, beside("chief")), "chief")["node"]
    assert {**chief, "env": chief["env"][:1]} == {
        "name": "node",
        **PROGRAM,
        "env": [seed],
        "ports": [{"containerPort": 29500}],
        "resources": {},
    }


@pytest.mark.parametrize(
    "own", [{"command": ["serve"]}, {"args": ["serve"]}, {"env": [OWN]}], ids=["command", "args", "TF_CONFIG"]
)
def test_who_has_a_program_of_its_own_in_the_runtime_keeps_it(own: Object) -> None:
    rt = labelled({"numNodes": 1}, beside("ps", **own))
    kept = containers(trainjob({"trainer": PROGRAM}), rt, "ps")["node"]
    assert {field: kept.get(field) for field in ("image", "command", "args")} == {
        "image": "for-ps",
        "command": own.get("command"),
        "args": own.get("args"),
    }


def test_a_replicated_job_of_another_name_is_no_task() -> None:
    rt = labelled({"numNodes": 2}, beside("tensorboard"))
    assert env(trainjob(), rt, "tensorboard") == []
    assert config(trainjob(), rt, "node", 0)["cluster"] == {"worker": addresses("node", 2)}


def test_tasks_in_several_jobs_cannot_be_numbered() -> None:
    servers = {**beside("ps"), "replicas": 2}
    assert [
        str(error) for error in validate(trainjob(), None, labelled({"numNodes": 2}, servers)).errors
    ] == [
        "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: must be 1: the number of pods is "
        "template.spec.parallelism"
    ]


@pytest.mark.parametrize("policy", [{"jax": {}}, {"torch": {}}, {"xgboost": {}}])
def test_a_policy_of_the_runtime_takes_precedence_over_its_label(policy: Object) -> None:
    rt = labelled({"numNodes": 2, **policy})
    assert env(trainjob(), rt) == env(trainjob(), replace(rt, labels={}))


def test_another_framework_is_left_alone() -> None:
    assert env(trainjob(), labelled({"numNodes": 2}, framework="plain")) == []


# --- what a job sets itself -------------------------------------------------


def test_a_tf_config_of_the_trainjobs_own_is_kept_and_that_is_said() -> None:
    job = trainjob({"trainer": {"numNodes": 2, "env": [{"name": "A", "value": "1"}, OWN]}})
    rt = labelled({"numNodes": 1})
    assert env(job, rt) == [{"name": "A", "value": "1"}, OWN]
    assert validate(job, None, rt).warnings == (
        "spec.trainer.env[1]: TF_CONFIG stays as it is, so a node does not know the others: leave it out, "
        "and each node gets its own",
    )


def test_a_tf_config_of_the_runtimes_own_is_kept() -> None:
    rt = labelled({"numNodes": 2}, containers=[{"name": "node", "image": "img", "env": [OWN]}])
    assert (env(trainjob(), rt), validate(trainjob(), None, rt).warnings) == ([OWN], ())


def test_of_a_tf_config_in_another_framework_nothing_is_said() -> None:
    job = trainjob({"trainer": {"env": [OWN]}})
    assert validate(job, None, labelled({"numNodes": 1}, framework="plain")).warnings == ()


# --- bounds -----------------------------------------------------------------


def test_the_addresses_of_all_fit_into_a_variable() -> None:
    most = peers.LONGEST // len("tj-node-0-9999.tj:29500")
    rt = labelled({"numNodes": 1}, beside("ps", 2), beside("evaluator", 9))
    assert [str(error) for error in validate(trainjob({"trainer": {"numNodes": 9999}}), None, rt).errors] == [
        f"spec.trainer.numNodes: Invalid value: 9999: must be less than or equal to {most - 2}, since each "
        "pod has the addresses of all in a variable"
    ]
    longest = len(env(trainjob({"trainer": {"numNodes": most - 2}}), rt)[-1]["value"])
    assert longest < 128 * 1024 - len("TF_CONFIG="), "Linux starts no program with a longer one"


def test_nodes_without_dns_names_are_refused() -> None:
    rt = labelled({"numNodes": 2})
    spec = {**rt.spec["template"]["spec"], "network": {"enableDNSHostnames": False}}
    rt = replace(rt, spec={**rt.spec, "template": {"spec": spec}})
    assert [error.detail for error in validate(trainjob(), None, rt).errors] == [
        "must not be false: with the runtime's mlPolicy, pods find each other by their DNS names"
    ]


# --- what has begun ---------------------------------------------------------


def test_a_jobset_that_trainer_has_made_gets_nothing_that_its_pods_cannot_get_any_more() -> None:
    before = child_annotations.as_begun(DEFAULT_SETTINGS, jobset(suspend=True))
    (made,) = (
        m for m in plugins.ALL.build(trainjob(), labelled({"numNodes": 2}), before) if m["kind"] == "JobSet"
    )
    [container] = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert "env" not in container


def test_a_revision_keeps_the_label_that_pods_depend_on() -> None:
    live = labelled({"numNodes": 2})
    revision = revisions.read(revisions.manifest_of(live, "trainyard-system"))
    assert revision is not None
    assert built(trainjob(), revision) == built(trainjob(), live)


def test_a_revision_from_before_pods_depended_on_it_stays_as_it_was() -> None:
    of_then = revisions.read(revisions.manifest_of(replace(labelled({"numNodes": 2}), labels={}), "system"))
    assert of_then is not None
    assert env(trainjob(), of_then) == []
    assert revisions.name_of(labelled({"numNodes": 2}, framework="torch")) == of_then.revision


@pytest.mark.parametrize("framework", [["tensorflow"], {"tensorflow": 1}, 7, "torch"])
def test_a_revision_with_another_label_than_its_name_says_is_not_honoured(framework: Any) -> None:
    manifest = revisions.manifest_of(labelled({"numNodes": 2}), "trainyard-system")
    assert revisions.read({**manifest, "data": {**manifest["data"], "framework": framework}}) is None
