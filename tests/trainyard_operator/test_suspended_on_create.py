"""A TrainJob that is sent suspended to a queue: what is written, and when it is let go."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import objects
from trainyard_api.errors import InvalidFieldError
from trainyard_operator.core.admit import suspended_on_create

GATES = "kueue.x-k8s.io/admission-gated-by"
OURS = "trainyard.dev/sent-suspended"
QUEUE = {"kueue.x-k8s.io/queue-name": "default"}
PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "w"}
POINTER = "/metadata/annotations/kueue.x-k8s.io~1admission-gated-by"


def job(
    suspend: bool | None, annotations: Any = None, *, labels: Any = None, owners: Any = None, **spec: Any
) -> dict[str, Any]:
    manifest = objects.trainjob(**spec)
    if suspend is not None:
        manifest["spec"]["suspend"] = suspend
    said = {"annotations": annotations, "labels": labels, "ownerReferences": owners}
    manifest["metadata"] |= {field: value for field, value in said.items() if value is not None}
    return manifest


def test_a_job_that_is_created_suspended_is_held() -> None:
    held = ({"op": "add", "path": POINTER, "value": OURS},)
    assert suspended_on_create.patch(job(True, {"a": "b"}), None) == held
    assert suspended_on_create.patch(job(True), None) == (
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        *held,
    )


def test_it_is_held_beside_whoever_else_holds_it() -> None:
    [operation] = suspended_on_create.patch(job(True, {GATES: "a.io/x"}), None)
    assert operation["value"] == f"a.io/x,{OURS}"


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(False), id="one that is to run"),
        pytest.param(job(None), id="one that says nothing"),
        pytest.param(job(True, {GATES: OURS}), id="one that is held already"),
        pytest.param(job(True, PREBUILT), id="one that MultiKueue sends"),
        pytest.param(job(True, labels=PREBUILT), id="one that MultiKueue of Kueue 0.17 sends"),
        pytest.param(
            job(True, owners=[{"kind": "X", "name": "x", "controller": True}]),
            id="one of another controller",
        ),
    ],
)
def test_others_are_left_as_they_are(manifest: dict[str, Any]) -> None:
    assert suspended_on_create.patch(manifest, None) == ()


def test_one_that_is_resumed_is_let_go_and_waits_suspended_for_its_quota() -> None:
    before = job(True, {GATES: OURS}, labels=QUEUE)
    assert suspended_on_create.patch(job(False, {GATES: OURS}, labels=QUEUE), before) == (
        {"op": "remove", "path": POINTER},
        {"op": "add", "path": "/spec/suspend", "value": True},
    )
    others = {GATES: f"a.io/x,{OURS}"}
    assert suspended_on_create.patch(job(None, others, labels=QUEUE), job(True, others, labels=QUEUE)) == (
        {"op": "replace", "path": POINTER, "value": "a.io/x"},
        {"op": "add", "path": "/spec/suspend", "value": True},
    )


def test_one_without_a_queue_runs_when_it_is_resumed() -> None:
    [operation] = suspended_on_create.patch(job(False, {GATES: OURS}), job(True, {GATES: OURS}))
    assert operation == {"op": "remove", "path": POINTER}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(job(True, {GATES: OURS}), job(True, {GATES: OURS}), id="still suspended"),
        pytest.param(job(True, {GATES: "a.io/x"}), job(False, {GATES: "a.io/x"}), id="held by others alone"),
        pytest.param(job(True), job(False), id="resumed by Kueue"),
        pytest.param(job(False), job(True), id="suspended later, which Kueue undoes"),
        pytest.param(job(False, {GATES: OURS}), job(False, {GATES: OURS}), id="it runs"),
    ],
)
def test_other_changes_are_left_as_they_are(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert suspended_on_create.patch(after, before) == ()


def applied(manifest: dict[str, Any], operations: Any) -> dict[str, Any]:
    changed = copy.deepcopy(manifest)
    for operation in operations:
        *way, last = (one.replace("~1", "/") for one in operation["path"].lstrip("/").split("/"))
        target = changed
        for step in way:
            target = target[step]
        if operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return changed


def test_to_hold_and_to_let_go_leaves_nothing() -> None:
    sent = job(True, {"a": "b"}, labels=QUEUE)
    stored = applied(sent, suspended_on_create.patch(sent, None))
    assert suspended_on_create.patch(stored, None) == ()
    resumed = copy.deepcopy(stored)
    resumed["spec"]["suspend"] = False
    assert applied(resumed, suspended_on_create.patch(resumed, stored)) == sent


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
METADATA = st.dictionaries(st.sampled_from(["annotations", "labels", "ownerReferences"]), ANY)
SPEC = st.fixed_dictionaries({"suspend": ANY}) | ANY


@given(METADATA | ANY, SPEC, METADATA | ANY)
def test_any_manifest_is_answered_or_refused_in_words(metadata: Any, spec: Any, before: Any) -> None:
    for old in (None, {"metadata": before, "spec": {"suspend": True}}):
        try:
            said = f"{len(suspended_on_create.patch({'metadata': metadata, 'spec': spec}, old))} operations"
        except InvalidFieldError as error:
            said = str(error)
        assert said
