"""Whether a stack's file names another cluster than its last roll-out went to."""

from typing import Any

import pytest

from trainyard_cli.cluster import connection, moves
from trainyard_cli.files import rendering, stackfile
from trainyard_delivery.replacements import Move
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import StackSettings

FILE = "/files/prod"
URN = "urn:pulumi:prod::trainyard::pulumi:providers:kubernetes::cluster"
SERVERS = {None: "https://now", "old": "https://old", "new": "https://new", "alias": "https://old"}


def settings(**cluster: str) -> StackSettings:
    return StackSettings.model_validate({"operator": {"image": "example.com/operator:1"}, "cluster": cluster})


@pytest.fixture(autouse=True)
def _servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(kubeconfig: str | None, context: str | None) -> Credentials:
        if context not in SERVERS:
            raise CredentialsError("no such context")
        return Credentials(SERVERS[context], None)

    monkeypatch.setattr(connection, "load", load)


def found(monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], **cluster: str) -> Move | None:
    provider = {"type": "pulumi:providers:kubernetes", "urn": URN, "inputs": before}
    other = {**provider, "urn": f"{URN}-of-others", "inputs": {"context": "else"}}
    state = {"deployment": {"resources": [other, provider]}}
    monkeypatch.setattr(rendering, "rolled_out", lambda *_: state)
    monkeypatch.setattr(stackfile, "read_as_pulumi", lambda *_: settings(**cluster))
    return moves.found("prod", None, None)


def test_a_context_that_the_file_has_got_since_the_last_roll_out_is_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(monkeypatch, {"kubeconfig": ""}, context="new") == Move(
        URN, ("cluster.context",), "https://now (the current context)", "https://new (context new)"
    )


def test_a_kubeconfig_and_a_context_that_nobody_knows_any_more_are_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(monkeypatch, {"kubeconfig": FILE, "context": "gone"}, context="new") == Move(
        URN,
        ("cluster.kubeconfig", "cluster.context"),
        f"an unknown server (context gone of {FILE})",
        "https://new (context new)",
    )


def test_the_same_words_and_another_way_to_the_same_server_are_no_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(monkeypatch, {"context": "gone"}, context="gone") is None
    assert found(monkeypatch, {}) is None
    assert found(monkeypatch, {"context": "old"}, context="alias") is None


def test_a_kubeconfig_in_the_home_folder_is_no_move_for_another_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    assert found(monkeypatch, {"kubeconfig": "~/.kube/prod"}, kubeconfig="~/.kube/prod") is None


def test_what_was_never_rolled_out_does_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise PlatformError("no stack named prod")

    monkeypatch.setattr(stackfile, "read_as_pulumi", lambda *_: settings(context="new"))
    for state in (never, lambda *_: {"deployment": {}}):
        monkeypatch.setattr(rendering, "rolled_out", state)
        assert moves.found("prod", None, None) is None
