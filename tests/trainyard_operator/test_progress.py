"""What counts as a report of progress, and whom a token says that it is for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from trainyard_operator.core.status import progress
from trainyard_operator.core.status.progress import InvalidReportError

NOW = "2026-08-01T08:00:00Z"
AUDIENCE = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj/status"


def report(**fields: Any) -> bytes:
    return json.dumps({"trainerStatus": {"lastUpdatedTime": NOW, **fields}}).encode()


def metric(name: str = "loss", value: str = "1") -> dict[str, str]:
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"progressPercentage": 0, "estimatedRemainingSeconds": 0, "metrics": []},
        {"progressPercentage": 100, "estimatedRemainingSeconds": 2**31 - 1},
        {"metrics": [metric("n", "v"), metric("n" * 64, "v" * 64)]},
        {"metrics": [metric()] * 256},
    ],
)
def test_what_keeps_to_the_bounds_is_written_whole_with_null_for_what_was_not_reported(
    fields: dict[str, Any],
) -> None:
    unsaid = {"progressPercentage": None, "estimatedRemainingSeconds": None, "metrics": None}
    assert progress.read(report(**fields)) == {"lastUpdatedTime": NOW, **unsaid, **fields}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"progressPercentage": -1}, "progressPercentage: Expected `int` >= 0"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds: Expected `int` >= 0"),
        ({"metrics": [metric(value="")]}, "metrics[0].value: Expected `str` of length >= 1"),
        ({"metrics": [metric(), metric("n" * 65)]}, "metrics[1].name: Expected `str` of length <= 64"),
        ({"metrics": [metric(value="v" * 65)]}, "metrics[0].value: Expected `str` of length <= 64"),
    ],
)
def test_what_does_not_is_refused_with_its_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidReportError) as caught:
        progress.read(report(**fields))
    assert str(caught.value) == f"status.trainerStatus.{message}"


def test_a_time_is_kept_to_the_second_and_in_utc() -> None:
    written = progress.read(report(lastUpdatedTime="2026-08-01T10:00:00.999+02:00"))
    assert written is not None
    assert written["lastUpdatedTime"] == NOW


def jwt(claims: Any) -> str:
    """A token with these claims; its signature is of no interest here."""
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.e30"


@pytest.mark.parametrize(
    ("token", "audiences"),
    [
        (jwt({"aud": AUDIENCE}), (AUDIENCE,)),
        *((jwt({"aud": ["a" * n, AUDIENCE]}), ("a" * n, AUDIENCE)) for n in range(4)),
        (jwt({"aud": ["a", 7, None]}), ()),
        (jwt({"aud": 7}), ()),
        (jwt({"aud": True}), ()),
        (jwt({"aud": {"a": 1}}), ()),
        (f"e30.{base64.urlsafe_b64encode(b'[' * 5900).decode().rstrip('=')}.e30", ()),
        (jwt({"aud": []}), ()),
        (jwt({"aud": None}), ()),
        (jwt({}), ()),
        (jwt([]), ()),
        ("e30.!.e30", ()),
        ("opaque", ()),
        ("", ()),
    ],
)
def test_a_token_says_whom_it_is_for(token: str, audiences: tuple[str, ...]) -> None:
    assert progress.claimed_audiences(token) == audiences


def test_the_audience_of_a_trainjob_is_told_from_others() -> None:
    assert progress.audience("team", "tj") == AUDIENCE
    assert progress.is_trainjob_audience(AUDIENCE)
    assert not progress.is_trainjob_audience(AUDIENCE.removesuffix("/status"))
    assert not progress.is_trainjob_audience(f"https://{AUDIENCE}")
    assert not progress.is_trainjob_audience("https://kubernetes.default.svc")


def test_the_answer_repeats_what_was_reported_and_nothing_else() -> None:
    assert progress.echo(progress.read(report(progressPercentage=0))) == {
        "trainerStatus": {"lastUpdatedTime": NOW, "progressPercentage": 0}
    }
    assert progress.echo(progress.read(b"{}")) == {}
