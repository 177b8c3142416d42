"""How often what failed is tried again: the user's number, within what the runtime allows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.core_values import (
    at,
    built,
    jobset,
    observed,
    replicated_job,
    runtime,
    trainjob,
)
from trainyard_api.json_types import Json
from trainyard_operator.core.admit.validation import Answer, validate
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.reconcile import reconcile
from trainyard_operator.core.model import Create, JobSet, Runtime, TrainJob, Update

NAME = "trainyard.dev/max-restarts"
FIELD = f"metadata.annotations[{NAME}]"


def restarting(policy: Json | None, *jobs: Any) -> Runtime:
    rt = runtime({"numNodes": 1}, list(jobs) or [replicated_job(backoffLimit=0)])
    if policy is None:
        return rt
    spec = {**rt.spec["template"]["spec"], "failurePolicy": policy}
    return Runtime(rt.kind, rt.name, None, rt.uid, {**rt.spec, "template": {"spec": spec}})


TOGETHER = restarting({"maxRestarts": 3, "rules": [{"name": "GaveUp", "action": "FailJobSet"}]})
"""All pods restart, as in the catalog's runtimes for PyTorch."""
ONE_BY_ONE = restarting(None, replicated_job(backoffLimit=3))
"""Each pod is replaced by itself, as in `plain`."""
BOTH = restarting({"maxRestarts": 3}, replicated_job(backoffLimit=10))
"""Both, as in `torch-elastic`."""
UPSTREAMS = restarting(None, replicated_job())
"""Neither is named, as in Kubeflow Trainer's own runtimes."""
MPI = restarting(None, replicated_job(ancestor=None), replicated_job("launcher"))
WITH_INITIALIZER = restarting(
    {"maxRestarts": 3},
    replicated_job("model-initializer", "model-initializer", backoffLimit=3),
    replicated_job(backoffLimit=0),
)
IN_PLACE = restarting(
    {"maxRestarts": 3, "restartStrategy": "InPlaceRestart"}, replicated_job(backoffLimit=2147483647)
)
EACH_ITS_OWN = restarting(None, replicated_job(backoffLimitPerIndex=2))
ONCE = restarting({})


def asking(number: str | None, spec: Json | None = None, **fields: Any) -> TrainJob:
    return trainjob(spec, annotations={} if number is None else {NAME: number}, **fields)


def restarts(job: TrainJob, rt: Runtime) -> tuple[Any, ...]:
    """The JobSet's maxRestarts, and of each of its Jobs how often its pods are replaced."""
    spec = built(job, rt)["spec"]
    jobs = (job["template"]["spec"] for job in spec["replicatedJobs"])
    limits = [job.get("backoffLimitPerIndex", job.get("backoffLimit")) for job in jobs]
    return ((spec.get("failurePolicy") or {}).get("maxRestarts"), *limits)


@pytest.mark.parametrize(
    ("number", "rt", "expected"),
    [
        pytest.param(None, TOGETHER, (3, 0), id="without a number those of the runtime"),
        pytest.param("0", TOGETHER, (0, 0), id="no restart of all"),
        pytest.param("2", TOGETHER, (2, 0), id="fewer restarts of all, and none of single pods"),
        pytest.param("3", TOGETHER, (3, 0), id="as many as the runtime allows"),
        pytest.param("0", ONE_BY_ONE, (None, 0), id="no pod is replaced"),
        pytest.param("2", ONE_BY_ONE, (None, 2), id="fewer pods are replaced"),
        pytest.param("0", BOTH, (0, 0), id="neither all nor single pods"),
        pytest.param("3", BOTH, (3, 3), id="all, and single pods in each attempt"),
        pytest.param("1", UPSTREAMS, (None, 1), id="in place of Kubernetes' own number"),
        pytest.param("6", UPSTREAMS, (None, None), id="as many as Kubernetes' own number"),
        pytest.param("0", MPI, (None, 0, 0), id="the launcher and the others"),
        pytest.param("0", WITH_INITIALIZER, (0, 3, 0), id="initializers fetch as often as before"),
        pytest.param("1", IN_PLACE, (1, 2147483647), id="restarts in place need their backoffLimit"),
        pytest.param("1", EACH_ITS_OWN, (None, 1), id="a number for each pod"),
        pytest.param("0", ONCE, (0, 0), id="a runtime that restarts nothing"),
    ],
)
def test_a_trainjob_restarts_as_often_as_it_asks(
    number: str | None, rt: Runtime, expected: tuple[Any, ...]
) -> None:
    assert restarts(asking(number), rt) == expected


def test_only_the_numbers_differ_from_what_is_built_without_the_annotation() -> None:
    plain = built(asking(None), TOGETHER)
    policy = {**plain["spec"]["failurePolicy"], "maxRestarts": 1}
    assert built(asking("1"), TOGETHER) == {**plain, "spec": {**plain["spec"], "failurePolicy": policy}}


@pytest.mark.parametrize(
    ("number", "rt", "allowed"),
    [
        ("4", TOGETHER, "a whole number from 0 to 3"),
        ("-1", TOGETHER, "a whole number from 0 to 3"),
        ("1.5", TOGETHER, "a whole number from 0 to 3"),
        ("never", TOGETHER, "a whole number from 0 to 3"),
        ("", TOGETHER, "a whole number from 0 to 3"),
        ("٣", TOGETHER, "a whole number from 0 to 3"),
        ("4", BOTH, "a whole number from 0 to 3"),
        ("4", ONE_BY_ONE, "a whole number from 0 to 3"),
        ("7", UPSTREAMS, "a whole number from 0 to 6"),
        ("3", EACH_ITS_OWN, "a whole number from 0 to 2"),
        ("1", ONCE, "0"),
    ],
)
def test_what_is_no_number_or_more_than_the_runtime_allows_is_refused(
    number: str, rt: Runtime, allowed: str
) -> None:
    [error] = validate(asking(number), None, rt).errors
    assert str(error) == (
        f'{FIELD}: Invalid value: "{number}": must be {allowed}: '
        'ClusterTrainingRuntime "rt" allows no more restarts'
    )


def test_a_long_value_is_not_repeated() -> None:
    [error] = validate(asking("9" * 200_000), None, TOGETHER).errors
    assert len(str(error)) < 300


def made_with(number: str | None, **fields: Any) -> JobSet:
    [*_, create] = reconcile(observed(asking(number, **fields), rt=TOGETHER), at(1)).writes
    assert isinstance(create, Create)
    return jobset(
        annotations=create.manifest["metadata"]["annotations"], suspend=create.manifest["spec"]["suspend"]
    )


def test_the_number_is_noted_on_the_jobset_that_is_made_with_it() -> None:
    assert made_with("1").annotations[NAME] == "1"
    assert NAME not in made_with(None).annotations


@pytest.mark.parametrize(
    ("before", "after", "made", "shown"),
    [
        ("1", "2", "1", 'with "1"'),
        ("1", None, "1", 'with "1"'),
        (None, "0", None, "without it"),
        ("0", "many", "0", 'with "0"'),
    ],
)
def test_the_number_of_a_jobset_cannot_be_changed(
    before: str | None, after: str | None, made: str | None, shown: str
) -> None:
    [error] = validate(asking(after), asking(before), TOGETHER, made_with(made)).errors
    assert str(error) == (
        f"{FIELD}: Forbidden: JobSet tj was made {shown}, and cannot be changed; leave it as it was, "
        "or send the TrainJob under another name"
    )


@pytest.mark.parametrize(
    ("after", "made"),
    [
        pytest.param(asking("1"), made_with("1"), id="it is as it was"),
        pytest.param(asking("1", {"suspend": True}), made_with("1"), id="the job is suspended"),
        pytest.param(asking("2"), None, id="there is no JobSet yet"),
    ],
)
def test_other_updates_are_let_in(after: TrainJob, made: JobSet | None) -> None:
    assert validate(after, asking("1"), TOGETHER, made) == Answer()


def test_a_number_is_withdrawn_before_there_is_a_jobset_whatever_has_become_of_the_runtime() -> None:
    assert validate(asking(None), asking("1"), None) == Answer()


def test_a_number_that_was_written_past_admission_is_put_right() -> None:
    assert validate(asking("1"), asking("many"), TOGETHER, made_with("1")) == Answer()


def test_a_number_that_comes_before_the_jobset_is_held_to_what_the_runtime_allows() -> None:
    [error] = validate(asking("4"), asking(None), TOGETHER).errors
    assert error.path == FIELD


@pytest.mark.parametrize("number", ["0", None, "many"])
def test_a_jobset_keeps_the_number_it_was_made_with_whatever_the_trainjob_says_by_now(
    number: str | None,
) -> None:
    suspended = {"suspend": True}
    made = made_with("1", spec=suspended)
    seen = observed(asking(number, suspended), made, TOGETHER)
    plan = reconcile(seen, at(2))
    assert [write for write in plan.writes if isinstance(write, Create | Update)] == []
    assert "Blocked" not in str(plan.status)


def test_children_beside_the_jobset_do_not_depend_on_what_the_trainjob_says_by_now() -> None:
    rt = runtime({"mpi": {}}, [replicated_job(ancestor=None), replicated_job("launcher")])
    for number in (None, "many"):
        seen = observed(asking(number, {"suspend": True}), made_with(None), rt, companions=None)
        needs = reconcile(seen, at(2)).needs
        assert needs is not None
        assert [child.kind for child in needs.companions] == ["Secret", "ConfigMap"]


def test_a_resumed_job_is_let_in_with_the_number_of_its_jobset() -> None:
    """Somebody has written another number past admission."""
    held, resumed = asking("many", {"suspend": True}), asking("many", {"suspend": False})
    assert validate(resumed, held, TOGETHER, made_with("1")) == Answer()


def test_a_number_that_a_newer_runtime_does_not_allow_blocks_the_job_and_says_so() -> None:
    plan = reconcile(observed(asking("4"), rt=TOGETHER), at(1))
    assert plan.status is not None
    [blocked] = plan.status["conditions"]
    assert (blocked["reason"], blocked["message"]) == (
        "RuntimeInvalid",
        f'no JobSet can be built from ClusterTrainingRuntime "rt": {FIELD}: Invalid value: "4": must be a '
        'whole number from 0 to 3: ClusterTrainingRuntime "rt" allows no more restarts; '
        "correct the runtime or the TrainJob",
    )


def test_the_revision_of_a_runtime_does_not_depend_on_the_number() -> None:
    name = revisions.name_of(TOGETHER)
    assert made_with("1").annotations["trainyard.dev/runtime-revision"] == name
