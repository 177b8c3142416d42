"""`trainyard destroy`: what it runs, when it asks, what it prints, and its exit codes."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from trainyard_cli.cluster import connection, moves
from trainyard_cli.cluster.workloads import Seen
from trainyard_cli.commands import destroy
from trainyard_delivery.impact import Job, Ref, State
from trainyard_delivery.pulumi_state import Identity
from trainyard_kube.client import ApiError, NotFoundError
from trainyard_kube.credentials import Credentials, CredentialsError

STACK = """
config:
  trainyard:platform:
    operator: {image: "example.com/operator:1"}
"""
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trainyard-system"}}
QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "team-a"},
}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
JOB = Job("team-a", "llama", State.RUNNING, Ref("ClusterTrainingRuntime", "", "torch"), started=True)
STATE = {
    "deployment": {
        "resources": [
            {
                "type": "pulumi:providers:kubernetes",
                "urn": "urn:pulumi:prod::trainyard::pulumi:providers:kubernetes::cluster",
                "inputs": {"context": "prod"},
            },
            {"type": "trainyard:platform:JobSet", "urn": "jobset", "custom": False},
            {"type": "kubernetes:x:ClusterQueue", "urn": "queue", "deletedWith": "jobset", "custom": True},
        ]
    }
}


def deleted(urn: str, manifest: Any, *, planning: bool, retained: bool = False) -> list[dict[str, Any]]:
    old = {"custom": True, "inputs": manifest, "retainOnDelete": retained}
    metadata = {"op": "delete", "urn": urn, "type": "kubernetes:x:Y", "old": old, "new": None}
    return [
        {"resourcePreEvent": {"metadata": metadata, "planning": planning}},
        {"resOutputsEvent": {"metadata": metadata, "planning": planning}},
    ]


def events(*, planning: bool, result: str = "succeeded") -> list[dict[str, Any]]:
    return [
        *deleted("role", ROLE, planning=planning),
        *deleted("queue", QUEUE, planning=planning),
        *deleted("space", SPACE, planning=planning, retained=True),
        {"summaryEvent": {"isPreview": planning, "result": result}},
    ]


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `pulumi` prints what its files hold, and keeps how it was called."""
    script = tmp_path / "pulumi"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = stack ]; then cat "$0.stack"; exit 0; fi\n'
        'echo "$@" >> "$0.called"\necho "$KUBECONFIG" >> "$0.kubeconfig"\n'
        'cat "$0.$2"\nexit $(cat "$0.$2.code")\n'
    )
    script.chmod(0o755)
    (tmp_path / "pulumi.stack").write_text(json.dumps(STATE))
    (tmp_path / "stack.yaml").write_text(f"{STACK}    cluster: {{context: prod}}\n")
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(tmp_path / "stack.yaml"))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    credentials = Credentials("https://10.0.0.1", None, source="kubeconfig /k, context 'prod'")
    monkeypatch.setattr(connection, "load", lambda *_: credentials)
    monkeypatch.setattr(moves, "identity", lambda *_: Identity("uid-a", "https://10.0.0.1"))

    async def look(_: Any, *, pools: bool) -> Seen:
        assert pools
        return Seen([JOB], {"nodes": "you are not allowed to list them"})

    monkeypatch.setattr(destroy, "look", look)
    return tmp_path


def answer(
    pulumi: Path,
    *,
    preview: Sequence[Any] = tuple(events(planning=True)),
    update: Sequence[Any] = tuple(events(planning=False)),
    codes: tuple[int, int] = (0, 0),
    says: bool = False,
    **options: Any,
) -> tuple[int, str, str]:
    """The exit code and what is printed, if whoever is asked says yes or no."""
    for option, told, code in zip(("--preview-only", "--yes"), (preview, update), codes, strict=True):
        (pulumi / f"pulumi.{option}").write_text("".join(f"{json.dumps(event)}\n" for event in told))
        (pulumi / f"pulumi.{option}.code").write_text(str(code))

    def ask(question: str) -> bool:
        print(question, file=sys.stderr)
        return says

    return answered(destroy.run, "prod", ask=ask, **options)


def called(pulumi: Path) -> list[str]:
    made = pulumi / "pulumi.called"
    return made.read_text().splitlines() if made.exists() else []


ON_PROD = "--stack prod --non-interactive --color never --json"
PREVIEW, DESTROY = f"destroy --preview-only {ON_PROD}", f"destroy --yes --skip-preview {ON_PROD}"
BEFORE = """\
prod: https://10.0.0.1 (kubeconfig /k, context 'prod')
- 1 ClusterRole
= 1 ClusterQueue, 1 Namespace: stay in the cluster, and nothing manages them until the next up
    Namespace trainyard-system: with all that is in them; people of tenants lose their rights
    1 ClusterQueue: with the quota of jobs that run
TrainJobs that have not ended: 1
    team-a/llama (running) keeps its pods, which run on; loses its status, restarts and further steps until \
the next up
Could not see nodes: you are not allowed to list them
prod: 1 to delete, 2 to leave in the cluster
"""
READING = "Reading what prod has in its cluster ...\n"
QUESTION = "Destroy prod in https://10.0.0.1?\n"
DESTROYING = "Destroying prod in https://10.0.0.1 ...\n"
AFTER = """\
prod: 3 of 3 changes made
To bring it back, and take over what has stayed: make up STACK=prod
Before that, and for all else that has stayed: docs/upgrade-and-removal.md, "Remove the platform"
"""


def test_it_names_the_cluster_and_says_what_goes_what_stays_and_which_jobs_run_before_it_asks(
    pulumi: Path,
) -> None:
    assert answer(pulumi, says=True) == (0, BEFORE + AFTER, READING + QUESTION + DESTROYING)
    assert called(pulumi) == [PREVIEW, DESTROY]


def test_without_a_yes_nothing_is_deleted(pulumi: Path) -> None:
    said = "Nothing has been deleted. To do it without confirmation: trainyard destroy --stack prod --yes\n"
    assert answer(pulumi, says=False) == (1, BEFORE, READING + QUESTION + said)
    assert called(pulumi) == [PREVIEW]


def test_the_command_without_confirmation_is_the_same_one(pulumi: Path) -> None:
    _, _, err = answer(pulumi, kubeconfig="my config", context="prod", exclude_protected=True)
    assert err.endswith(
        "Nothing has been deleted. To do it without confirmation: trainyard destroy --stack prod "
        "--kubeconfig 'my config' --context prod --exclude-protected --yes\n"
    )


def test_with_the_flag_nobody_is_asked(pulumi: Path) -> None:
    assert answer(pulumi, yes=True, kubeconfig="/k") == (0, BEFORE + AFTER, READING + DESTROYING)
    assert (pulumi / "pulumi.kubeconfig").read_text() == "/k\n/k\n"


@pytest.mark.parametrize("yes", [False, True])
def test_a_dry_run_only_says_it(pulumi: Path, yes: bool) -> None:
    assert answer(pulumi, dry_run=True, yes=yes) == (0, BEFORE, READING)
    assert called(pulumi) == [PREVIEW]


def test_a_stack_without_objects_is_not_asked_about(pulumi: Path) -> None:
    code, out, err = answer(pulumi, preview=[{"summaryEvent": {"isPreview": True, "result": "succeeded"}}])
    assert (code, out.splitlines()[1:], err) == (0, ["prod: nothing in it"], READING)


def test_what_pulumi_refuses_ends_it_before_anything_is_deleted(pulumi: Path) -> None:
    refused = {"severity": "error", "message": "cannot be deleted because it is protected", "urn": "role"}
    preview = [
        *deleted("role", ROLE, planning=True),
        {"diagnosticEvent": refused},
        {"summaryEvent": {"isPreview": True, "result": "failed"}},
    ]
    code, out, err = answer(pulumi, preview=preview, codes=(255, 0), yes=True)
    assert (code, out.splitlines()[-1]) == (255, "prod: the preview failed, and nothing has been changed")
    assert err == f"{READING}error: ClusterRole r: cannot be deleted because it is protected\n"
    assert called(pulumi) == [PREVIEW]


def test_what_is_protected_can_be_left_out(pulumi: Path) -> None:
    answer(pulumi, yes=True, exclude_protected=True)
    assert called(pulumi) == [
        f"destroy --preview-only --exclude-protected {ON_PROD}",
        f"destroy --yes --skip-preview --exclude-protected {ON_PROD}",
    ]


def test_one_that_breaks_off_says_how_far_it_came(pulumi: Path) -> None:
    update = [*deleted("role", ROLE, planning=False), events(planning=False, result="failed")[-1]]
    code, out, _ = answer(pulumi, update=update, codes=(0, 255), yes=True)
    assert (code, out) == (255, f"{BEFORE}prod: it did not finish, with 1 of 3 changes made\n")


def test_a_stack_that_was_rolled_out_to_another_cluster_is_not_destroyed(pulumi: Path) -> None:
    (pulumi / "stack.yaml").write_text(STACK)
    assert answer(pulumi, yes=True) == (
        2,
        "",
        "cluster.context of the stack file is none, and the last roll-out had prod: that is the cluster that "
        "would be destroyed. Change the stack file back, or roll out first\n",
    )
    assert called(pulumi) == []


def test_a_stack_whose_state_cannot_be_read_is_not_destroyed_and_it_says_why(pulumi: Path) -> None:
    script = pulumi / "pulumi"
    away = 'echo "error: the bucket is away"; exit 255'
    script.write_text(script.read_text().replace('cat "$0.stack"; exit 0', away))
    code, out, err = answer(pulumi, yes=True)
    assert (code, out, called(pulumi)) == (2, "", [])
    assert err.startswith(
        "pulumi stack: exit code 255:\nerror: the bucket is away\n"
        "Without Pulumi's state of prod, nobody knows which cluster prod was rolled out to. "
    )


def test_a_kubeconfig_in_the_home_folder_is_that_of_whoever_destroys(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    (pulumi / "pulumi.stack").write_text(
        json.dumps(STATE).replace('"context"', '"kubeconfig": "~/k", "context"')
    )
    (pulumi / "stack.yaml").write_text(f"{STACK}    cluster: {{context: prod, kubeconfig: ~/k}}\n")
    assert answer(pulumi, dry_run=True)[0] == 0


def test_nothing_is_deleted_where_nobody_can_say_which_jobs_run(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Seen:
        raise ApiError("no answer")

    monkeypatch.setattr(destroy, "look", away)
    code, _, err = answer(pulumi, yes=True)
    assert (code, err) == (2, "Could not see the TrainJobs, so nothing is deleted: no answer\n")

    def load(*_: Any) -> Credentials:
        raise CredentialsError("no kubeconfig")

    monkeypatch.setattr(connection, "load", load)
    assert answer(pulumi, yes=True) == (2, "", "no kubeconfig\n")
    assert called(pulumi) == []


def test_a_cluster_that_does_not_know_trainjobs_has_none(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*_: Any, **__: Any) -> Seen:
        raise NotFoundError("no such kind")

    monkeypatch.setattr(destroy, "look", unknown)
    code, out, _ = answer(pulumi, dry_run=True)
    assert (code, "TrainJobs that have not ended: none" in out) == (0, True)


def rolled_out_to(pulumi: Path, uid: str) -> None:
    root = {
        "type": "pulumi:pulumi:Stack",
        "urn": "urn:root",
        "outputs": {"clusterIdentity": {"uid": uid, "server": "https://10.0.0.2"}},
    }
    state = {"deployment": {"resources": [root, *STATE["deployment"]["resources"]]}}
    (pulumi / "pulumi.stack").write_text(json.dumps(state))


def test_a_stack_is_not_removed_from_another_cluster_than_the_last_roll_out_went_to(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "identity", lambda *_: Identity("uid-b", "https://10.0.0.1"))
    rolled_out_to(pulumi, "uid-a")
    assert answer(pulumi, yes=True) == (
        2,
        "",
        "the last roll-out went to https://10.0.0.2, but the cluster that would be destroyed is "
        "https://10.0.0.1 (kubeconfig /k, context 'prod'), and that is another one: its namespace "
        "kube-system has another uid. Select the cluster of the last roll-out again in the kubeconfig: "
        "kubectl config use-context NAME. If the stack has moved, or the cluster was recreated, first "
        'run `up` with --replace "cluster.context"\n',
    )
    assert called(pulumi) == []
    rolled_out_to(pulumi, "uid-b")
    assert answer(pulumi, yes=True)[0] == 0


def test_another_context_of_the_same_cluster_is_first_to_be_rolled_out(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pulumi / "stack.yaml").write_text(f"{STACK}    cluster: {{context: renamed}}\n")
    rolled_out_to(pulumi, "uid-a")
    uids = iter(["uid-a", "uid-b"])
    monkeypatch.setattr(moves, "identity", lambda *_: Identity(next(uids), "https://10.0.0.1"))
    same, another = (answer(pulumi, yes=True) for _ in range(2))
    assert same == (
        2,
        "",
        "cluster.context of the stack file is renamed, and the last roll-out had prod, for the same cluster. "
        'Pulumi would still use that: first run `up` with --replace "cluster.context"\n',
    )
    assert another[2].endswith("Change the stack file back, or roll out first\n")
    assert called(pulumi) == []


AWAY = ApiError("you may not get it", code=403, reason="Forbidden")


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (
            Identity("uid-b", "https://10.0.0.3"),
            "the last roll-out went to https://10.0.0.2, but the cluster that would be destroyed is "
            "https://10.0.0.3 (kubeconfig /k, context 'prod'), and that is another one: ",
        ),
        (
            AWAY,
            "refused: could not see whether it is still https://10.0.0.2: 403 Forbidden: you may not get it. "
            "Run the same command again\n",
        ),
    ],
)
def test_a_cluster_that_has_become_another_one_since_the_question_is_not_destroyed(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, later: Any, why: str
) -> None:
    rolled_out_to(pulumi, "uid-a")
    answers = iter([Identity("uid-a", "https://10.0.0.2"), later])

    def identity(*_: Any) -> Identity:
        if isinstance(there := next(answers), ApiError):
            raise there
        return there

    monkeypatch.setattr(moves, "identity", identity)
    code, _, err = answer(pulumi, says=True)
    assert (code, err.startswith(f"{READING}{QUESTION}{why}")) == (2, True)
    assert called(pulumi) == [PREVIEW]


PREVIEWED = (
    "refused: the preview was of https://10.0.0.1, but the cluster that would be destroyed is "
    "https://10.0.0.3 (kubeconfig /k, context 'prod'), and "
)


def test_a_state_without_a_uid_is_of_the_cluster_that_the_question_was_about(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([Identity("uid-a", "https://10.0.0.1"), Identity("uid-b", "https://10.0.0.3")])
    monkeypatch.setattr(moves, "identity", lambda *_: next(seen))
    code, _, err = answer(pulumi, says=True)
    assert (code, err) == (
        2,
        f"{READING}{QUESTION}{PREVIEWED}that is another one: its namespace kube-system has another uid. "
        "Select the cluster of the preview again in the kubeconfig: kubectl config use-context NAME. Then "
        "run the same command again, which makes a new preview\n",
    )
    assert called(pulumi) == [PREVIEW]


def test_where_no_uid_can_be_seen_the_address_has_to_stay(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> Any:
        raise AWAY

    monkeypatch.setattr(moves, "identity", forbidden)
    assert answer(pulumi, says=True) == (0, BEFORE + AFTER, READING + QUESTION + DESTROYING)
    servers = iter(["https://10.0.0.1", "https://10.0.0.3"])
    source = "kubeconfig /k, context 'prod'"
    monkeypatch.setattr(connection, "load", lambda *_: Credentials(next(servers), None, source=source))
    code, _, err = answer(pulumi, says=True)
    assert code == 2
    assert err.startswith(f"{READING}{QUESTION}{PREVIEWED}nobody could see whether it is the same one. ")
    assert called(pulumi) == [PREVIEW, DESTROY, PREVIEW]


def test_what_somebody_has_rolled_out_since_the_preview_is_not_deleted(pulumi: Path) -> None:
    added = {"type": "kubernetes:x:Namespace", "urn": "tenant", "custom": True}
    later = {"deployment": {"resources": [*STATE["deployment"]["resources"], added]}}
    (pulumi / "later").write_text(json.dumps(later))
    script = pulumi / "pulumi"
    meanwhile = f'[ "$2" != --preview-only ] || cp {pulumi / "later"} {pulumi / "pulumi.stack"}\n'
    script.write_text(script.read_text().replace('cat "$0.$2"\n', f'{meanwhile}cat "$0.$2"\n'))
    assert answer(pulumi, yes=True) == (
        2,
        BEFORE,
        f"{READING}refused: Pulumi's state of prod has changed since the preview, by a roll-out of somebody "
        "else. Run the same command again, which makes a new preview\n",
    )
    assert called(pulumi) == [PREVIEW]


def test_where_the_cluster_cannot_be_seen_it_says_so_and_goes_on(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> Any:
        raise AWAY

    monkeypatch.setattr(moves, "identity", forbidden)
    rolled_out_to(pulumi, "uid-a")
    code, _, err = answer(pulumi, yes=True)
    assert code == 0
    assert err.splitlines()[0] == (
        "Could not see whether it is the cluster of the last roll-out: 403 Forbidden: you may not get it"
    )
