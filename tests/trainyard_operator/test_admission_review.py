"""AdmissionReviews, read and answered: the shapes, the times of patches, and what must not hurt."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import objects
from trainyard_api.errors import ErrorType, FieldError, InvalidFieldError
from trainyard_operator.core.admit import admission_review
from trainyard_operator.core.admit.admission_review import MalformedError, Request
from trainyard_operator.core.model import Runtime, TrainJob

from .admission_reviews import body, request

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON = "2026-11-21T12:00:00Z"
EARLY = "2026-01-01T00:00:00Z"
LATE = "2030-01-01T00:00:00Z"


def job(*patches: Any) -> dict[str, Any]:
    return objects.trainjob(runtimePatches=list(patches))


def patch(manager: str = "a.io/x", **fields: Any) -> dict[str, Any]:
    return {"manager": manager, **fields}


def test_a_review_is_read_whole() -> None:
    new, old = objects.trainjob(), objects.trainjob("before")
    sent = body(new, old=old)
    assert admission_review.read(sent) == Request(
        uid="review-uid",
        kind="TrainJob",
        operation="UPDATE",
        namespace="team",
        name="tj",
        manifest=new,
        old=old,
        subresource="",
        user="",
        size=len(sent),
    )


def test_of_who_asks_and_what_for_nothing_is_left_out() -> None:
    read = admission_review.read(
        changed(subResource="status", userInfo={"username": "eve"}, oldObject={"a": "b"})
    )
    assert (read.subresource, read.user, read.old) == ("status", "eve", None)


def test_a_body_may_have_200_000_values_and_no_more() -> None:
    most = b"[" + b"0," * 199_999 + b"0]"
    with pytest.raises(MalformedError, match="not an AdmissionReview"):
        admission_review.read(most)
    with pytest.raises(MalformedError, match="more than 200000 values"):
        admission_review.read(most.replace(b"]", b",0]"))


def changed(**fields: Any) -> bytes:
    asked = {**request(objects.trainjob()), **fields}
    return json.dumps(
        {"apiVersion": admission_review.API_VERSION, "kind": admission_review.KIND, "request": asked}
    ).encode()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'"\\ud800"', "not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"[]", "not an AdmissionReview"),
        (b"{}", "not an AdmissionReview"),
        (b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}', "not an AdmissionReview"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "no request"),
        (changed(uid=None), "request.uid"),
        (changed(uid=""), "request.uid is empty"),
        (changed(kind="TrainJob"), "request.kind"),
        (changed(namespace=7), "request.namespace"),
        (changed(subResource={}), "request.subresource"),
        (changed(object=None), "request.object"),
        (changed(object=[]), "request.object"),
        (changed(operation="UPDATE"), "request.oldObject"),
    ],
)
def test_what_cannot_be_answered_is_named_in_one_line(sent: bytes, said: str) -> None:
    with pytest.raises(MalformedError, match=said) as caught:
        admission_review.read(sent)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_deletes_and_subresources_concern_nobody() -> None:
    assert admission_review.concerns(admission_review.read(body(objects.trainjob())))
    assert not admission_review.concerns(admission_review.read(changed(subResource="status")))
    assert not admission_review.concerns(admission_review.read(changed(operation="DELETE", object=None)))


@pytest.mark.parametrize(
    ("id_", "new", "old", "expected"),
    [
        ("no patches", objects.trainjob(), None, []),
        ("new, no time", job(patch()), None, [("add", 0, NOON)]),
        ("new, null", job(patch(time=None)), None, [("add", 0, NOON)]),
        ("new, its own time", job(patch(time=LATE)), None, []),
        ("as it was", job(patch()), job(patch(time=EARLY)), [("add", 0, EARLY)]),
        ("as it was, another time", job(patch(time=LATE)), job(patch(time=EARLY)), [("add", 0, EARLY)]),
        ("as it was, same time", job(patch(time=EARLY)), job(patch(time=EARLY)), []),
        ("never had a time", job(patch(time=LATE)), job(patch()), [("remove", 0, None)]),
        ("changed", job(patch(x=1, time=LATE)), job(patch(time=EARLY)), [("add", 0, NOON)]),
        ("changed, old time sent", job(patch(x=1, time=EARLY)), job(patch(time=EARLY)), [("add", 0, NOON)]),
        ("one more", job(patch(time=EARLY), patch("b.io/y")), job(patch(time=EARLY)), [("add", 1, NOON)]),
        (
            "in another order",
            job(patch("b.io/y"), patch()),
            job(patch(time=EARLY), patch("b.io/y", time=LATE)),
            [("add", 0, LATE), ("add", 1, EARLY)],
        ),
        ("no list", objects.trainjob(runtimePatches="x"), None, []),
        ("no objects", job("x", patch()), None, []),
        ("no manager", job({}), job({}), [("add", 0, NOON)]),
        ("a strange manager", job({"manager": []}), job(patch()), [("add", 0, NOON)]),
        ("a strange spec", {"spec": 7}, {"spec": []}, []),
    ],
)
def test_patches_are_noted_with_the_time_they_were_made(
    id_: str, new: Any, old: Any, expected: list[tuple[str, int, str | None]]
) -> None:
    found = admission_review.defaults(new, old, NOW)
    assert [
        (o["op"], int(o["path"].removeprefix("/spec/runtimePatches/").removesuffix("/time")), o.get("value"))
        for o in found
    ] == expected, id_


KUEUES = patch("kueue.x-k8s.io/manager", trainingRuntimeSpec={"template": {"spec": {}}}, time=EARLY)
OWN = patch(time=EARLY)


@pytest.mark.parametrize(
    ("new", "old", "operations"),
    [
        pytest.param(
            job(OWN),
            job(OWN, KUEUES),
            [{"op": "add", "path": "/spec/runtimePatches/-", "value": KUEUES}],
            id="the list is replaced",
        ),
        pytest.param(
            objects.trainjob(),
            job(OWN, KUEUES),
            [{"op": "add", "path": "/spec/runtimePatches", "value": [KUEUES]}],
            id="the list is removed",
        ),
        pytest.param(job(OWN, KUEUES), job(OWN, KUEUES), [], id="it is there"),
        pytest.param(job(OWN), None, [], id="it never was"),
        pytest.param(objects.trainjob(runtimePatches="x"), job(KUEUES), [], id="no list"),
        pytest.param(job("x"), job(KUEUES), [], id="no objects"),
        pytest.param({"spec": 7}, job(KUEUES), [], id="no spec"),
    ],
)
def test_the_patch_of_kueue_is_put_back(new: Any, old: Any, operations: list[Any]) -> None:
    assert list(admission_review.defaults(new, old, NOW)) == operations


def test_defaulting_twice_is_defaulting_once() -> None:
    """With reinvocationPolicy IfNeeded the API server may ask again with the answer applied."""
    once = job(patch())
    (operation,) = admission_review.defaults(once, None, NOW)
    once["spec"]["runtimePatches"][0]["time"] = operation["value"]
    assert admission_review.defaults(once, None, NOW) == ()


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_what_is_nested_too_deep_is_refused_and_not_compared() -> None:
    with pytest.raises(InvalidFieldError):
        admission_review.defaults(job(patch(x=nested(20_000))), job(patch(x=nested(20_000))), NOW)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
KNOWN = st.sampled_from(["metadata", "spec", "runtimePatches", "manager", "time", "name", "labels"])
SHAPED = st.recursive(
    JSON,
    lambda inner: st.dictionaries(KNOWN, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=15,
)


@given(SHAPED, SHAPED)
def test_any_json_is_answered_or_refused_in_words(one: Any, other: Any) -> None:
    try:
        asked = admission_review.read(body({"spec": one, "metadata": other}, old={"spec": other}))
        admission_review.defaults(asked.manifest, asked.old, NOW)
        admission_review.trainjob(asked, asked.manifest, NOW)
        admission_review.runtime(asked, asked.manifest, "TrainingRuntime")
    except (MalformedError, InvalidFieldError) as error:
        said = str(error)
    else:
        said = "answered"
    assert said


def test_answers_have_the_shape_that_the_api_server_reads() -> None:
    asked = admission_review.read(body(objects.trainjob()))
    assert admission_review.allowed(asked, warnings=["careful"]) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "review-uid", "allowed": True, "warnings": ["careful"]},
    }
    operation = {"op": "add", "path": "/a", "value": "b"}
    response = admission_review.allowed(asked, [operation])["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [operation]


def test_a_denial_is_403_in_the_words_of_the_errors_each_once() -> None:
    asked = admission_review.read(body(objects.trainjob()))
    one = FieldError(ErrorType.FORBIDDEN, "spec.a", None, "no")
    other = FieldError(ErrorType.REQUIRED, "spec.b", None)
    response = admission_review.denied(asked, [one], ["careful"])["response"]
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": "spec.a: Forbidden: no"}
    assert (response["allowed"], response["warnings"]) == (False, ["careful"])
    assert admission_review.joined([one, other, one]) == "[spec.a: Forbidden: no, spec.b: Required value]"


def test_an_answer_does_not_repeat_megabytes() -> None:
    asked = admission_review.read(body(objects.trainjob()))

    def message(length: int) -> str:
        answer = admission_review.refused(asked, 422, "Invalid", "x" * length)["response"]["status"][
            "message"
        ]
        assert isinstance(answer, str)
        return answer

    assert message(32_768) == "x" * 32_768
    assert message(3_000_000) == "x" * 32_768 + "..."


def test_errors_are_named_until_they_are_too_long_to_be_read() -> None:
    def error(length: int, name: str) -> FieldError:
        path = name * (length - len(": Required value"))
        return FieldError(ErrorType.REQUIRED, path, None)

    long, rest, last = error(32_000, "a"), error(768, "b"), error(50, "c")
    assert admission_review.joined([long, rest, last]) == f"[{long}, {rest}, {last}]"
    assert admission_review.joined([long, error(769, "b"), last]) == f"[{long}, {error(769, 'b')}]"


def test_before_it_is_stored_a_trainjob_has_neither_uid_nor_age() -> None:
    asked = admission_review.read(body({"spec": {"suspend": True}}))
    assert admission_review.trainjob(asked, asked.manifest, NOW) == TrainJob(
        namespace="team",
        name="tj",
        uid="",
        resource_version="",
        created=NOW,
        spec={"suspend": True},
    )


def test_a_stored_trainjob_is_read_with_all_that_its_metadata_says() -> None:
    metadata = {"uid": "job-uid", "creationTimestamp": EARLY, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    asked = admission_review.read(body({"metadata": {"name": "mine", "namespace": "ours", **metadata}}))
    assert admission_review.trainjob(asked, asked.manifest, NOW) == TrainJob(
        namespace="ours",
        name="mine",
        uid="job-uid",
        resource_version="",
        created=datetime(2026, 1, 1, tzinfo=UTC),
        spec={},
        labels={"a": "b"},
        annotations={"c": "d"},
    )


@pytest.mark.parametrize(
    ("kind", "namespace"), [("TrainingRuntime", "team"), ("ClusterTrainingRuntime", None)]
)
def test_a_runtime_is_read_as_one_of_its_namespace_or_of_none(kind: str, namespace: str | None) -> None:
    metadata = {"name": "rt", "uid": "rt-uid", "labels": {"a": "b"}}
    asked = admission_review.read(body({"metadata": metadata, "spec": {"template": {}}}, kind=kind))
    stored = Runtime(kind, "rt", namespace, "rt-uid", {"template": {}}, labels={"a": "b"})
    assert admission_review.runtime(asked, asked.manifest, kind) == stored
    assert admission_review.runtime(asked, {}, kind) == Runtime(kind, "tj", namespace, "", {})


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00", 7, None])
def test_a_time_of_creation_that_is_none_is_now(text: Any) -> None:
    asked = admission_review.read(body({"metadata": {"creationTimestamp": text}}))
    assert admission_review.trainjob(asked, asked.manifest, NOW).created == NOW
