"""Whatever a runtime or a TrainJob holds, with every policy there is: a plan and an answer come back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.core_values import at, observed, replicated_job, runtime, trainjob
from tests.support.junk import DEEP, JOB, JUNK, places, spoiled
from trainyard_operator.core.admit.validation import validate, validate_runtime
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide.reconcile import reconcile

GATES = Settings(feature_gates=frozenset({"TrainJobStatus"}))
CONTAINER = {
    "name": "node",
    "image": "i",
    "command": ["tune", "run", "output_dir=/o"],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "resources": {"requests": {"cpu": "1"}},
}
POD = {
    "overhead": {"cpu": "1"},
    "resources": {"requests": {"cpu": "1"}},
    "priorityClassName": "p",
    "volumes": [{"name": "v", "emptyDir": {}}],
    "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
}


def rich(policy):
    worker, launcher = (
        replicated_job("node", None, [CONTAINER]),
        replicated_job("launcher", "trainer", [CONTAINER]),
    )
    worker["template"]["spec"]["template"]["spec"] |= POD
    launcher["dependsOn"] = [{"name": "node", "status": "Ready"}]
    rt = runtime(
        policy, [worker, launcher], metadata={"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    )
    groups = {"coscheduling": {"scheduleTimeoutSeconds": 1}, "volcano": {"networkTopology": {"mode": "hard"}}}
    return replace(rt, name="torchtune-llama3.2-1b", spec={**rt.spec, "podGroupPolicy": groups})


MPI = {
    "numProcPerNode": 1,
    "mpiImplementation": "OpenMPI",
    "sshAuthMountPath": "/s",
    "runLauncherAsNode": True,
}
TORCH = {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["node"]}]}}
RUNTIMES = [
    rich({"numNodes": 2, **policy})
    for policy in ({"mpi": MPI}, {"torch": TORCH}, {"jax": {}}, {"xgboost": {}})
]
TRAINER = {**JOB["trainer"], "command": ["tune", "run"], "args": ["model.quantize_base=True"]}
SPEC = {**JOB, "trainer": TRAINER, "runtimeRef": {"name": "torchtune-llama3.2-1b"}}
SPEC.pop("initializer")


def comes_back(job, rt):
    plan = reconcile(observed(job, rt=rt), at(1), GATES, plugins.ALL)
    assert plan.writes or plan.status["conditions"][-1]["type"] in ("Blocked", "Failed")
    for old in (None, replace(job, spec={}), replace(job, spec={**SPEC, "suspend": True})):
        validate(job, old, rt, settings=GATES)
    validate_runtime(rt)


@pytest.mark.parametrize("rt", RUNTIMES, ids=lambda rt: list(rt.spec["mlPolicy"])[1])
def test_what_is_in_order_is_built_and_let_in(rt):
    assert reconcile(observed(trainjob(SPEC), rt=rt), at(1), GATES, plugins.ALL).writes
    assert validate_runtime(rt).errors == ()


@given(data=st.data(), rt=st.sampled_from(RUNTIMES), junk=JUNK)
def test_with_junk_in_the_runtime(data, rt, junk):
    place = data.draw(st.sampled_from(list(places(rt.spec))[1:]))
    comes_back(trainjob(SPEC), replace(rt, spec=spoiled(rt.spec, place, junk)))


@given(place=st.sampled_from(list(places(SPEC))[1:]), rt=st.sampled_from(RUNTIMES), junk=JUNK)
def test_with_junk_in_the_trainjob(place, rt, junk):
    comes_back(trainjob(spoiled(SPEC, place, junk)), rt)


def test_what_is_nested_too_deep_is_refused() -> None:
    rt = RUNTIMES[0]
    for answer in (
        validate(trainjob({"trainer": DEEP}), None, rt),
        validate_runtime(replace(rt, spec={**rt.spec, "unknown": DEEP})),
        validate_runtime(replace(rt, spec={**rt.spec, "unknown": DEEP}), rt),
    ):
        (error,) = answer.errors
        assert str(error) == 'spec: Invalid value: "...": must not be nested deeper than 100 levels'
