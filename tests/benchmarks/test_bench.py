"""What a bench makes of the calls that it has seen."""

from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.audit import Call
from benchmarks.bench import OF_TRAINJOBS, OURS, Bench
from benchmarks.driver import Driver


def call(verb, resource, name, agent, at):
    code = 201 if verb == "create" else 200
    return Call(verb, resource, "default", name, agent, code, at - 0.01, at)


def bench(side, *calls):
    plane: Any = SimpleNamespace(tail=SimpleNamespace(calls=calls))
    nobody: Any = None
    return Bench(side, plane, driver=nobody, controller=nobody)


OPERATOR, KUEUE, KWOK = "trainyard-operator/1", "kueue/v0.19.0", "kwok/v0.7.0"


def test_where_queues_hold_trainjobs_the_operators_part_begins_when_kueue_resumes_the_trainjob():
    seen = bench(
        OF_TRAINJOBS,
        call("create", "trainjobs", "a", "user", 10.0),
        call("create", "jobsets", "a", OPERATOR, 10.5),
        call("update", "trainjobs", "a", KUEUE, 11.0),  # what its pods shall have
        call("patch", "trainjobs", "a", KUEUE, 12.0),  # it may run
        call("patch", "jobsets", "a", OPERATOR, 12.2),
        call("patch", "pods/status", "a-node-0-0-x1y2z", KWOK, 14.0),
        call("patch", "jobsets", "a", OPERATOR, 15.0),
        call("patch", "pods/status", "a-node-0-1-x1y2z", KWOK, 16.0),
        call("update", "trainjobs", "a", KUEUE, 17.0),
    )
    assert {name: round(value, 6) for name, value in seen.to_pod(["a"]).items()} == {
        "creation to running pod, p50, ms": 4000.0,
        "creation to running pod, p99, ms": 4000.0,
        "of it the operator's, %": 5.0,
    }


def test_where_queues_hold_jobsets_the_operators_part_is_the_way_to_the_jobset():
    seen = bench(
        OURS,
        call("create", "trainjobs", "a", "user", 10.0),
        call("create", "jobsets", "a", OPERATOR, 10.5),
        call("update", "jobsets", "a", KUEUE, 12.0),  # it may run
        call("patch", "pods/status", "a-node-0-0-x1y2z", KWOK, 15.0),
    )
    assert {name: round(value, 6) for name, value in seen.to_pod(["a"]).items()} == {
        "creation to running pod, p50, ms": 5000.0,
        "creation to running pod, p99, ms": 5000.0,
        "of it the operator's, %": 10.0,
    }


@pytest.mark.parametrize(
    ("side", "writes", "at"),
    [
        (
            OURS,
            [
                ("patch", "jobsets", OPERATOR, 11.0),
                ("patch", "jobsets", KUEUE, 12.0),
                ("patch", "jobsets", KUEUE, 13.0),
            ],
            12.0,
        ),
        (
            OF_TRAINJOBS,
            [
                ("patch", "jobsets", OPERATOR, 11.0),
                ("update", "trainjobs", KUEUE, 12.0),  # what its pods shall have
                ("patch", "jobsets", OPERATOR, 13.0),
                ("patch", "trainjobs", KUEUE, 14.0),  # it may run
                ("patch", "jobsets", OPERATOR, 15.0),
            ],
            15.0,
        ),
    ],
    ids=[
        "by Kueue, where queues hold JobSets",
        "by the operator after Kueue's word, where they hold TrainJobs",
    ],
)
def test_a_jobset_is_resumed(side, writes, at):
    tail: Any = SimpleNamespace()
    nobody: Any = None
    driver = Driver(nobody, tail, side.agent, side.queue_holds)
    tail.heard(call("create", "jobsets", "a", OPERATOR, 10.0))
    for verb, resource, agent, when in writes:
        tail.heard(call(verb, resource, "a", agent, when))
    assert driver.resumed == {"a": at}
