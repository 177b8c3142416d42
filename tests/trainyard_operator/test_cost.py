"""What the largest and nastiest TrainJobs and runtimes that admission accepts cost the operator."""

from __future__ import annotations

import itertools
import string
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Final

import pytest

from tests.harness.selection import long_unless
from tests.support.core_values import at, observed, replicated_job, runtime, trainjob
from trainyard_api.json_types import Json
from trainyard_operator.core.admit import admission_review, limits
from trainyard_operator.core.admit.validation import validate, validate_runtime
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide.reconcile import reconcile
from trainyard_operator.core.model import NOTHING, Runtime, TrainJob

Shape = Callable[[int], tuple[TrainJob, Runtime]]

GATES: Final = Settings(feature_gates=frozenset({"TrainJobStatus"}))
MOST: Final = 4_000_000
"""Calls of functions that one look at a TrainJob, or one answer of admission, may cost. On a core of 2026
the dearest of them take less than 200 ms, which is what the operator's event loop can bear."""
PATCHES: Final = 16
"""As many as the CRD allows."""
PLAIN: Final = runtime({"numNodes": 1, "torch": {}})


def words(number: int) -> Iterator[str]:
    """So many short names, each once."""
    lengths = (itertools.product(string.ascii_lowercase, repeat=n) for n in itertools.count(1))
    return itertools.islice(("".join(word) for word in itertools.chain.from_iterable(lengths)), number)


def named(number: int) -> list[dict[str, Any]]:
    return [{"name": word} for word in words(number)]


def replicated(name: str, pod: Json) -> dict[str, Any]:
    return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}


def patched(jobs: list[Any], *small: list[Any]) -> TrainJob:
    """A TrainJob with a large patch, and small ones until there are as many as may be."""
    lists = [jobs, *(small[n % len(small)] for n in range(PATCHES - 1))] if small else [jobs]
    return trainjob(
        {
            "trainer": {"numNodes": 2},
            "runtimePatches": [
                {
                    "manager": f"a.io/{n}",
                    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": items}}},
                }
                for n, items in enumerate(lists)
            ],
        }
    )


def grouped(rt: Runtime) -> Runtime:
    return replace(rt, spec={**rt.spec, "podGroupPolicy": {"coscheduling": {}, "volcano": {}}})


def variables(number: int) -> tuple[TrainJob, Runtime]:
    again = [replicated("r", {"containers": [{"name": "c", "env": [{"name": "a", "value": "1"}]}]})]
    return patched([replicated("r", {"containers": [{"name": "c", "env": named(number)}]})], again), PLAIN


def containers(number: int) -> tuple[TrainJob, Runtime]:
    again = [replicated("node", {"containers": [{"name": "a", "image": "i"}]})]
    return patched([replicated("node", {"containers": named(number)})], again), grouped(PLAIN)


def volumes(number: int) -> tuple[TrainJob, Runtime]:
    again = [replicated("node", {"volumes": [{"name": "a", "emptyDir": {}}]})]
    return patched([replicated("node", {"volumes": named(number)})], again), PLAIN


def ports(number: int) -> tuple[TrainJob, Runtime]:
    ports = [{"containerPort": n + 1} for n in range(number)]
    again = [replicated("node", {"containers": [{"name": "node", "ports": [{"containerPort": 5}]}]})]
    return patched([replicated("node", {"containers": [{"name": "node", "ports": ports}]})], again), PLAIN


def amounts(number: int) -> tuple[TrainJob, Runtime]:
    wanted = {word: str(n + 1) for n, word in enumerate(words(number))}
    job = trainjob({"trainer": {"resourcesPerNode": {"limits": wanted, "requests": wanted}}})
    return job, grouped(runtime({"torch": {}}, [replicated_job(str(n)) for n in range(2)]))


def trainers(number: int) -> tuple[TrainJob, Runtime]:
    job = trainjob({"trainer": {"env": named(number), "args": list(words(number))}})
    jobs = [replicated_job(f"node{n}") for n in range(limits.REPLICATED_JOBS - 1)]
    return job, grouped(runtime({"torch": {}}, [replicated_job(), *jobs]))


def variables_of_both(number: int) -> tuple[TrainJob, Runtime]:
    job = trainjob({"trainer": {"env": named(number)}})
    node = {"name": "node", "env": named(number)}
    return job, runtime({"torch": {}}, [replicated_job(containers=[node])])


def targets(number: int) -> tuple[TrainJob, Runtime]:
    aims = [{"jobName": "node", "containerNames": [word]} for word in words(number)]
    policy = {"torch": {"envInjection": {"targets": aims}}}
    found = [{"name": "node"}, *(c for c in named(number) if c["name"] != "node")]
    return trainjob({"trainer": {}}), runtime(policy, [replicated_job(containers=found)])


def dependencies(number: int) -> tuple[TrainJob, Runtime]:
    count = limits.REPLICATED_JOBS
    awaited = [{"name": f"n{n % count}", "status": "Ready"} for n in range(number)]
    jobs = [replicated_job(f"n{n}") for n in range(count)]
    return trainjob({"trainer": {}}), grouped(
        runtime({"torch": {}}, [*jobs[:-1], {**jobs[-1], "dependsOn": awaited}])
    )


def unknown(number: int) -> tuple[TrainJob, Runtime]:
    again = [{"name": "node", "x": [{}]}]
    return patched([{"name": "node", "x": [{}] * number}], again), PLAIN


def labels(number: int) -> tuple[TrainJob, Runtime]:
    text = dict.fromkeys(words(number), "")
    job = {"name": "node", "template": {"metadata": {"labels": text}}}
    return patched([job], [{"name": "node", "template": {"metadata": {"labels": {"a": "b"}}}}]), PLAIN


def hosts(number: int) -> tuple[TrainJob, Runtime]:
    jobs = [replicated_job(), replicated_job("launcher")]
    policy = {"mpi": {"runLauncherAsNode": True}}
    return trainjob({"trainer": {"numNodes": min(number, 10_000)}}), grouped(runtime(policy, jobs))


SHAPES: Final = (
    variables,
    containers,
    volumes,
    ports,
    amounts,
    trainers,
    variables_of_both,
    targets,
    dependencies,
    unknown,
    labels,
    hosts,
)


SOME: Final = long_unless((variables, targets, hosts).__contains__, SHAPES)
"""Lists, references and hosts: one of each, for `make check`."""


def accepted(job: TrainJob, rt: Runtime) -> bool:
    return not validate_runtime(rt).errors and not validate(job, None, rt, settings=GATES).errors


def largest(shape: Shape) -> tuple[TrainJob, Runtime]:
    """The largest of that shape which admission accepts, found by halving."""
    low, high = 1, 1 << 17
    while high - low > low // 16:
        middle = (low + high) // 2
        if accepted(*shape(middle)):
            low = middle
        else:
            high = middle
    return shape(low)


def answer(job: TrainJob, rt: Runtime) -> str:
    """What admission says about the runtime, or if there may be such a one about the TrainJob."""
    found = validate_runtime(rt).errors or validate(job, None, rt, settings=GATES).errors
    return admission_review.joined(found) if found else ""


def calls(work: Callable[[], object]) -> int:
    """How many calls of functions it costs: the same on a slow machine and on a busy one."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", SOME)
def test_the_largest_trainjob_that_is_accepted_costs_a_bounded_look(shape: Shape) -> None:
    job, rt = largest(shape)
    seen = observed(job, rt=rt)

    def look() -> None:
        assert reconcile(replace(seen, companions=None), at(1), GATES, plugins.ALL) != NOTHING
        assert reconcile(seen, at(1), GATES, plugins.ALL).writes

    assert calls(look) < MOST


@pytest.mark.parametrize("shape", SOME)
def test_an_answer_costs_a_bounded_number_of_calls_whatever_is_sent(shape: Shape) -> None:
    for number in (1 << 13, 1 << 16):
        assert calls(partial(answer, *shape(number))) < MOST, number


def test_thousands_of_equal_errors_are_answered_at_once() -> None:
    container = {"name": "node", "env": [{}]}
    many = patched([replicated("r", {"containers": [container] * 5_000})])
    assert validate(many, None, PLAIN).errors
    assert calls(lambda: answer(many, PLAIN)) < MOST


def test_a_refusal_for_size_comes_before_everything_else() -> None:
    long = patched([{"name": word, "x": "y" * 100} for word in words(3_000)])
    found = validate(replace(long, spec={**long.spec, "trainer": {"env": "none"}}), None, None)
    assert [str(error) for error in found.errors] == [
        "spec: Too long: may not be more than 262144 bytes as JSON, but has 365430",
        "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs: Too long: "
        "may not have more than 32 items, but has 3000",
    ]


def test_limits_and_requests_of_resources_have_a_number_that_is_enough() -> None:
    found = validate(*amounts(1_001)[:1], None, PLAIN)
    assert [str(error) for error in found.errors] == [
        "spec: Too long: may not have more than 2000 limits and requests of resources, but has 2002"
    ]
