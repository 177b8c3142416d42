"""A right that nothing uses is found, and one that is used is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainyard_platform.parts.operator import rbac

from . import rights
from .rights import HOME, USER, Used

EVERYTHING = [
    *(Used("team", resource, verb, True) for resource, verb in rights.granted(rights.CLUSTER)),
    *(Used(HOME, resource, verb, True) for resource, verb in rights.granted(rights.OWN)),
]


def event(user: str, verb: str, decision: str = "allow", **target: str) -> str:
    found: dict[str, Any] = {
        "user": {"username": user},
        "verb": verb,
        "annotations": {"authorization.k8s.io/decision": decision},
        # A quota, or a namespace that ends, answers with the code of what is forbidden.
        "responseStatus": {"code": 403},
    }
    return json.dumps({**found, **({"objectRef": target} if target else {})})


def test_every_list_of_rights_is_looked_at() -> None:
    every = [rule for name, rules in vars(rbac).items() if name.isupper() for rule in rules]
    assert rights.granted(every) == rights.granted(rights.CLUSTER + rights.OWN)


def test_with_every_right_used_none_is_unused() -> None:
    assert rights.unused(EVERYTHING) == []


@pytest.mark.parametrize(
    ("left_out", "unused"),
    [
        (Used("team", "/secrets", "get", True), []),
        (Used(HOME, "/secrets", "get", True), [(HOME, "/secrets", "get")]),
        (
            Used("team", "jobset.x-k8s.io/jobsets", "delete", True),
            [("", "jobset.x-k8s.io/jobsets", "delete")],
        ),
        (Used("team", "trainer.kubeflow.org/trainjobs/finalizers", "update", True), []),
    ],
    ids=["used at home", "used elsewhere alone", "unused", "never seen"],
)
def test_a_right_that_nothing_uses_is_named(left_out: Used, unused: list[tuple[str, str, str]]) -> None:
    assert rights.unused([one for one in EVERYTHING if one != left_out]) == unused


def test_what_was_forbidden_has_not_been_used() -> None:
    events = ("team", "/events", "create")
    assert rights.unused([one._replace(allowed=one[:3] != events) for one in EVERYTHING]) == [
        ("", "/events", "create")
    ]


def test_what_the_operator_did_is_kept_and_what_others_did_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, folder = tmp_path / "audit.log", tmp_path / "rights"
    lines = [
        event(USER, "patch", namespace="team", apiGroup="t", resource="trainjobs", subresource="status"),
        event(USER, "create", "forbid", namespace="team", resource="secrets"),
        event(USER, "get"),
        event("somebody", "delete", resource="pods"),
    ]
    cut_off = event(USER, "get", resource="pods")[:-1]
    log.write_text("\n".join([*lines, lines[0], cut_off]))
    rights.note("test", log)
    monkeypatch.setenv(rights.FOLDER, str(folder))
    rights.note("test", log)
    rights.note("never-up", tmp_path / "none.log")
    (kept,) = folder.iterdir()
    assert json.loads(kept.read_text()) == [
        ["team", "/secrets", "create", False],
        ["team", "t/trainjobs/status", "patch", True],
    ]
    assert rights.main([str(folder)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Audit logs: 1. Kinds of requests of the operator: 2."
    assert "Never used: create jobset.x-k8s.io/jobsets anywhere." in said


@pytest.mark.parametrize(
    ("forbidden", "code", "line"),
    [
        (
            Used("team", "/secrets", "create", False),
            0,
            "Forbidden: create /secrets in team: where or while it had no right.",
        ),
        (Used("team", "/secrets", "list", False), 1, "Forbidden: list /secrets in team: no right allows it."),
        (
            Used("", "apps/controllerrevisions", "list", False),
            1,
            "Forbidden: list apps/controllerrevisions everywhere: no right allows it.",
        ),
        (
            Used(HOME, "apps/controllerrevisions", "list", False),
            0,
            f"Forbidden: list apps/controllerrevisions in {HOME}: where or while it had no right.",
        ),
    ],
    ids=["in another namespace", "never", "elsewhere than at home", "at another time"],
)
def test_what_was_forbidden_is_named_and_fails_if_no_right_allows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forbidden: Used, code: int, line: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps([*EVERYTHING, forbidden]))
    assert rights.main([str(tmp_path)]) == code
    assert capsys.readouterr().out.splitlines()[1:] == [line]


def test_without_a_control_plane_nothing_was_looked_at(tmp_path: Path) -> None:
    assert rights.main([str(tmp_path)]) == 1
