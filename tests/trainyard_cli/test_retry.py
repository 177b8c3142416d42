"""`trainyard retry`: what it deletes and sends, what it asks, and what is left wherever it stops."""

import asyncio
import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.typed import typed
from trainyard_cli.cluster import patience, resend
from trainyard_cli.commands import retry
from trainyard_cli.output import Form
from trainyard_kube.client import Client, RetriableError

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
HELLO = f"{JOBS}/hello"
SECRET = "/api/v1/namespaces/team/secrets/code"
CODE = {"name": "code", "secret": {"secretName": "code"}}
POD = {"spec": {"template": {"spec": {"volumes": [CODE]}}}}
PATCH = {
    "manager": "me",
    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": POD}]}}},
}
WISH: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "hello", "namespace": "team", "labels": {"mine": "7"}},
    "spec": {"runtimeRef": {"name": "plain"}, "runtimePatches": [PATCH]},
}


class Cluster(FakeApi):
    """An API server with the TrainJob `hello`, whose pods take `looks` looks to go."""

    def __init__(self, state: str = "Complete", *, looks: int = 0) -> None:
        super().__init__()
        self.looks = looks
        self.stalls = ""
        self.meanwhile: Callable[[], Any] = lambda: None
        self.job(state)

    def job(self, state: str = "Complete") -> None:
        metadata = {"labels": {"mine": "7"}, **({"finalizers": ["foregroundDeletion"]} if self.looks else {})}
        spec = {**WISH["spec"], "suspend": False}
        self.put(HELLO, {"metadata": metadata, "spec": spec, "status": {"trainyard": {"state": state}}})

    def secret(self, *owners: dict[str, Any]) -> None:
        mine = {"kind": "TrainJob", "name": "hello", "uid": self.uid()}
        self.put(SECRET, {"metadata": {"ownerReferences": [mine, *owners]}, "data": {"a": "b"}})

    def uid(self, name: str = "hello") -> str:
        return str(self.objects[f"{JOBS}/{name}"]["metadata"]["uid"])

    def owners(self) -> list[str]:
        return [owner["uid"] for owner in self.objects[SECRET]["metadata"].get("ownerReferences") or []]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            self.meanwhile()
            self.meanwhile = lambda: None
        return await super()._serve(request)

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        if request.path == self.stalls:
            await asyncio.sleep(60)
        if request.path == HELLO and "deletionTimestamp" in self.objects.get(HELLO, {}).get("metadata", {}):
            self.looks -= 1
            if not self.looks:
                self.remove(HELLO)
        return await super()._get(request, body)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where manifests are kept that are not sent yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(resend, "EVERY", 0.001)
    return tmp_path / "trainyard" / "unsent"


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[..., tuple[int, str, str]]:
    """What the command answers somebody who says yes."""

    def answer(api: FakeApi, *, says: bool = True, **options: Any) -> tuple[int, str, str]:
        return typed(api, monkeypatch, retry.run, "hello", ask=lambda _: says, **options)

    return answer


Again = Callable[..., tuple[int, str, str]]


def test_a_job_that_has_ended_is_sent_again_as_it_was_written(again: Again, folder: Path) -> None:
    api = Cluster()
    old = api.uid()
    code, out, err = again(api, says=False)
    assert (code, out) == (0, "TrainJob team/hello is sent again\n")
    assert err == f"Until it is sent, its manifest is in {folder}/team.hello.{old}.yaml\n"
    assert api.writes() == [("POST", JOBS), ("DELETE", HELLO), ("POST", JOBS)]
    assert [body for body in api.bodies if body and body.get("kind") == "TrainJob"] == [WISH, WISH]
    [deletion] = [body for body in api.bodies if body and body.get("kind") == "DeleteOptions"]
    assert (deletion["preconditions"]["uid"], deletion["propagationPolicy"]) == (old, "Foreground")
    assert api.uid() != old
    assert list(folder.iterdir()) == []


def test_the_new_one_is_sent_when_the_pods_of_the_old_one_have_gone(again: Again) -> None:
    api = Cluster(looks=3)
    code, out, err = again(api)
    assert (code, out) == (0, "TrainJob team/hello is sent again\n")
    assert err.splitlines()[1:] == ["Waiting until its pods have gone: 120 s at most"]


def test_a_job_that_runs_is_sent_again_only_if_somebody_says_yes(again: Again) -> None:
    api = Cluster("Running")
    assert again(api, says=False) == (
        1,
        "",
        "TrainJob team/hello is Running.\n"
        "Nothing has been changed. To do it without confirmation: trainyard retry hello -n team --yes\n"
        "To send it under another name, and delete nothing: trainyard retry hello -n team --name NAME\n",
    )
    assert api.writes() == []
    assert again(api, says=False, yes=True)[0] == 0


def test_a_job_under_another_name_stays_beside_the_old_one(again: Again) -> None:
    api = Cluster("Running")
    assert again(api, says=False, name="second") == (0, "TrainJob team/hello is sent again as second\n", "")
    assert api.writes() == [("POST", JOBS)]
    assert api.bodies[-1] == {**WISH, "metadata": {**WISH["metadata"], "name": "second"}}
    taken = (
        "TrainJob team/hello is not sent again: there is a TrainJob second already, which is left as it is\n"
    )
    assert again(api, name="second") == (1, "", f"{taken}Nothing has been changed.\n")


@pytest.mark.parametrize(("form", "read"), [(Form.TEXT, yaml.safe_load), (Form.JSON, json.loads)])
def test_a_dry_run_prints_the_manifest_and_writes_nothing(form: Form, read: Any, again: Again) -> None:
    api = Cluster("Running")
    code, out, err = again(api, dry_run=True, output=form)
    assert (code, read(out), err, api.writes()) == (0, WISH, "", [])


def test_yaml_is_for_a_dry_run(again: Again) -> None:
    api = Cluster()
    assert again(api, dry_run=True, output=Form.YAML)[1] == again(api, dry_run=True)[1]
    assert again(api, output=Form.YAML) == (
        2,
        "",
        "-o yaml prints the manifest: add --dry-run, or leave out -o yaml\n",
    )


def test_the_json_names_the_new_job(again: Again) -> None:
    code, out, _ = again(Cluster(), name="second", output=Form.JSON)
    assert code == 0
    assert json.loads(out) == {
        "apiVersion": "retry.trainyard.dev/v1alpha1",
        "kind": "Answers",
        "trainJobs": [
            {
                "namespace": "team",
                "name": "second",
                "outcome": "Sent",
                "message": "TrainJob team/hello is sent again as second",
            }
        ],
    }


def test_a_job_that_was_sent_suspended_is_so_again(again: Again) -> None:
    api = Cluster()
    api.objects[HELLO]["spec"]["suspend"] = True
    assert again(api, context="lab")[1] == (
        "TrainJob team/hello is sent again; it is suspended; "
        "to resume it: trainyard resume hello -n team --context lab\n"
    )
    assert api.objects[HELLO]["spec"]["suspend"] is True


# --- what is refused ----------------------------------------------------------------


def test_what_admission_would_refuse_is_not_deleted(again: Again, folder: Path) -> None:
    api = Cluster()
    api.refuse_next("POST", "/trainjobs", status(422, "Invalid", "spec.runtimeRef: not found"))
    code, out, err = again(api)
    assert (code, out) == (1, "")
    assert err == "TrainJob team/hello: 422 Invalid: spec.runtimeRef: not found\nNothing has been changed.\n"
    assert api.writes() == [("POST", JOBS)]
    assert not folder.exists()


class Warns(Cluster):
    async def _post(self, request: web.Request, body: Any) -> web.Response:
        answer = await super()._post(request, body)
        answer.headers.add("Warning", '299 - "ClusterTrainingRuntime plain is deprecated"')
        return answer


@pytest.mark.parametrize("name", ["second", None], ids=["beside the old one", "in its place"])
def test_what_admission_warns_of_is_said_once_and_first(again: Again, name: str | None) -> None:
    code, _, err = again(Warns(), name=name)
    assert (code, err.splitlines()[0]) == (0, "Warning: ClusterTrainingRuntime plain is deprecated")
    assert err.count("deprecated") == 1


def test_with_kueue_down_the_next_step_is_said_and_nothing_is_deleted(again: Again) -> None:
    api = Cluster()
    call = (
        'failed calling webhook "mtrainjob.kb.io": Post '
        '"https://kueue-webhook-service.kueue-system.svc:443/mutate": no route to host'
    )
    api.refuse_next("POST", "/trainjobs", status(500, "InternalError", call))
    code, _, err = again(api)
    assert code != 0
    assert "TrainJob team/hello: Kueue does not answer, and until it does nobody can create" in err
    assert "DELETE" not in {method for method, _ in api.writes()}


def test_who_may_not_create_deletes_nothing(again: Again) -> None:
    api = Cluster()
    lacks = 'trainjobs is forbidden: User "vera" cannot create resource "trainjobs"'
    api.refuse_next("POST", "/trainjobs", status(403, "Forbidden", lacks))
    code, _, err = again(api)
    sentence = "TrainJob team/hello: you are not allowed to create TrainJobs in namespace team\n"
    assert (code, err) == (2, f"{sentence}Nothing has been changed.\n")


def test_a_file_that_cannot_be_written_stops_it_before_anything_is_deleted(
    again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    code, out, err = again(api)
    assert (code, out) == (2, "")
    assert "Not a directory: the manifest is kept there while it is sent; name another folder with" in err
    assert [method for method, _ in api.writes()] == ["POST"]


def test_of_a_manifest_that_does_not_fit_on_the_disk_no_half_is_left(
    again: Again, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = again(Cluster())
    assert (code, "No space left on device: the manifest is kept there" in err) == (2, True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("state", "meanwhile", "sentence"),
    [
        ("Running", "ended", "is Complete: it ended meanwhile"),
        (
            "Complete",
            "replaced",
            "is not sent again: there is a TrainJob hello already, which is left as it is",
        ),
    ],
)
def test_a_job_that_ends_or_is_sent_by_others_meanwhile_is_left(
    state: str, meanwhile: str, sentence: str, again: Again
) -> None:
    api = Cluster(state)

    def change() -> None:
        if meanwhile == "replaced":
            api.remove(HELLO)
        api.job()

    api.meanwhile = change
    code, out, err = again(api)
    assert (code, out) == (1, "")
    assert f"TrainJob team/hello {sentence}\n" in err
    assert HELLO in api.objects
    uid = api.uid()
    assert [path for method, path in api.writes() if method == "DELETE"] == [HELLO]
    assert api.uid() == uid


def test_a_job_that_is_not_there_is_told_the_nearest(again: Again) -> None:
    api = Cluster()
    api.objects[f"{JOBS}/hell"] = api.objects.pop(HELLO)
    api.objects[f"{JOBS}/hell"]["metadata"]["name"] = "hell"
    sentence = "TrainJob hello is not found: namespace team has none of this name; did you mean hell?\n"
    assert again(api) == (2, "", sentence)


@pytest.mark.parametrize("name", ["../x", "A", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    code, out, err = answered(retry.run, "hello", ask=lambda _: True, name=name)
    assert (code, out, err) == (2, "", f"{name!r} is not a valid name of an object\n")


def test_the_name_of_the_old_job_is_refused_as_that_of_the_new_one(again: Again) -> None:
    api = Cluster()
    assert again(api, yes=True, name="hello") == (
        2,
        "",
        "--name hello is the old TrainJob's own name: choose another one, or leave out --name, which deletes "
        "the old TrainJob first\n",
    )
    assert api.requests == []


# --- what is left wherever it stops -------------------------------------------------


def test_ctrl_c_after_the_deletion_leaves_the_manifest_and_says_so(
    again: Again, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster(looks=99)
    uid = api.uid()

    async def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(resend.Resending, "_has_gone_in_time", interrupted)
    code, out, err = again(api)
    assert (code, out) == (2, "")
    file = folder / f"team.hello.{uid}.yaml"
    assert err.splitlines()[-2:] == [
        "Interrupted.",
        f"To send it, once the old one has gone: kubectl create -f {file}",
    ]
    assert yaml.safe_load(file.read_text()) == WISH
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
    assert [entry.name for entry in folder.iterdir()] == [file.name]


def test_what_it_says_to_do_leads_to_the_same_cluster(
    again: Again, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resend, "WAIT", 0.01)
    api = Cluster("Running", looks=10**9)
    file = folder / f"team.hello.{api.uid()}.yaml"
    _, _, err = again(api, says=False, context="lab")
    assert err.splitlines()[-2].endswith("trainyard retry hello -n team --context lab --yes")
    _, _, err = again(api, yes=True, context="lab")
    assert err.splitlines()[-1] == (
        f"To send it, once the old one has gone: kubectl create -f {file} --context lab"
    )


def test_ctrl_c_before_the_deletion_leaves_nothing(
    again: Again, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    api = Cluster()
    monkeypatch.setattr(Client, "create", interrupted)
    assert again(api) == (2, "", "Interrupted.\nNothing has been changed.\n")
    assert (api.writes(), folder.exists()) == ([], False)


def test_ctrl_c_while_it_is_sent_says_where_to_look(again: Again, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "create", interrupted)
    where = "Look whether TrainJob second is there: trainyard jobs --all -n team\n"
    assert again(Cluster(), name="second") == (2, "", f"Interrupted.\n{where}")


def test_a_deletion_without_an_answer_is_one_if_the_job_goes(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Client.delete

    async def unanswered(client: Client, path: str, **options: Any) -> Any:
        await delete(client, path, **options)
        raise RetriableError("DELETE: timed out")

    monkeypatch.setattr(Client, "delete", unanswered)
    api = Cluster(looks=3)
    assert again(api)[:2] == (0, "TrainJob team/hello is sent again\n")


def test_a_job_that_does_not_go_in_time_is_told_with_its_manifest(
    again: Again, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster(looks=10**9)
    monkeypatch.setattr(resend, "WAIT", 0.01)
    code, out, err = again(api)
    assert (code, out) == (2, "")
    [file] = folder.iterdir()
    assert err.splitlines()[-2:] == [
        "TrainJob team/hello is deleted, but has not gone within 0 s: the new one is not sent",
        f"To send it, once the old one has gone: kubectl create -f {file}",
    ]


def test_an_api_server_that_is_silent_after_the_deletion_is_asked_again(again: Again, folder: Path) -> None:
    api = Cluster()

    def silent() -> None:
        for _ in range(2):
            api.refuse_next("POST", "/trainjobs", status(503, "ServiceUnavailable", "no webhook"))

    api.meanwhile = silent
    code, out, err = again(api)
    assert (code, out) == (0, "TrainJob team/hello is sent again\n")
    assert err.splitlines()[1:] == ["503 ServiceUnavailable: no webhook; trying again"] * 2
    assert list(folder.iterdir()) == []


def test_a_job_that_was_created_without_an_answer_is_the_new_one(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster()
    create = Client.create
    silences = iter([True])

    async def unanswered(client: Client, path: str, body: Any, **options: Any) -> Any:
        created = await create(client, path, body, **options)
        if next(silences, False):
            raise RetriableError("POST: timed out")
        return created

    def lost() -> None:
        monkeypatch.setattr(Client, "create", unanswered)

    api.meanwhile = lost
    assert again(api)[:2] == (0, "TrainJob team/hello is sent again\n")


# --- what belongs to it -------------------------------------------------------------


def test_a_secret_that_belongs_to_the_job_goes_to_the_next_one(again: Again) -> None:
    api = Cluster()
    old = api.uid()
    api.secret({"kind": "ConfigMap", "name": "sweep", "uid": "s"})
    before: list[list[str]] = []
    api.meanwhile = lambda: before.append(api.owners())
    assert again(api)[0] == 0
    assert before == [["s"]]
    assert api.owners() == [api.uid(), "s"]
    assert old not in api.owners()


def test_a_secret_belongs_to_both_jobs_if_both_stay(again: Again) -> None:
    api = Cluster()
    api.secret()
    assert again(api, name="second")[0] == 0
    assert api.owners() == [api.uid(), api.uid("second")]


def test_a_secret_of_others_is_left_alone(again: Again) -> None:
    api = Cluster()
    api.secret()
    api.objects[SECRET]["metadata"]["ownerReferences"][0]["uid"] = "other"
    assert again(api)[0] == 0
    assert [path for _, path in api.writes() if path == SECRET] == []


def test_a_secret_that_cannot_be_kept_keeps_the_job(again: Again) -> None:
    api = Cluster()
    api.secret()
    api.refuse_next("PATCH", "/code", status(403, "Forbidden", "no"))
    code, _, err = again(api)
    assert code == 1
    assert err.splitlines()[1:] == [
        "TrainJob team/hello is not sent again: Secret code belongs to it, is deleted with it, and cannot be "
        "kept: 403 Forbidden: no",
        "Nothing has been changed.",
    ]
    assert api.owners() == [api.uid()]


def test_a_secret_that_cannot_be_looked_at_in_time_keeps_the_job(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster()
    api.secret()
    api.stalls = SECRET
    monkeypatch.setattr(patience, "PATIENCE", 1)
    code, _, err = again(api)
    assert (code, "no answer within 1 s" in err, "Nothing has been changed." in err) == (2, True, True)
    assert [write for write in api.writes() if write[0] == "DELETE"] == []
    assert api.owners() == [api.uid()]


@pytest.mark.parametrize("name", [None, "second"])
def test_a_job_with_a_folder_that_the_user_may_not_see_is_not_sent_again(
    name: str | None, again: Again
) -> None:
    api = Cluster()
    api.secret()
    mounted = {**CODE, "name": "trainyard-packed"}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": {"volumes": [mounted]}}}}}]
    of_folder = {"template": {"spec": {"replicatedJobs": jobs}}}
    patches = [{"manager": "trainyard.dev/workspace", "trainingRuntimeSpec": of_folder}]
    api.objects[HELLO]["spec"]["runtimePatches"] = patches
    api.refuse_next("GET", "/code", status(403, "Forbidden", "no"))
    code, _, err = again(api, name=name)
    assert (code, [path for path in api.objects if path.startswith(JOBS)]) == (1, [HELLO])
    assert err.splitlines()[-2:] == [
        "TrainJob team/hello is not sent again: Secret code holds its folder and may be deleted with it, and "
        "you are not allowed to keep it",
        "Nothing has been changed.",
    ]


def test_a_secret_is_given_back_to_a_job_that_is_not_deleted(again: Again) -> None:
    api = Cluster()
    api.secret()
    api.refuse_next("DELETE", "/hello", status(403, "Forbidden", "denied request: keep it"))
    code, _, err = again(api)
    assert (code, err.splitlines()[-1]) == (1, "Nothing has been changed.")
    assert api.owners() == [api.uid()]


def test_ctrl_c_while_a_secret_is_released_says_what_has_become_of_it(
    again: Again, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    api = Cluster()
    api.secret()
    monkeypatch.setattr(Client, "patch", interrupted)
    assert again(api)[2].splitlines()[1:] == [
        "Interrupted.",
        "TrainJob hello is as it was.",
        "Secret code belonged to it, and has no owner now.",
    ]
    assert list(folder.iterdir()) == []


def test_a_secret_that_belongs_to_nobody_now_is_told(again: Again, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(looks=10**9)
    api.secret()
    monkeypatch.setattr(resend, "WAIT", 0.01)
    assert again(api)[2].splitlines()[-1] == "Secret code belonged to it, and has no owner now."
    assert api.owners() == []
