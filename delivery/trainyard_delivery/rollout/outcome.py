"""The result of a preview as a document: `preview` writes it, `report` reads it; pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

API_VERSION: Final = "preview.trainyard.dev/v1alpha1"
KIND: Final = "Preview"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a preview."""

    summary: str = ""
    """How many objects change in which way, or that it failed; empty if it did not come that far."""
    refusals: tuple[str, ...] = ()
    """Refusals, a sentence each."""
    errors: tuple[str, ...] = ()
    """Other errors, a sentence each."""


def document(stack: str, outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON values, in the format that docs/gitops.md describes."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "stack": stack,
        "summary": outcome.summary,
        "refusals": list(outcome.refusals),
        "errors": list(outcome.errors),
    }


def read(content: bytes, stack: str) -> Outcome:
    """The outcome in a document of the stack.

    Raises:
        ValueError: It is another document, or none. The message is what follows the name of its file.
    """
    try:
        value = json.loads(content)
    except (RecursionError, ValueError) as error:
        raise ValueError("is not JSON, or not all of it is there") from error
    match value:
        case {"kind": "Preview", "apiVersion": str(version)} if version != API_VERSION:
            raise ValueError(f"has the apiVersion {version}, and this Trainyard reads {API_VERSION}")
        case {"kind": "Preview", "apiVersion": str(), "stack": str(other_stack)} if other_stack != stack:
            raise ValueError(f"is about the stack {other_stack}, not {stack}")
        case {
            "kind": "Preview",
            "apiVersion": str(),
            "stack": str(),
            "summary": str(summary),
            "refusals": [*refusals],
            "errors": [*errors],
        } if all(isinstance(sentence, str) for sentence in (*refusals, *errors)):
            return Outcome(summary, tuple(refusals), tuple(errors))
    raise ValueError(f"is not a {KIND} of {API_VERSION}")
