"""What a bench makes of the calls that it has seen."""

from types import SimpleNamespace
from typing import Any

from benchmarks.audit import Call
from benchmarks.bench import OURS, Bench


def call(verb, resource, name, agent, at):
    code = 201 if verb == "create" else 200
    return Call(verb, resource, "default", name, agent, code, at - 0.01, at)


def bench(*calls):
    plane: Any = SimpleNamespace(tail=SimpleNamespace(calls=calls))
    nobody: Any = None
    return Bench(OURS, plane, driver=nobody, controller=nobody)


def test_the_operators_part_of_the_way_to_a_pod_begins_when_kueue_resumes_the_trainjob():
    operator, kueue, kwok = "trainyard-operator/1", "kueue/v0.19.0", "kwok/v0.7.0"
    found = bench(
        call("create", "trainjobs", "a", "user", 10.0),
        call("create", "jobsets", "a", operator, 10.5),
        call("update", "trainjobs", "a", kueue, 11.0),  # what its pods shall have
        call("patch", "trainjobs", "a", kueue, 12.0),  # it may run
        call("patch", "jobsets", "a", operator, 12.2),
        call("patch", "pods/status", "a-node-0-0-x1y2z", kwok, 14.0),
        call("patch", "jobsets", "a", operator, 15.0),
        call("patch", "pods/status", "a-node-0-1-x1y2z", kwok, 16.0),
        call("update", "trainjobs", "a", kueue, 17.0),
    )
    assert {name: round(value, 6) for name, value in found.to_pod(["a"]).items()} == {
        "creation to running pod, p50, ms": 4000.0,
        "creation to running pod, p99, ms": 4000.0,
        "of it the operator's, %": 5.0,
    }
