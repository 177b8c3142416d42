"""What a preview comes to, as a document."""

import json
from typing import Any

import pytest

from trainyard_delivery.rollout.outcome import Outcome, document, read

OUTCOME = Outcome("1 to change", ("refused by a: b",), ("error: c",))
DOCUMENT = document("prod", OUTCOME)
OTHER = "is not a Preview of preview.trainyard.dev/v1alpha1"
BROKEN = "is not JSON, or not all of it is there"


def why_not(content: bytes) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 the message is what is tested
        read(content, "prod")
    return str(refused.value)


def test_a_document_says_its_version_and_its_stack_and_is_read_as_it_was_written() -> None:
    assert DOCUMENT == {
        "apiVersion": "preview.trainyard.dev/v1alpha1",
        "kind": "Preview",
        "stack": "prod",
        "summary": "1 to change",
        "refusals": ["refused by a: b"],
        "errors": ["error: c"],
    }
    assert read(json.dumps(DOCUMENT).encode(), "prod") == OUTCOME


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, OTHER),
        ([], OTHER),
        ({}, OTHER),
        ({**DOCUMENT, "kind": "Impact"}, OTHER),
        ({**DOCUMENT, "apiVersion": None}, OTHER),
        ({**DOCUMENT, "stack": ["prod"]}, OTHER),
        ({**DOCUMENT, "summary": 1}, OTHER),
        ({**DOCUMENT, "refusals": "refused by a: b"}, OTHER),
        ({**DOCUMENT, "errors": ["error: c", None]}, OTHER),
        (
            {**DOCUMENT, "apiVersion": "preview.trainyard.dev/v2"},
            "has the apiVersion preview.trainyard.dev/v2, and this Trainyard reads "
            "preview.trainyard.dev/v1alpha1",
        ),
        ({**DOCUMENT, "stack": "dev"}, "is about the stack dev, not prod"),
    ],
)
def test_what_is_another_document_is_refused_with_the_reason(value: Any, why: str) -> None:
    assert why_not(json.dumps(value).encode()) == why


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"prod: 1 to change",
        json.dumps(DOCUMENT).encode()[:-1],
        b"\xff",
        b"[" * 100_000,
        b"1" * 10_000,
    ],
    ids=["empty", "text", "cut off", "no UTF-8", "nested too deeply", "a number too long"],
)
def test_what_is_no_json_is_refused(content: bytes) -> None:
    assert why_not(content) == BROKEN
