"""Whoever wrote what is shown may have meant ill."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from tests.support.explained.cases import ASKS, INSUFFICIENT, PODS, failed, queued
from tests.support.explained.objects import (
    QUEUED,
    condition,
    event,
    homeless,
    pod,
    pod_group,
    seen,
    terminated,
    trainjob,
)
from trainyard_assist.explain import explain, follow_ups


def test_nothing_in_a_diagnosis_commands_a_terminal() -> None:
    evil = "\x1b[2Jgone\x1b]0;title\x07\r\nnext\u202eback\x9b31m {name} %s"
    observation = seen(pods=(pod(0, "Failed", state=terminated(3, message=evil)),), log=(evil, "  indented"))
    diagnosis = explain(observation)
    assert diagnosis.finding is not None
    assert diagnosis.finding.message == "container node exited with code 3: nextback31m {name} %s"
    assert diagnosis.finding.log == ("gone  nextback31m {name} %s", "  indented")
    assert re.search(r"[^\x20-\x7e]", repr(diagnosis)) is None


def test_a_message_without_end_is_cut() -> None:
    observation = failed(condition("Failed", "FailedJobs", "x" * 10**6), pods=())
    diagnosis = explain(observation)
    assert diagnosis.finding is not None
    assert (len(diagnosis.finding.message), diagnosis.finding.message[-4:]) == (1000, "x...")


def damaged(value: object) -> list[object]:
    """The value with each part of it, in turn, replaced by things it should not be."""
    strange: tuple[object, ...] = (None, 7, "x", [], {}, [None], [7], {"a": None})
    if isinstance(value, dict):
        return [{**value, k: v} for k in value for v in (*strange, *damaged(value[k]))]
    if isinstance(value, list) and value:
        return [[v] for v in (*strange, *damaged(value[0]))]
    return []


@pytest.mark.parametrize(
    "field", ["trainjob", "jobset", "workloads", "pods", "jobs", "nodes", "events", "pod_groups"]
)
def test_whatever_the_objects_hold_there_is_an_answer(field: str) -> None:
    whole = queued(
        condition("QuotaReserved", "Pending", "x", "False"),
        trainjob=trainjob(condition("Blocked", "X", "x; y"), more=QUEUED),
        pods=(pod(0), homeless(1, INSUFFICIENT, **ASKS)),
        events=(event(PODS, "FailedCreate", "x"),),
        pod_groups=(pod_group("Inqueue", condition("Unschedulable")),),
    )
    given = getattr(whole, field)
    one = given[-1] if isinstance(given, tuple) else given
    for strange in damaged(one):
        change: dict[str, Any] = {field: (strange,) if isinstance(given, tuple) else strange}
        changed = dataclasses.replace(whole, **change)
        follow_ups(changed)
        explain(changed)


def test_whatever_is_noted_of_the_attempts_there_is_an_answer() -> None:
    ended = trainjob(condition("Failed", "FailedJobs", "x"))
    noted = {"attempt": 0, "job": "node", "index": 1, "exitCode": 1, "reason": "Error", "message": "x"}
    for strange in damaged({"trainyard": {"attempts": [noted]}}):
        assert isinstance(strange, dict)
        explain(seen(trainjob={**ended, "status": {**ended["status"], **strange}}, pods=()))
