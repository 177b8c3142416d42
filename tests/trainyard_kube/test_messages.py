"""What others say about a refusal is told without what was rejected."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_kube.client import error_from
from trainyard_kube.messages import LONGEST, without_values

JOBS = [{"name": "node", "env": [{"name": "TOKEN", "value": 'hf_"CANARY'}]}]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"spec.replicatedJobs: Invalid value: {json.dumps(JOBS)}: field is immutable",
            "spec.replicatedJobs: Invalid value: (not shown): field is immutable",
        ),
        (
            'JobSet "x" is invalid: [a.b: Invalid value: "it\'s: CANARY": must be shorter, '
            'c[0].d: Duplicate value: "CANARY", e["f"]: Unsupported value: 3: supported values: "A", "B"]',
            'JobSet "x" is invalid: [a.b: Invalid value: (not shown): must be shorter, '
            'c[0].d: Duplicate value: (not shown), e["f"]: Unsupported value: (not shown): '
            'supported values: "A", "B"]',
        ),
        (
            'spec: Invalid value: v1.PodSpec{Env:[]v1.EnvVar{v1.EnvVar{Value:"CANARY"}}}: no',
            "spec: Invalid value: (not shown): no",
        ),
        ("args: Invalid value: [python --token CANARY]: no", "args: Invalid value: (not shown): no"),
        ('value: Invalid value: "CANARY without an end', "value: Invalid value: (not shown)"),
        ('denied the request: {"env": {"a": ["CANARY"]}} is bad', "denied the request: (not shown) is bad"),
        ('denied: [{"env": "CANARY"}], map[a:CANARY]', "denied: (not shown), (not shown)"),
        (
            'pods "x" is forbidden: exceeded quota: gpus, requested: gpu=8, used: gpu=0, limited: gpu=4',
            'pods "x" is forbidden: exceeded quota: gpus, requested: gpu=8, used: gpu=0, limited: gpu=4',
        ),
        ("a\nnew\x1b[31m line", "a new [31m line"),
        ("x" * 10_000, "x" * (LONGEST - 4) + " ..."),
    ],
)
def test_a_message_is_told_without_values_in_one_line_of_bounded_length(said: str, told: str) -> None:
    assert without_values(said) == told


@given(st.text(), st.text(), st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_no_value_of_a_field_error_is_told_whatever_else_is_in_it(
    before: str, after: str, value: object
) -> None:
    shown = json.dumps([value, {"value": f"{before}CANARY{after}"}], ensure_ascii=False)
    for message in (f"spec: Invalid value: {shown}: no", f"denied: {shown}", f'denied: {{"a": {shown}}}'):
        assert "CANARY" not in without_values(message)


def test_every_error_of_the_api_server_is_told_without_values() -> None:
    body = json.dumps({"message": f"spec: Invalid value: {json.dumps(JOBS)}: no", "reason": "Invalid"})
    assert str(error_from(422, body.encode())) == "422 Invalid: spec: Invalid value: (not shown): no"


def test_a_message_of_megabytes_takes_no_time() -> None:
    for said in ('{"' * 1_000_000, "Invalid value: " * 200_000, '["' * 1_000_000, '{"a"}' * 500_000):
        assert len(without_values(said)) <= LONGEST
