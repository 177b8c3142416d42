"""Whether a stack's file names another cluster than its last roll-out went to."""

from typing import Any

import pytest

from trainyard_cli.cluster import connection, moves
from trainyard_delivery.pulumi_state import Identity
from trainyard_delivery.replacements import Move
from trainyard_kube.client import ApiError
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_platform.stack.settings import Cluster

FILE = "/files/prod"
URN = "urn:pulumi:prod::trainyard::pulumi:providers:kubernetes::cluster"
SERVERS = {None: "https://now", "old": "https://old", "new": "https://new", "alias": "https://old"}
UIDS = {"https://now": "uid-now", "https://old": "uid-old", "https://new": "uid-new"}


@pytest.fixture(autouse=True)
def _servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(kubeconfig: str | None, context: str | None) -> Credentials:
        if context not in SERVERS:
            raise CredentialsError("no such context")
        return Credentials(SERVERS[context], None)

    def ask(credentials: Credentials, *_: Any) -> Any:
        return {"metadata": {"uid": UIDS[credentials.server]}}

    monkeypatch.setattr(connection, "load", load)
    monkeypatch.setattr(connection, "ask", ask)


def found(before: dict[str, Any], rolled_out: Identity | None = None, **cluster: str) -> Move | None:
    return place(before, rolled_out, **cluster).move


def place(before: dict[str, Any], rolled_out: Identity | None, **cluster: str) -> moves.Place:
    provider = {"type": "pulumi:providers:kubernetes", "urn": URN, "inputs": before}
    other = {**provider, "urn": f"{URN}-of-others", "inputs": {"context": "else"}}
    outputs = {} if rolled_out is None else {"clusterIdentity": rolled_out._asdict()}
    root = {"type": "pulumi:pulumi:Stack", "urn": "urn:root", "outputs": outputs}
    return in_state({"deployment": {"resources": [root, other, provider]}}, **cluster)


def in_state(state: Any, **cluster: str) -> moves.Place:
    its = Cluster.model_validate(cluster)
    return moves.found(state, its, lambda: connection.of_stack(its, None, None), None)


def test_a_context_that_the_file_has_got_since_the_last_roll_out_is_a_move() -> None:
    assert found({"kubeconfig": ""}, context="new") == Move(
        URN, ("cluster.context",), "https://now (the current context)", "https://new (context new)"
    )


def test_a_kubeconfig_and_a_context_that_nobody_knows_any_more_are_a_move() -> None:
    assert found({"kubeconfig": FILE, "context": "gone"}, context="new") == Move(
        URN,
        ("cluster.kubeconfig", "cluster.context"),
        f"an unknown server (context gone of {FILE})",
        "https://new (context new)",
    )


def test_the_same_words_and_another_way_to_the_same_server_are_no_move() -> None:
    assert found({"context": "gone"}, context="gone") is None
    assert found({}) is None
    assert found({"context": "old"}, context="alias") is None


def test_a_kubeconfig_in_the_home_folder_is_no_move_for_another_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    assert found({"kubeconfig": "~/.kube/prod"}, kubeconfig="~/.kube/prod") is None


def test_what_was_never_rolled_out_does_not_move() -> None:
    # The last one is what a `pulumi stack init` leaves that was killed, in a bucket.
    for state in ({}, {"deployment": {}}, {"deployment": None}):
        assert in_state(state, context="new").move is None


OLD = Identity("uid-old", "https://old")


def test_the_same_stack_file_and_another_cluster_is_a_move() -> None:
    before, after = "https://old (the current context)", "https://now (the current context)"
    assert found({}, OLD) == Move(URN, ("cluster.context",), before, after, same_file=True)


def test_a_context_or_an_address_that_has_a_new_name_leads_to_the_same_cluster() -> None:
    last = Identity("uid-new", "https://before")
    before, after = "https://before (context {})", "https://new (context new)"
    for context in ("gone", "old"):
        assert found({"context": context}, last, context="new") == Move(
            URN, ("cluster.context",), before.format(context), after, same_cluster=True
        )


def test_a_cluster_that_was_created_anew_at_the_same_address_is_a_move() -> None:
    place, first = "https://old (context old)", Identity("uid-of-before", "https://old")
    move = Move(URN, ("cluster.context",), place, place, same_file=True)
    assert found({"context": "old"}, first, context="old") == move


def test_a_context_for_what_is_the_current_one_is_a_move_if_the_last_roll_out_went_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SERVERS, "current", "https://now")
    assert found({}, OLD, context="current") == Move(
        URN, ("cluster.context",), "https://old (the current context)", "https://now (context current)"
    )
    assert found({}, Identity("uid-now", "https://now"), context="current") is None


def test_pulumis_program_gets_the_cluster_or_that_of_the_last_roll_out_where_it_cannot_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = place({}, None)
    assert here == moves.Place(None, Identity("uid-now", "https://now"))
    assert here.variables == {"TRAINYARD_CLUSTER_IDENTITY": '{"uid": "uid-now", "server": "https://now"}'}

    def forbidden(*_: Any) -> Any:
        raise ApiError("you may not get it", code=403, reason="Forbidden")

    monkeypatch.setattr(connection, "ask", forbidden)
    assert place({}, OLD) == moves.Place(None, OLD, "403 Forbidden: you may not get it")
    assert place({}, None).variables == {}
    moved = place({"context": "old"}, OLD, context="new")
    assert moved.move is not None
    assert moved.variables == {}, "the state would name the old cluster for the new one"
