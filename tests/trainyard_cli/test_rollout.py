"""`trainyard preview` and `up`: what they run, what they print of what Pulumi tells, and their exit codes."""

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.selection import long_unless
from tests.support.answers import answered
from trainyard_api.places import SHIPPED
from trainyard_cli.cluster import (
    connection,
    existing,
    foreign_controllers,
    foreign_namespaces,
    moves,
    queued_jobs,
    runtime_trials,
    takeovers,
)
from trainyard_cli.commands import drift, rollout, rollout_progress, verify
from trainyard_cli.files import outcomes
from trainyard_delivery.drift.verdicts import Ref
from trainyard_delivery.pulumi_state import Identity
from trainyard_delivery.replacements import Move
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_kube.client import ApiError
from trainyard_kube.credentials import Credentials
from trainyard_platform.objects.annotations import KEPT
from trainyard_platform.objects.declare import annotated
from trainyard_platform.parts.tenants import owners as namespace_owners

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "team-a"},
    "spec": {"stopPolicy": "None"},
}
DRAINED = {**QUEUE, "spec": {"stopPolicy": "HoldAndDrain"}}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "team-a"}}


def state(inputs: Any) -> Any:
    return inputs and {"custom": True, "inputs": inputs}


def change(urn: str, op: str, old: Any, new: Any, *, planning: bool) -> list[dict[str, Any]]:
    metadata = {"op": op, "urn": urn, "type": "kubernetes:x:Y", "old": state(old), "new": state(new)}
    return [
        {"resourcePreEvent": {"metadata": metadata, "planning": planning}},
        {"resOutputsEvent": {"metadata": metadata, "planning": planning}},
    ]


def end(*, preview: bool, result: str = "succeeded") -> dict[str, Any]:
    return {"summaryEvent": {"isPreview": preview, "result": result}}


def said(severity: str, message: str, urn: str = "") -> dict[str, Any]:
    return {"diagnosticEvent": {"severity": severity, "message": message, "urn": urn}}


PREVIEW = [
    *change("a", "same", QUEUE, QUEUE, planning=True),
    *change("b", "create", None, MAP, planning=True),
]


UPDATE = [
    *change("a", "same", QUEUE, QUEUE, planning=False),
    *change("b", "create", None, MAP, planning=False),
    end(preview=False),
]


SILENT = said(
    "error",
    'Internal error occurred: failed calling webhook "v.kb.io": failed to call webhook: connection refused',
    "b",
)
"""What the API server says while the controller behind a webhook restarts."""
FAILED = said("error", "update failed", "")
UNANSWERED = [UPDATE[2], SILENT, FAILED, end(preview=False, result="failed")]


STACK = """
config:
  trainyard:platform:
    operator: {image: "example.com/operator:1"}
"""


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stack's file; it has no tenants."""
    file = tmp_path / "stack.yaml"
    file.write_text(STACK)
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(file))
    return file


@pytest.fixture
def pulumi(stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `pulumi` prints what its file for the subcommand holds, and keeps how it was called."""
    script = tmp_path / "pulumi"
    script.write_text(
        '#!/bin/sh\necho "$1" >> "$0.subcommands"\n'
        'if [ "$1" = stack ]; then cat "$0.stack"; exit $(cat "$0.stack.code"); fi\n'
        'echo "$@" >> "$0.called"\necho "$PULUMI_SKIP_CHECKPOINTS" >> "$0.skips"\n'
        'echo "$KUBECONFIG" >> "$0.kubeconfig"\n'
        'cat "$0.$1"\nexit $(cat "$0.$1.code")\n'
    )
    script.chmod(0o755)
    (tmp_path / "pulumi.stack").write_text(json.dumps({"deployment": {}}))
    (tmp_path / "pulumi.stack.code").write_text("0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for look in (queued_jobs, runtime_trials, verify):
        monkeypatch.setattr(look, "refusals", lambda *_: [])
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place())
    return tmp_path


STATE = '[ "$1" != stack ] || exec cat "$0.stack"\n'
"""How a script that stands for `pulumi` exports the state."""
REAL_RULES = verify.refusals


def answer(
    pulumi: Path, *told: Any, update: Sequence[Any] | None = None, code: int = 0, **options: Any
) -> tuple[int, str, str]:
    """What a preview prints that Pulumi tells `told` of, or an `up` whose update it tells `update` of."""
    codes = (code, 0) if update is None else (0, code)
    for subcommand, events, its in zip(("preview", "up"), (told, update or ()), codes, strict=True):
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        (pulumi / f"pulumi.{subcommand}").write_text("".join(f"{line}\n" for line in lines))
        (pulumi / f"pulumi.{subcommand}.code").write_text(str(its))
    options = {"change": update is not None, "kubeconfig": "/no/such/file", **options}
    return answered(rollout.run, "prod", **options)


ON_PROD = "--stack prod --non-interactive --color never --json\n"
LOOKING = "Reading the cluster and what prod asks for ...\n"


TENANT = f"""{STACK}
    kueue: {{enabled: true}}
    queues:
      flavors: {{cpu: {{}}}}
      clusterQueues:
        team-a: {{resourceGroups: [{{flavors: [{{name: cpu, resources: {{cpu: {{nominal: "1"}}}}}}]}}]}}
    tenants: {{web: {{clusterQueue: team-a}}}}
"""


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("verbose", [False, True])
def test_a_tenant_is_given_no_namespace_of_another_tool_and_pulumi_is_not_run(
    pulumi: Path, stack: Path, monkeypatch: pytest.MonkeyPatch, change: bool, verbose: bool
) -> None:
    stack.write_text(TENANT)
    release = {"annotations": {"meta.helm.sh/release-name": "shop"}}

    async def live(client: Any, tenants: Any) -> list[str]:
        assert list(tenants) == ["web"]
        return [namespace_owners.refusal("web", namespace_owners.owner({"metadata": release}))]

    monkeypatch.setattr(foreign_namespaces, "refused", live)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    code, out, err = answer(pulumi, update=[] if change else None, verbose=verbose)
    assert (code, out) == (1, "")
    assert err == (
        "refused: Namespace web already exists, and Helm's release shop owns it. Give the tenant another "
        "name, or have its owner let the namespace go, then label it trainyard.dev/tenant=web\n"
    )
    assert not (pulumi / "pulumi.called").exists()


def test_where_the_namespaces_of_tenants_cannot_be_seen_it_says_so_and_goes_on(
    pulumi: Path, stack: Path
) -> None:
    stack.write_text(TENANT)
    code, _, err = answer(pulumi, *PREVIEW, end(preview=True))
    assert code == 0
    assert err.startswith("Could not see who owns the tenants' namespaces: kubeconfig /no/such/file: ")


def test_a_preview_of_a_runtime_that_the_cluster_would_refuse_ends_before_pulumi_is_run(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "refused by the cluster: ClusterTrainingRuntime torch: no such volume"
    monkeypatch.setattr(runtime_trials, "refusals", lambda *_: [said])
    assert answer(pulumi) == (1, "", f"{said}\n")
    assert not (pulumi / "pulumi.called").exists()


@pytest.mark.parametrize("update", [None, UPDATE])
def test_a_runtime_that_the_rules_refuse_is_told_before_the_cluster_is_queried_and_pulumi_is_run(
    pulumi: Path, stack: Path, monkeypatch: pytest.MonkeyPatch, update: Any
) -> None:
    stack.write_text(f"{STACK}    runtimes:\n      torch-distributed: {{image: example.org/mine:1}}\n")
    monkeypatch.setattr(verify, "refusals", REAL_RULES)
    monkeypatch.setattr(moves, "found", pytest.fail)
    outcome = pulumi / "outcome.json"
    code, out, err = answer(pulumi, update=update, outcome=outcome)
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    place = f"{stack}:6: runtimes.torch-distributed.image: containers[0].image"
    assert line.startswith(f"{place}: must come from an allowed registry")
    assert outcomes.read(outcome, "prod") == Outcome(refusals=(line,))
    assert not (pulumi / "pulumi.called").exists()


def test_a_preview_that_checks_no_policy_checks_no_rule_either(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "refusals", lambda *_: ["no"])
    assert answer(pulumi, *PREVIEW, end(preview=True), expect_no_changes=True)[0] == 0


@pytest.mark.parametrize("options", [{"update": []}, {"expect_no_changes": True}])
def test_only_a_preview_that_may_change_something_asks_about_runtimes(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(runtime_trials, "refusals", lambda *_: ["no"])
    assert answer(pulumi, *PREVIEW, end(preview=True), **options)[0] == 0


def test_a_stack_file_that_is_wrong_is_said_so_and_pulumi_is_not_run(pulumi: Path, stack: Path) -> None:
    stack.write_text("config: {}\n")
    code, _, err = answer(pulumi)
    assert (code, err) == (
        2,
        f"{stack}:1: config has no key trainyard:platform\n",
    )
    assert not (pulumi / "pulumi.called").exists()


def test_a_preview_is_pulumis_under_the_policies_after_a_look_at_the_cluster(pulumi: Path) -> None:
    found = answer(pulumi, *PREVIEW, end(preview=True))
    assert found == (0, "+ ConfigMap team-a/one\nprod: 1 to create, 1 unchanged\n", LOOKING)
    assert (pulumi / "pulumi.called").read_text() == (f"preview --refresh --policy-pack policies {ON_PROD}")


def test_where_nothing_is_expected_to_change_no_policy_is_asked(pulumi: Path) -> None:
    assert answer(pulumi, *PREVIEW, end(preview=True), expect_no_changes=True, code=255)[0] == 255
    assert (pulumi / "pulumi.called").read_text() == (f"preview --refresh --expect-no-changes {ON_PROD}")


def test_an_up_says_what_it_does_before_it_does_it_and_how_much_of_it_is_done(pulumi: Path) -> None:
    assert answer(pulumi, *PREVIEW, end(preview=True), update=UPDATE) == (
        0,
        "+ ConfigMap team-a/one\nprod: 1 to create, 1 unchanged\nprod: 1 of 1 changes made\n",
        f"{LOOKING}Rolling out prod ...\n",
    )
    assert (pulumi / "pulumi.called").read_text() == (
        f"preview --refresh --policy-pack policies {ON_PROD}"
        f"up --refresh --yes --skip-preview --policy-pack policies {ON_PROD}"
    )


@pytest.mark.parametrize("update", [None, UPDATE])
def test_what_the_cluster_has_already_is_taken_over_and_nobody_asks_unless_such_a_thing_is_created(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, update: Any
) -> None:
    asked: list[Any] = []

    async def look(_: Any, wanted: Any) -> existing.Existing:
        asked.extend(wanted)
        return existing.Existing(frozenset(wanted), {"which Secret objects exist already": "forbidden"})

    monkeypatch.setattr(existing, "look", look)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    told = change("c", "create", None, annotated(QUEUE, KEPT), planning=True)
    code, out, _ = answer(pulumi, *PREVIEW, *told, end(preview=True), update=update)
    assert (code, out.partition("prod: ")[0]) == (
        0,
        "* ClusterQueue team-a: exists already, and is taken over\n"
        "+ ConfigMap team-a/one\n"
        "Could not see which Secret objects exist already: forbidden\n",
    )
    assert "prod: 1 to create, 1 to take over, 1 unchanged\n" in out
    answer(pulumi, *PREVIEW, end(preview=True), update=update)
    assert asked == [Ref("kueue.x-k8s.io/v1beta2", "ClusterQueue", "", "team-a")]


@pytest.mark.parametrize(("update", "verbose"), [(None, False), (None, True), (UPDATE, False)])
def test_what_cannot_be_taken_over_is_refused_before_anything_is_changed(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, update: Any, verbose: bool
) -> None:
    tried: list[Any] = []

    async def refusals(_: Any, manifests: Any) -> list[str]:
        tried.extend(manifests)
        return ["refused: LocalQueue/team-x/default is in the cluster from before"]

    async def look(_: Any, wanted: Any) -> existing.Existing:
        return existing.Existing(frozenset(wanted), {})

    monkeypatch.setattr(existing, "look", look)
    monkeypatch.setattr(takeovers, "refusals", refusals)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    told = change("c", "create", None, annotated(QUEUE, KEPT), planning=True)
    file = pulumi / "outcome.json"
    logging(pulumi)
    told = [*PREVIEW, *told, end(preview=True)]
    code, _, err = answer(pulumi, *told, update=update, verbose=verbose, outcome=file)
    sentence = "refused: LocalQueue/team-x/default is in the cluster from before"
    assert (code, err) == (1, f"{LOOKING}{sentence}\n")
    assert tried == [annotated(QUEUE, KEPT)]
    assert outcomes.read(file, "prod").refusals == (sentence,)
    assert "up " not in (pulumi / "pulumi.called").read_text()


@pytest.mark.parametrize("update", [None, UPDATE])
def test_the_controller_of_somebody_else_is_refused_unless_it_is_named(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, update: Any
) -> None:
    asked: list[Any] = []

    async def refusals(_: Any, refs: Any, stack: str) -> list[str]:
        asked.append([stack, *(ref.key for ref in refs)])
        return ["refused: the cluster already has it" for _ in refs]

    async def look(*_: Any) -> existing.Existing:
        return existing.Existing(frozenset(), {})

    monkeypatch.setattr(existing, "look", look)
    monkeypatch.setattr(foreign_controllers, "refusals", refusals)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    told = [*PREVIEW, *change("c", "create", None, space, planning=True), end(preview=True)]
    code, _, err = answer(pulumi, *told, update=update)
    assert (code, err) == (1, f"{LOOKING}refused: the cluster already has it\n")
    assert answer(pulumi, *told, update=update, replace=["Namespace/kueue-system"])[0] == 0
    assert asked == [["prod", "Namespace/kueue-system"]]


def operator(stack: str) -> dict[str, Any]:
    """The operator of a stack's platform."""
    metadata = {"name": "trainyard-operator", "namespace": "trainyard-system"}
    of_stack = {"annotations": {"trainyard.dev/stack": stack}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**metadata, **of_stack}}


@pytest.mark.parametrize("update", [None, UPDATE])
@pytest.mark.parametrize(("last", "code"), [("prod", 1), ("lab", 0)], ids=["two stacks", "one, renamed"])
def test_a_platform_over_which_another_stack_was_rolled_out_is_refused_unless_it_is_named(
    pulumi: Path, last: str, code: int, update: Any
) -> None:
    rolled_out = {"urn": "c", "type": "kubernetes:x:Y", "custom": True, "inputs": operator(last)}
    (pulumi / "pulumi.stack").write_text(json.dumps({"deployment": {"resources": [rolled_out]}}))
    told = change("c", "update", operator("lab"), operator("prod"), planning=True)
    told[0]["resourcePreEvent"]["metadata"]["old"]["outputs"] = operator("lab")
    events = [*PREVIEW, *told, end(preview=True)]
    result, _, err = answer(pulumi, *events, update=update)
    refused = (
        "refused: this cluster has the platform of the stack lab, and the roll-out would replace it with the "
        "platform of prod. "
    )
    assert (result, refused in err) == (code, code == 1)
    replace = ["Deployment/trainyard-system/trainyard-operator"]
    assert answer(pulumi, *events, update=update, replace=replace)[0] == 0


def test_whose_controllers_it_would_overwrite_is_seen_before_an_update_or_the_update_is_refused(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: Any) -> list[str]:
        raise ApiError("you may not get it", code=403, reason="Forbidden")

    async def look(*_: Any) -> existing.Existing:
        return existing.Existing(frozenset(), {})

    monkeypatch.setattr(existing, "look", look)
    monkeypatch.setattr(foreign_controllers, "refusals", forbidden)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    events = [*PREVIEW, *change("c", "create", None, space, planning=True), end(preview=True)]
    code, _, err = answer(pulumi, *events)
    why = "403 Forbidden: you may not get it"
    sentence = f"Could not see what the roll-out would overwrite: {why}\n"
    assert (code, err) == (0, f"{LOOKING}{sentence}")
    assert answer(pulumi, *events, update=UPDATE)[::2] == (
        1,
        f"{LOOKING}refused: could not see whether the cluster already has Namespace/kueue-system from "
        f"somebody else: {why}. Run the same command again. To roll out without this check, run `up` with "
        '--replace "Namespace/kueue-system"\n',
    )
    assert "up " not in (pulumi / "pulumi.called").read_text()
    assert answer(pulumi, *events, update=UPDATE, replace=["Namespace/kueue-system"])[0] == 0


def test_what_has_stayed_and_cannot_be_seen_does_not_refuse_an_update(pulumi: Path) -> None:
    kept = change("c", "create", None, annotated(QUEUE, KEPT), planning=True)
    events = [*PREVIEW, *kept, end(preview=True)]
    code, _, err = answer(pulumi, *events, update=UPDATE)
    assert (code, err.splitlines()[1]) == (
        0,
        "Could not see what the roll-out would overwrite: kubeconfig /no/such/file: No such file or "
        "directory",
    )


def logging(pulumi: Path) -> None:
    """Have its `pulumi` write its events also where `--event-log` says."""
    script = pulumi / "pulumi"
    log = 'log=$(echo "$*" | sed -n "s/.*--event-log \\([^ ]*\\).*/\\1/p")'
    script.write_text(
        script.read_text().replace(
            'cat "$0.$1"\n', f'{log}\n[ -z "$log" ] || cp "$0.$1" "$log"\ncat "$0.$1"\n'
        )
    )


def test_a_verbose_preview_of_a_pulumi_that_logs_no_events_says_what_was_not_checked(pulumi: Path) -> None:
    assert answer(pulumi, "Previewing update", verbose=True) == (
        0,
        "Previewing update\n",
        f"{LOOKING}Not checked: what would be recreated or taken over. Run it without --verbose as well\n",
    )


REPLACED = [*change("a", "replace", QUEUE, DRAINED, planning=True), end(preview=True)]
REFUSED = (
    "refused: Pulumi would recreate ClusterQueue/team-a and then delete the old objects, but in the cluster "
    "these are the same. If cluster.identifier has changed, change it back. If an object has moved to "
    "another section of the stack file, remove it in one roll-out, and add it in the next. To replace them "
    'anyway, add --replace "ClusterQueue/team-a"\n'
)


@pytest.mark.parametrize("verbose", [False, True])
def test_an_up_replaces_nothing_that_holds_jobs_or_quotas_unless_it_is_named(
    pulumi: Path, verbose: bool
) -> None:
    code, out, err = answer(pulumi, *REPLACED, update=UPDATE, verbose=verbose)
    assert (code, err) == (1, f"{LOOKING}{REFUSED}")
    assert out.startswith("± ClusterQueue team-a: deleted, and recreated\n")
    assert "up " not in (pulumi / "pulumi.called").read_text()
    for allowed in ("ClusterQueue/else ClusterQueue/team-a", "all"):
        assert answer(pulumi, *REPLACED, update=UPDATE, replace=[allowed])[0] == 0
    file = pulumi / "outcome.json"
    code, _, err = answer(pulumi, *REPLACED, outcome=file)
    assert (code, err) == (0, f"{LOOKING}{REFUSED}"), "a preview only says it"
    assert outcomes.read(file, "prod").refusals == (REFUSED.rstrip(),)
    assert (
        answer(pulumi, *change("b", "replace", MAP, MAP, planning=True), end(preview=True), update=UPDATE)[0]
        == 0
    )


MOVED = [
    *change("old", "delete", QUEUE, None, planning=True),
    *change("new", "create", None, QUEUE, planning=True),
    end(preview=True),
]


def test_what_the_stack_file_declares_in_another_place_is_not_deleted_in_its_old_one(pulumi: Path) -> None:
    code, _, err = answer(pulumi, *MOVED, update=UPDATE)
    assert (code, err) == (1, f"{LOOKING}{REFUSED}")
    assert "\nup " not in (pulumi / "pulumi.called").read_text()
    code, _, err = answer(pulumi, *MOVED)
    assert (code, err) == (0, f"{LOOKING}{REFUSED}"), "a preview only says it"


def test_what_is_only_left_in_the_cluster_may_be_declared_in_another_place(pulumi: Path) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    host = change("host", "delete", namespace, None, planning=True)
    for event in host:
        event[next(iter(event))]["metadata"]["old"]["retainOnDelete"] = True
    state = {"deployment": {"resources": [{"urn": "old", "deletedWith": "host"}]}}
    (pulumi / "pulumi.stack").write_text(json.dumps(state))
    assert answer(pulumi, *host, *MOVED, update=UPDATE)[0] == 0


MOVE = Move("urn:cluster", ("cluster.context",), "https://old (context old)", "https://new (context new)")
NOT_MOVED = (
    "refused: cluster.context of the stack file differs from the last roll-out, which went to https://old "
    "(context old); now it is https://new (context new). Pulumi would compare with the old cluster "
    "instead of the new one. If the stack has not moved, change cluster.context back. To "
    'move it, run `up` with --replace "cluster.context": what it has in the old cluster stays there, and '
    "nothing manages it\n"
)


def test_a_stack_that_was_rolled_out_to_another_cluster_is_not_compared_with_that_one(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place(MOVE))
    for update in (None, UPDATE):
        for replace in ([], ["all"]):
            assert answer(pulumi, *PREVIEW, update=update, replace=replace) == (1, "", NOT_MOVED)
    assert not (pulumi / "pulumi.called").exists()


def test_a_stack_moves_if_the_field_is_named_and_pulumi_first_gets_the_new_cluster(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place(MOVE))
    events = [*PREVIEW, end(preview=True)]
    assert answer(pulumi, *events, update=UPDATE, replace=["cluster.context"], verbose=True)[0] == 0
    plain = ON_PROD.replace("--json", "--suppress-progress")
    assert (pulumi / "pulumi.called").read_text() == (
        f"up --target urn:cluster --yes --skip-preview --policy-pack policies {plain}"
        f"preview --refresh --policy-pack policies {ON_PROD}"
        f"up --refresh --yes --skip-preview --policy-pack policies {plain}"
    )


def test_pulumi_gets_the_cluster_for_its_state_and_a_cluster_that_cannot_be_seen_is_said_once(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = moves.Place(None, Identity("uid-old", "https://old"), "403 Forbidden: no")
    monkeypatch.setattr(moves, "found", lambda *_: place)
    (pulumi / "pulumi").write_text(
        f'#!/bin/sh\n{STATE}echo "$TRAINYARD_CLUSTER_IDENTITY" > "$0.identity"\nexit 1\n'
    )
    assert answer(pulumi, update=UPDATE) == (
        1,
        "",
        f"Could not see whether it is the cluster of the last roll-out: 403 Forbidden: no\n{LOOKING}",
    )
    assert (pulumi / "pulumi.identity").read_text() == '{"uid": "uid-old", "server": "https://old"}\n'


MOVING = "Writing the new cluster into Pulumi's state of prod ...\n"


def test_a_move_says_what_it_has_done_also_if_the_preview_then_fails(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place(MOVE))
    script = pulumi / "pulumi"
    told = 'cat "$0.$1"\n'
    script.write_text(script.read_text().replace(told, f'{told}[ "$1" != preview ] || exit 255\n'))
    failed = end(preview=True, result="failed")
    moved = [end(preview=False)]
    assert answer(pulumi, *PREVIEW, failed, update=moved, replace=["cluster.context"]) == (
        255,
        "prod: Pulumi's state now names the new cluster; nothing else has been changed yet\n"
        "+ ConfigMap team-a/one\n"
        "prod: the preview failed, and nothing has been changed but Pulumi's state, which names the new "
        "cluster\n",
        f"{MOVING}{LOOKING}",
    )


def test_a_move_that_fails_ends_an_up(pulumi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place(MOVE))
    failed = [end(preview=False, result="failed")]
    assert answer(pulumi, update=failed, code=255, replace=["cluster.context"]) == (
        255,
        "prod: Pulumi's state may still name the old cluster; nothing else has been changed\n",
        MOVING,
    )


def test_another_way_to_the_same_cluster_is_no_new_cluster(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = ("cluster.kubeconfig", "cluster.context")
    same = dataclasses.replace(MOVE, fields=fields, same_cluster=True)
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place(same))
    failed = [end(preview=False, result="failed")]
    assert answer(pulumi, update=failed, code=255, replace=fields) == (
        255,
        "prod: Pulumi's state may still name the old cluster.kubeconfig and cluster.context; nothing else "
        "has been changed\n",
        "Writing the new cluster.kubeconfig and cluster.context into Pulumi's state of prod ...\n",
    )


UNCHANGED = [*change("a", "same", QUEUE, QUEUE, planning=True), end(preview=True)]
UNCHANGED_BY = [*UPDATE[:2], end(preview=False)]


def test_where_nothing_changes_an_up_does_not_read_the_cluster_again(pulumi: Path) -> None:
    assert answer(pulumi, *UNCHANGED, update=UNCHANGED_BY) == (
        0,
        "prod: 1 unchanged\nprod: there was nothing to change\n",
        f"{LOOKING}Rolling out prod ...\n",
    )
    assert (
        (pulumi / "pulumi.called")
        .read_text()
        .endswith(f"\nup --yes --skip-preview --policy-pack policies {ON_PROD}")
    )


def test_pulumi_gets_the_kubeconfig_that_is_given(pulumi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/the/usual/one")
    answer(pulumi, *PREVIEW, end(preview=True), update=UPDATE, kubeconfig="/else")
    answer(pulumi, *PREVIEW, end(preview=True), kubeconfig=None)
    assert (pulumi / "pulumi.kubeconfig").read_text() == "/else\n/else\n/the/usual/one\n"


def test_pulumi_gets_the_paths_of_kubeconfigs_whole_because_it_looks_for_them_from_another_folder(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    monkeypatch.setenv("KUBECONFIG", ":~/.kube/lab:prod.kubeconfig:/etc/kube")
    here = Path.cwd()
    answer(pulumi, *PREVIEW, end(preview=True), kubeconfig=None)
    answer(pulumi, *PREVIEW, end(preview=True), kubeconfig="../prod.kubeconfig")
    assert (pulumi / "pulumi.kubeconfig").read_text() == (
        f"/home/bob/.kube/lab:{here}/prod.kubeconfig:/etc/kube\n{here}/../prod.kubeconfig\n"
    )


def test_a_preview_that_fails_ends_an_up(pulumi: Path) -> None:
    (pulumi / "pulumi").write_text(f'#!/bin/sh\n{STATE}echo "$@" >> "$0.called"\nexit 255\n')
    assert answer(pulumi, update=UPDATE) == (255, "", LOOKING)
    assert (pulumi / "pulumi.called").read_text() == f"preview --refresh --policy-pack policies {ON_PROD}"


@pytest.mark.parametrize(("name", "skips"), [("onprem", "true"), ("eks", "")])
def test_the_state_is_written_once_unless_a_pool_is_a_node_group_of_a_cloud(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, name: str, skips: str
) -> None:
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(SHIPPED.stacks / f"Pulumi.{name}.yaml"))
    answer(pulumi, *PREVIEW, end(preview=True), update=UPDATE)
    assert (pulumi / "pulumi.skips").read_text() == f"\n{skips}\n"


def test_a_repair_follows_an_update_that_is_done_and_takes_what_git_says_from_its_state(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = {"deployment": {"resources": []}}
    (pulumi / "pulumi.stack").write_text(json.dumps(exported))
    repairs: list[Any] = []

    def repair(stack: str, *, repair: bool, keep: Any, state: Callable[[], Any], **_: Any) -> int:
        repairs.append((stack, repair, keep, state()))
        return 1

    monkeypatch.setattr(drift, "run", repair)
    told = [*PREVIEW, end(preview=True)]
    kept = ["ConfigMap/team-a/one"]
    assert answer(pulumi, *told, update=UPDATE, code=255, repair=True, keep=kept)[0] == 255
    assert repairs == []
    assert answer(pulumi, *told, update=UPDATE, repair=True, keep=kept)[0] == 1
    assert repairs == [("prod", True, kept, exported)]


def test_what_a_repair_is_to_keep_and_the_stack_will_not_have_is_refused_before_the_update(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "run", pytest.fail)
    removed = change("a", "delete", QUEUE, None, planning=True)
    told = [*removed, *PREVIEW[2:], end(preview=True)]
    for missing in ("ClusterQueue/team-a", "ConfigMap/one"):
        kept = [f"ConfigMap/team-a/one {missing}"]
        code, _, err = answer(pulumi, *told, update=UPDATE, repair=True, keep=kept)
        way_out = "the stack has no such object; use Kind/name or Kind/namespace/name"
        assert (code, err) == (2, f"{LOOKING}--keep {missing}: {way_out}\n")
    assert "up " not in (pulumi / "pulumi.called").read_text()


UNREADABLE = (
    "pulumi stack: exit code 255:\n"
    "error: the bucket is away\n"
    "Without Pulumi's state of prod, nobody knows which cluster prod was rolled out to. If the stack was "
    "never created: make stack STACK=prod. If its state is lost or damaged: docs/upgrade-and-removal.md, "
    '"Restore a lost state". Otherwise run the same command again when this succeeds: pulumi stack export '
    "--stack prod\n"
)


@pytest.mark.parametrize("update", [None, UPDATE])
def test_a_stack_whose_state_cannot_be_read_is_neither_previewed_nor_changed_and_it_says_why(
    pulumi: Path, update: Any
) -> None:
    (pulumi / "pulumi.stack").write_text("error: the bucket is away\n")
    (pulumi / "pulumi.stack.code").write_text("255")
    file = pulumi / "outcome.json"
    assert answer(pulumi, *PREVIEW, update=update, outcome=file) == (2, "", UNREADABLE)
    assert not (pulumi / "pulumi.called").exists()
    assert outcomes.read(file, "prod") == Outcome(errors=(UNREADABLE.replace("\n", " ").rstrip(),))


def test_of_a_long_output_of_pulumi_the_outcome_has_the_beginning_and_the_way_out(pulumi: Path) -> None:
    (pulumi / "pulumi.stack").write_text(f"error: BEGIN {'the bucket is away, ' * 100}\n")
    (pulumi / "pulumi.stack.code").write_text("255")
    file = pulumi / "outcome.json"
    assert answer(pulumi, *PREVIEW, outcome=file)[0] == 2
    [error] = outcomes.read(file, "prod").errors
    assert len(error) == 999
    assert error.startswith("pulumi stack: exit code 255: error: BEGIN the bucket")
    assert error.endswith("pulumi stack export --stack prod")


def test_a_state_that_can_no_longer_be_read_after_the_preview_ends_an_up(pulumi: Path) -> None:
    script = pulumi / "pulumi"
    meanwhile = 'echo "error: the bucket is away" > "$0.stack"\necho 255 > "$0.stack.code"\n'
    script.write_text(script.read_text().replace('cat "$0.$1"\n', f'{meanwhile}cat "$0.$1"\n'))
    assert answer(pulumi, *PREVIEW, end(preview=True), update=UPDATE)[::2] == (2, f"{LOOKING}{UNREADABLE}")
    assert "up " not in (pulumi / "pulumi.called").read_text()


@pytest.mark.parametrize(
    ("told", "options", "subcommands"),
    [
        (UNCHANGED, {}, "stack preview"),
        (MOVED, {}, "stack preview"),
        (UNCHANGED, {"update": UNCHANGED_BY}, "stack preview stack up"),
        (MOVED, {"update": UPDATE, "replace": ["all"]}, "stack preview stack up"),
        (MOVED, {"update": UNANSWERED, "code": 255, "replace": ["all"]}, "stack preview stack up up up"),
    ],
    ids=["a preview", "of a deletion", "nothing to change", "a deletion", "three tries"],
)
def test_the_state_is_exported_before_the_preview_and_before_the_update_and_no_more(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, told: Any, options: dict[str, Any], subcommands: str
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    answer(pulumi, *told, **options)
    assert (pulumi / "pulumi.subcommands").read_text().split() == subcommands.split()


def test_the_state_is_exported_again_where_a_move_has_written_it(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "found", lambda *_: moves.Place(MOVE))
    assert answer(pulumi, *UNCHANGED, update=UNCHANGED_BY, replace=["cluster.context"])[0] == 0
    assert (pulumi / "pulumi.subcommands").read_text() == "stack\nup\nstack\npreview\nstack\nup\n"


CHANGED_WITH = {
    "stack.yaml": "changed since the preview: {folder}/stack.yaml",
    "pulumi.stack": "Pulumi's state of prod has changed since the preview, by a roll-out of somebody else",
}


@pytest.mark.parametrize("name", CHANGED_WITH)
def test_an_update_that_would_not_be_the_one_that_was_previewed_is_refused(pulumi: Path, name: str) -> None:
    (pulumi / "pulumi.stack").write_text(json.dumps({"deployment": {"resources": [{"urn": "a"}]}}))
    later = pulumi / "later"
    others = {"stack.yaml": TENANT, "pulumi.stack": json.dumps({"deployment": {"resources": []}})}
    later.write_text(others[name])
    script = pulumi / "pulumi"
    meanwhile = f'[ "$1" != preview ] || cp {later} {pulumi / name}\n'
    script.write_text(script.read_text().replace('cat "$0.$1"\n', f'{meanwhile}cat "$0.$1"\n'))
    code, _, err = answer(pulumi, *PREVIEW, end(preview=True), update=UPDATE)
    why = CHANGED_WITH[name].format(folder=pulumi)
    again = "Run the same command again, which makes a new preview"
    assert (code, err) == (1, f"{LOOKING}refused: {why}. {again}\n")
    assert "up " not in (pulumi / "pulumi.called").read_text()


PLACE = moves.Place(None, Identity("uid-a", "https://a"))
OTHER_CLUSTER = (
    "refused: the preview was of https://a, but the cluster that would be changed is https://b (kubeconfig "
    "/k, context 'b'), and that is another one: its namespace kube-system has another uid. Select the "
    "cluster of the preview again in the kubeconfig: kubectl config use-context NAME. Then run the same "
    "command again, which makes a new preview"
)


def leads_to(monkeypatch: pytest.MonkeyPatch, *uids: str) -> None:
    """The kubeconfig leads to these clusters, one after the other."""
    credentials = Credentials("https://b", None, source="kubeconfig /k, context 'b'")
    clusters = iter(uids)
    monkeypatch.setattr(moves, "found", lambda *_: PLACE)
    monkeypatch.setattr(connection, "load", lambda *_: credentials)
    monkeypatch.setattr(moves, "identity", lambda *_: Identity(next(clusters), "https://b"))


def test_an_update_of_another_cluster_than_that_of_the_preview_is_refused(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads_to(monkeypatch, "uid-b")
    code, _, err = answer(pulumi, *PREVIEW, end(preview=True), update=UPDATE)
    assert (code, err) == (1, f"{LOOKING}{OTHER_CLUSTER}\n")
    assert "up " not in (pulumi / "pulumi.called").read_text()


def test_an_update_is_not_tried_again_in_another_cluster(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads_to(monkeypatch, "uid-a", "uid-b")
    monkeypatch.setattr(time, "sleep", lambda _: None)
    code, _, err = answer(pulumi, *PREVIEW, end(preview=True), update=UNANSWERED, code=255)
    assert (code, err.splitlines()[-1]) == (255, OTHER_CLUSTER)
    assert (pulumi / "pulumi.called").read_text().count("up ") == 1


def test_one_that_breaks_off_says_how_far_it_came_and_why(pulumi: Path) -> None:
    update = [
        UPDATE[2],
        said("error", "the server is away", "b"),
        said("error", "the server is away", "b"),
        said("info", "Waiting for it", "b"),
        end(preview=False, result="failed"),
    ]
    assert answer(pulumi, *PREVIEW, end(preview=True), update=update, code=255) == (
        255,
        "+ ConfigMap team-a/one\nprod: 1 to create, 1 unchanged\n"
        "prod: it did not finish, with 0 of 1 changes made\n",
        f"{LOOKING}Rolling out prod ...\nerror: ConfigMap team-a/one: the server is away\n",
    )


def tries(pulumi: Path, monkeypatch: pytest.MonkeyPatch, *updates: Sequence[Any]) -> tuple[int, str, str]:
    """What an `up` prints whose updates are these, one after the other; all but the last fail."""
    pauses: list[float] = []
    files = iter(updates[1:])

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        events = next(files)
        (pulumi / "pulumi.up").write_text("".join(f"{json.dumps(event)}\n" for event in events))
        (pulumi / "pulumi.up.code").write_text("0" if events[-1] == end(preview=False) else "255")

    monkeypatch.setattr(time, "sleep", pause)
    told = [*PREVIEW, *change("c", "create", None, {**MAP, "kind": "Secret"}, planning=True)]
    answer_ = answer(pulumi, *told, end(preview=True), update=updates[0], code=255)
    assert pauses == [10.0] * (len(updates) - 1)
    return answer_


def test_an_update_is_tried_again_while_a_webhook_does_not_answer(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {**MAP, "kind": "Secret"}
    first = [
        *change("c", "create", None, secret, planning=False),
        UPDATE[2],
        SILENT,
        FAILED,
        end(preview=False, result="failed"),
    ]
    second = [
        *change("c", "same", secret, secret, planning=False),
        *change("b", "create", None, MAP, planning=False),
        end(preview=False),
    ]
    code, out, err = tries(pulumi, monkeypatch, first, second)
    assert (code, out.splitlines()[-2:]) == (
        0,
        ["prod: it did not finish, with 1 of 2 changes made", "prod: 2 of 2 changes made"],
    )
    assert err.splitlines()[-1] == "A webhook did not answer. Trying again in 10 s ..."


def test_an_update_is_not_tried_again_with_other_files(
    pulumi: Path, stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: stack.write_text(TENANT))
    code, _, err = answer(pulumi, *PREVIEW, end(preview=True), update=UNANSWERED, code=255)
    assert (code, err.splitlines()[-2:]) == (
        255,
        [
            "A webhook did not answer. Trying again in 10 s ...",
            f"refused: changed since the preview: {stack}. Run the same command again, which makes a new "
            "preview",
        ],
    )


def test_an_update_is_tried_three_times(pulumi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = tries(pulumi, monkeypatch, UNANSWERED, UNANSWERED, UNANSWERED)
    assert (code, err.count("failed calling webhook")) == (255, 3)


@pytest.mark.parametrize("others", [[said("error", "is invalid", "a")], [FAILED]])
def test_an_update_that_failed_for_another_reason_is_not_tried_again(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, others: Sequence[Any]
) -> None:
    silent = [SILENT] if others != [FAILED] else []
    failed = [UPDATE[2], *silent, *others, end(preview=False, result="failed")]
    assert tries(pulumi, monkeypatch, failed)[0] == 255


def test_what_it_waits_for_is_said_while_it_takes_long(pulumi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_progress, "_QUIET_SECONDS", 0.0)
    waits = said("info", "[1/2] Waiting for its pods", "b")
    waits["diagnosticEvent"]["ephemeral"] = True
    update = [UPDATE[2], waits, end(preview=False)]
    _, _, err = answer(pulumi, *PREVIEW, end(preview=True), update=update)
    assert err.endswith(
        "Rolling out prod ...\n... 0 s, 0 of 2 objects, ConfigMap team-a/one: [1/2] Waiting for its pods\n"
    )


def test_a_preview_also_writes_what_it_comes_to(pulumi: Path, tmp_path: Path) -> None:
    file = tmp_path / "prod.json"
    code, out, _ = answer(pulumi, *PREVIEW, end(preview=True), outcome=file)
    assert (code, out) == (0, "+ ConfigMap team-a/one\nprod: 1 to create, 1 unchanged\n")
    assert outcomes.read(file, "prod") == Outcome("1 to create, 1 unchanged")


def test_a_preview_that_is_killed_leaves_what_says_so_and_nothing_of_an_earlier_one(
    pulumi: Path, tmp_path: Path
) -> None:
    file, then = tmp_path / "prod.json", tmp_path / "then.json"
    outcomes.write(file, "prod", Outcome("an earlier one"))
    script = pulumi / "pulumi"
    script.write_text(script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\ncp {file} {then}\n"))
    answer(pulumi, *PREVIEW, end(preview=True), outcome=file)
    assert outcomes.read(then, "prod") == Outcome(errors=("the preview ended without a result",))


def test_a_preview_that_fails_writes_what_refuses_it_and_what_else_went_wrong(
    pulumi: Path, tmp_path: Path
) -> None:
    file = tmp_path / "prod.json"
    policy = {
        "policyEvent": {
            "resourceUrn": "b",
            "policyName": "image-tag",
            "enforcementLevel": "mandatory",
            "message": "must name a digest",
        }
    }
    told = ["error: no such plugin", "refused by nobody", *PREVIEW, said("error", "no such file"), policy]
    assert answer(pulumi, *told, end(preview=True, result="failed"), code=255, outcome=file)[0] == 255
    assert outcomes.read(file, "prod") == Outcome(
        "the preview failed, and nothing has been changed",
        ("refused by image-tag: ConfigMap team-a/one: must name a digest",),
        ("error: no such plugin", "error: no such file"),
    )


@pytest.mark.parametrize("verbose", [False, True])
def test_a_preview_of_which_pulumi_reports_nothing_writes_its_exit_code(
    pulumi: Path, tmp_path: Path, verbose: bool
) -> None:
    file = tmp_path / "prod.json"
    assert answer(pulumi, code=255, verbose=verbose, outcome=file)[0] == 255
    assert outcomes.read(file, "prod") == Outcome(
        errors=("pulumi ended with exit code 255; its output says why",)
    )


def test_what_refuses_a_preview_before_pulumi_is_run_is_written_too(
    pulumi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prod.json"
    refusal = "refused by the cluster: ClusterTrainingRuntime torch: no such volume"
    monkeypatch.setattr(runtime_trials, "refusals", lambda *_: [refusal])
    assert answer(pulumi, outcome=file) == (1, "", f"{refusal}\n")
    assert outcomes.read(file, "prod") == Outcome(refusals=(refusal,))


def test_what_keeps_pulumi_from_being_run_is_written_too(
    pulumi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prod.json"
    code, _, err = answer(pulumi, context="other", outcome=file)
    assert code == 2
    assert outcomes.read(file, "prod") == Outcome(errors=(err.rstrip("\n"),))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert answer(pulumi, outcome=file)[0] == 2
    assert outcomes.read(file, "prod") == Outcome(errors=("pulumi cannot be run: No such file or directory",))


def test_a_preview_that_cannot_write_what_it_comes_to_does_not_begin(pulumi: Path, tmp_path: Path) -> None:
    assert answer(pulumi, *PREVIEW, end(preview=True), outcome=tmp_path) == (
        2,
        "",
        f"{tmp_path}: the result of the preview cannot be written: Is a directory. Name another file\n",
    )
    assert not (pulumi / "pulumi.called").exists()


def test_what_a_policy_refuses_is_said_once_and_of_which_object(pulumi: Path) -> None:
    policy = {
        "policyEvent": {
            "resourceUrn": "b",
            "policyName": "image-tag",
            "enforcementLevel": "mandatory",
            "message": "must name a digest",
        }
    }
    code, out, _ = answer(pulumi, *PREVIEW, policy, policy, end(preview=True, result="failed"), code=255)
    assert (code, out) == (
        255,
        "+ ConfigMap team-a/one\nrefused by image-tag: ConfigMap team-a/one: must name a digest\n"
        "prod: the preview failed, and nothing has been changed\n",
    )


def test_jobs_that_cannot_be_asked_for_are_no_reason_to_say_nothing(pulumi: Path) -> None:
    told = [*change("a", "update", QUEUE, DRAINED, planning=True), end(preview=True)]
    code, out, _ = answer(pulumi, *told)
    assert code == 0
    assert out.startswith("~ ClusterQueue team-a\n    spec.stopPolicy: None -> HoldAndDrain\n")
    assert "Could not see the TrainJobs: " in out
    assert out.endswith("prod: 1 to change\n")


def test_what_is_no_event_and_what_the_program_says_goes_past(pulumi: Path) -> None:
    told = ["error: no stack named 'prod' found", said("info", "runtime x is left out")]
    code, out, err = answer(pulumi, *told, code=255)
    assert (code, out) == (255, "")
    assert err == f"{LOOKING}error: no stack named 'prod' found\nruntime x is left out\n"


@pytest.mark.parametrize(("update", "ended"), [(None, "preview"), (UPDATE, "preview"), (UPDATE, "up")])
def test_a_reader_that_has_gone_ends_it_before_a_change_and_not_after(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, update: Any, ended: str
) -> None:
    repairs: list[str] = []

    def repair(stack: str, **_: Any) -> int:
        repairs.append(stack)
        return 0

    monkeypatch.setattr(drift, "run", repair)
    out = Gone(ended)
    options = {"update": update, "repair": update is not None, "out": out}
    told = [*PREVIEW, end(preview=True)]
    if ended == "up":
        assert answer(pulumi, *told, **options)[0] == 0
        assert repairs == ["prod"]
    else:
        with pytest.raises(BrokenPipeError):
            answer(pulumi, *told, **options)
        assert "up " not in (pulumi / "pulumi.called").read_text()


class Gone(io.StringIO):
    """Output whose reader has gone when the preview, or the update, is told."""

    def __init__(self, ended: str) -> None:
        super().__init__()
        self._ended = ended

    def write(self, text: str) -> int:
        if self._ended == "preview" or "changes made" in text:
            raise BrokenPipeError
        return super().write(text)


def test_without_pulumi_it_says_so(stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = answered(rollout.run, "prod", change=False)
    assert (code, out) == (2, "")
    assert err.endswith("pulumi cannot be run: No such file or directory\n")


KILLED = (
    "error: SIGKILL ended pulumi before it was done. What it has changed stays in the cluster, and its lock "
    "on prod stays too. Make sure that no pulumi works on prod any more, then run `pulumi cancel --stack "
    "prod --yes` and the same command again, which continues (docs/upgrade-and-removal.md)\n"
)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    ("killed", "err"),
    [
        ("up", f"{LOOKING}Rolling out prod ...\n{KILLED}"),
        (
            "preview",
            f"{LOOKING}error: SIGKILL ended pulumi. A preview changes nothing: run the same command again\n",
        ),
    ],
)
def test_of_a_pulumi_that_is_killed_it_says_what_that_leaves_and_the_next_step(
    pulumi: Path, capfd: pytest.CaptureFixture[str], killed: str, err: str, verbose: bool
) -> None:
    script = pulumi / "pulumi"
    script.write_text(f'#!/bin/sh\n[ "$1" != {killed} ] || kill -9 $$\ncat "$0.$1"\n')
    code, _, printed = answer(pulumi, *PREVIEW, end(preview=True), update=[], verbose=verbose)
    assert (code, printed + capfd.readouterr().err) == (137, err)


def begun(folder: Path, *options: str, preview: str, stop: str = "pass") -> subprocess.Popen[str]:
    """`trainyard up` with a Pulumi whose preview does this in Python, and whose `up` says `begun`.

    Stopped, it does `stop` and says `cancelled`.
    """
    script = folder / "pulumi"
    script.write_text(
        textwrap.dedent(
            f"""\
            #!{sys.executable}
            import signal, sys, time
            if sys.argv[1] == "stack":
                print('{{"deployment": {{}}}}')  # it was never rolled out
                sys.exit(0)
            def stop(*_):
                {stop}
                print("cancelled", file=sys.stderr, flush=True)
                time.sleep(0.5)
                sys.exit(3)
            def again(*_):
                print("terminated", file=sys.stderr, flush=True)
                sys.exit(4)
            def first(*_):
                for number in signals:
                    signal.signal(number, again)
                stop()
            signals = signal.SIGINT, signal.SIGTERM
            for number in signals:
                signal.signal(number, first)
            if sys.argv[1] == "preview":
                {preview}
                sys.exit(0)
            print("begun", file=sys.stderr, flush=True)
            time.sleep(3600)
            """
        )
    )
    script.chmod(0o755)
    begin = "from trainyard_cli.main import main; main()"
    command = [sys.executable, "-c", begin, "up", "--stack", "prod", *options]
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--verbose",)])
def test_who_ends_it_has_pulumi_end_what_it_has_begun(
    stack: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with begun(tmp_path, *options, preview="pass") as process:
        assert process.stderr is not None
        assert "begun\n" in iter(process.stderr.readline, "")
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == "cancelled\n"
        assert process.wait() == 3


@pytest.mark.parametrize(
    "numbers",
    long_unless(
        lambda numbers: numbers == ["INT", "TERM"],
        [["TERM", "TERM"], ["INT", "INT"], ["INT", "TERM"], ["HUP", "TERM"]],
    ),
)
def test_who_ends_its_group_and_ends_it_once_more_has_pulumi_end_what_it_has_begun(
    stack: Path, tmp_path: Path, numbers: Sequence[str]
) -> None:
    with begun(tmp_path, preview="pass") as process:
        assert process.stderr is not None
        assert "begun\n" in iter(process.stderr.readline, "")
        for name in numbers:
            os.killpg(process.pid, signal.Signals[f"SIG{name}"])
            time.sleep(0.1)
        assert process.stderr.read() == "cancelled\n"
        assert process.wait() == 3


@pytest.mark.long
def test_under_nohup_a_terminal_that_closes_does_not_end_it(stack: Path, tmp_path: Path) -> None:
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = begun(tmp_path, preview="pass")
    finally:
        signal.signal(signal.SIGHUP, ignored)
    with process:
        assert process.stderr is not None
        assert "begun\n" in iter(process.stderr.readline, "")
        os.killpg(process.pid, signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == "cancelled\n"


@pytest.mark.long
def test_a_second_ctrl_c_ends_what_pulumi_has_begun(stack: Path, tmp_path: Path) -> None:
    with begun(tmp_path, preview="pass", stop="time.sleep(3600)") as process:
        assert process.stderr is not None
        assert "begun\n" in iter(process.stderr.readline, "")
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(1.1)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.read() == "terminated\n"
        assert process.wait() == 4


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--verbose",)])
def test_whose_output_has_lost_its_reader_has_pulumi_end_what_it_has_begun(
    stack: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    ends = "print('still here', flush=True); print('and here', file=sys.stderr, flush=True)"
    with begun(tmp_path, *options, preview="pass", stop=ends) as process:
        assert process.stderr is not None
        assert "begun\n" in iter(process.stderr.readline, "")
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 3


def test_who_ends_it_after_a_preview_has_nothing_rolled_out(stack: Path, tmp_path: Path) -> None:
    ends = "signal.signal(signal.SIGINT, lambda *_: sys.exit(0))"
    preview = f"{ends}; print('read', file=sys.stderr, flush=True); time.sleep(3600)"
    with begun(tmp_path, preview=preview) as process:
        assert process.stderr is not None
        assert "read\n" in iter(process.stderr.readline, "")
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == (
            "error: SIGTERM ended pulumi. A preview changes nothing: run the same command again\n"
        )
        assert process.wait() == 128 + signal.SIGTERM
