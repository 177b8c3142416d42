"""`trainyard cancel`, `suspend` and `resume`: what they ask, what they write, and what they say."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from aiohttp import web

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.typed import typed
from trainyard_api.errors import UserError
from trainyard_cli import confirmation
from trainyard_cli.cluster import stops
from trainyard_cli.commands import answers, cancel
from trainyard_cli.output import Output
from trainyard_kube.client import Client, RetriableError

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
HELLO = f"{JOBS}/hello"
RUNS = "TrainJob team/hello is Running. "
LACKS = 'trainjobs.trainer.kubeflow.org "hello" is forbidden: User "vera" cannot {} resource "trainjobs"'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Cluster(FakeApi):
    """An API server with the TrainJobs that a test names; `meanwhile` happens just before the first write."""

    def __init__(self, **states: str) -> None:
        super().__init__()
        self.meanwhile: Callable[[], Any] = lambda: None
        for name, state in states.items():
            self.job(name, state)

    def job(self, name: str, state: str = "Running", **fields: Any) -> None:
        self.put(f"{JOBS}/{name}", {"spec": {}, "status": {"trainyard": {"state": state}}, **fields})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            self.meanwhile()
            self.meanwhile = lambda: None
        return await super()._serve(request)

    def suspended(self, name: str = "hello") -> Any:
        return self.objects[f"{JOBS}/{name}"]["spec"].get("suspend")

    def forbid(self, method: str, ending: str, verb: str) -> None:
        self.refuse_next(method, ending, status(403, "Forbidden", LACKS.format(verb)))


def cancelled(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, *jobs: str, says: bool = True, **options: Any
) -> tuple[int, str, str]:
    return typed(api, monkeypatch, cancel.run, jobs, ask=lambda _: says, **options)


def changed(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, verb: str, *jobs: str, **options: Any
) -> tuple[int, str, str]:
    return typed(api, monkeypatch, answers.run_each, verb, getattr(stops, verb), jobs, **options)


def test_a_job_is_cancelled_after_its_user_has_read_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    uid = api.objects[HELLO]["metadata"]["uid"]
    version = api.objects[HELLO]["metadata"]["resourceVersion"]
    api.put(
        f"{JOBSETS}/hello",
        {
            "metadata": {"ownerReferences": [{"uid": uid}]},
            "spec": {"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "checkpoint"}}]}]},
        },
    )
    code, out, err = cancelled(api, monkeypatch, "hello")
    assert (code, out) == (0, "TrainJob team/hello is cancelled\n")
    assert err.endswith(
        "Data that it has not saved outside its pods is lost. Its volume (checkpoint) is deleted, with the "
        "checkpoints on it.\n"
    )
    assert api.writes() == [("DELETE", HELLO)]
    assert api.bodies[-1]["preconditions"] == {"uid": uid, "resourceVersion": version}
    assert HELLO not in api.objects


def test_nothing_is_cancelled_unless_somebody_says_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(a="Running", b="Pending")
    assert cancelled(api, monkeypatch, "a", "b", says=False) == (
        1,
        "",
        "TrainJob team/a is Running.\nTrainJob team/b is Pending.\n"
        "Nothing has been changed. To do it without confirmation: trainyard cancel a b -n team --yes\n",
    )
    assert api.writes() == []


def test_the_command_without_a_question_leads_to_the_same_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"kubeconfig": "of lab", "context": "lab"}
    _, _, err = cancelled(Cluster(a="Running"), monkeypatch, "a", says=False, suspend=True, **place)
    assert err.endswith("trainyard cancel a -n team --kubeconfig 'of lab' --context lab --suspend --yes\n")


def test_nobody_says_yes_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert confirmation.confirmed("Cancel?") is False


def test_an_interrupted_question_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> bool:
        raise typer.Abort

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(typer, "confirm", interrupted)
    assert confirmation.confirmed("Cancel?") is False
    with pytest.raises(typer.Abort):
        confirmation.says_yes("Copy the exception too?")


def test_several_jobs_have_a_sentence_each_and_the_worst_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(runs="Running", ended="Complete")
    code, out, err = cancelled(api, monkeypatch, "runs", "ended", "run", "runs", yes=True)
    assert (code, out) == (
        2,
        "TrainJob team/ended is Complete: it has ended, and there is nothing to cancel; "
        "to remove it: kubectl delete trainjob ended -n team\n"
        "TrainJob team/runs is cancelled\n",
    )
    assert err == (
        "TrainJob team/runs is Running.\n"
        "TrainJob run is not found: namespace team has none of this name; did you mean runs?\n"
    )
    assert api.writes() == [("DELETE", f"{JOBS}/runs")]


def test_a_job_that_has_gone_meanwhile_is_as_good_as_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    api.meanwhile = lambda: api.remove(HELLO)
    assert cancelled(api, monkeypatch, "hello")[:2] == (
        0,
        "TrainJob team/hello was deleted meanwhile\n",
    )


def test_a_job_that_was_sent_again_meanwhile_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")

    def replaced() -> None:
        api.remove(HELLO)
        api.job("hello")

    api.meanwhile = replaced
    code, out, err = cancelled(api, monkeypatch, "hello")
    assert (code, out) == (1, "")
    assert err.endswith("TrainJob team/hello was recreated meanwhile: the new one stays\n")
    assert HELLO in api.objects


def test_a_job_that_ends_while_its_user_thinks_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    api.meanwhile = lambda: api.job("hello", "Complete")
    assert cancelled(api, monkeypatch, "hello")[:2] == (
        0,
        "TrainJob team/hello is Complete: it ended meanwhile\n",
    )
    assert HELLO in api.objects


def test_a_job_whose_progress_changes_meanwhile_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Starting")
    api.meanwhile = lambda: api.job("hello", "Running")
    assert cancelled(api, monkeypatch, "hello")[:2] == (0, "TrainJob team/hello is cancelled\n")
    assert api.writes() == [("DELETE", HELLO)] * 2


def test_a_right_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    api.forbid("DELETE", "/hello", "delete")
    code, out, err = cancelled(api, monkeypatch, "hello")
    sentence = "TrainJob team/hello: you are not allowed to delete TrainJobs in namespace team\n"
    assert (code, out, err) == (2, "", f"TrainJob team/hello is Running.\n{sentence}")
    api.forbid("GET", "/hello", "get")
    code, out, err = cancelled(api, monkeypatch, "hello")
    sentence = "TrainJob team/hello: you are not allowed to get TrainJobs in namespace team\n"
    assert (code, out, err) == (2, "", sentence)


def test_what_a_policy_refuses_is_said_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    api.refuse_next("DELETE", "/hello", status(403, "Forbidden", "denied request: \x1b[31mkeep it"))
    code, _, err = cancelled(api, monkeypatch, "hello")
    assert code == 1
    assert err.endswith("TrainJob team/hello: 403 Forbidden: denied request:  [31mkeep it\n")


def test_a_jobset_that_may_not_be_seen_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    api.forbid("GET", "jobsets/hello", "get")
    _, _, err = cancelled(api, monkeypatch, "hello")
    assert err == (
        f"{RUNS}Data that it has not saved outside its pods is lost. It is unknown whether a volume is "
        "deleted with it: you are not allowed to get its JobSet.\n"
    )


def test_a_cancelled_job_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    code, out, _ = cancelled(api, monkeypatch, "hello", suspend=True, context="lab")
    assert (code, out) == (
        0,
        "TrainJob team/hello is suspended: it does not start; "
        "to resume it: trainyard resume hello -n team --context lab\n",
    )
    assert (api.writes(), api.suspended()) == ([("PATCH", HELLO)], True)


def test_jobs_are_suspended_and_resumed_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(a="Running", b="Running")
    uids = [api.objects[f"{JOBS}/{name}"]["metadata"]["uid"] for name in "ab"]
    code, out, err = changed(api, monkeypatch, "suspend", "a", "b")
    assert (code, out.count("is suspended"), err) == (0, 2, "")
    guards = [body[0] for body in api.bodies if isinstance(body, list)]
    assert guards == [{"op": "test", "path": "/metadata/uid", "value": uid} for uid in uids]
    again = changed(api, monkeypatch, "suspend", "a")
    assert again == (0, "TrainJob team/a is already suspended\n", "")
    assert changed(api, monkeypatch, "resume", "a") == (0, "TrainJob team/a is resumed\n", "")
    assert (api.suspended("a"), api.suspended("b")) == (False, True)
    not_suspended = "TrainJob team/a is not suspended: it is Running\n"
    assert changed(api, monkeypatch, "resume", "a") == (0, not_suspended, "")


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_a_job_that_has_ended_or_ends_meanwhile_is_refused(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster(hello="Complete")
    code, out, err = changed(api, monkeypatch, verb, "hello")
    assert (code, out) == (1, "")
    assert err.startswith("TrainJob team/hello is Complete: it has ended, and cannot be ")
    assert api.writes() == []
    spec = {"suspend": verb == "resume"}
    api.job("hello", "Suspended", spec=spec)
    api.meanwhile = lambda: api.job("hello", "Failed", spec=spec)
    ended = "TrainJob team/hello is Failed: it ended meanwhile\n"
    assert changed(api, monkeypatch, verb, "hello") == (1, "", ended)


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_another_job_of_the_same_name_is_not_changed(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    spec = {"suspend": verb == "resume"}
    api.job("hello", spec=spec)

    def replaced() -> None:
        api.remove(HELLO)
        api.job("hello", spec=spec)

    api.meanwhile = replaced
    sentence = "TrainJob team/hello was recreated meanwhile: the new one stays\n"
    assert changed(api, monkeypatch, verb, "hello") == (1, "", sentence)
    api.meanwhile = lambda: api.remove(HELLO)
    assert changed(api, monkeypatch, verb, "hello") == (
        1,
        "",
        "TrainJob team/hello was deleted meanwhile\n",
    )


def test_what_admission_refuses_is_not_taken_for_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(hello="Running")
    api.refuse_next("PATCH", "/hello", status(422, "Invalid", "spec.suspend: no"))
    code, _, err = changed(api, monkeypatch, "suspend", "hello")
    assert (code, err) == (1, "TrainJob team/hello: 422 Invalid: spec.suspend: no\n")


def test_the_json_has_the_documented_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(runs="Running", ended="Complete")
    code, out, _ = cancelled(api, monkeypatch, "runs", "ended", yes=True, output=Output.JSON)
    assert code == 0
    assert json.loads(out) == {
        "apiVersion": "cancel.trainyard.dev/v1alpha1",
        "kind": "Answers",
        "trainJobs": [
            {
                "namespace": "team",
                "name": "ended",
                "outcome": "Unchanged",
                "message": "TrainJob team/ended is Complete: it has ended, and there is nothing to cancel; "
                "to remove it: kubectl delete trainjob ended -n team",
            },
            {
                "namespace": "team",
                "name": "runs",
                "outcome": "Cancelled",
                "message": "TrainJob team/runs is cancelled",
            },
        ],
    }


def test_ctrl_c_says_which_job_may_be_done_and_which_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(a="Running", b="Running", c="Running")
    delete = Client.delete

    async def interrupted(client: Client, path: str, **options: Any) -> Any:
        if path.endswith("/b"):
            raise KeyboardInterrupt
        return await delete(client, path, **options)

    monkeypatch.setattr(Client, "delete", interrupted)
    code, out, err = cancelled(api, monkeypatch, "a", "b", "c", yes=True)
    assert (code, out) == (2, "TrainJob team/a is cancelled\n")
    assert err.endswith("Interrupted. Look whether this one is done: team/b\nLeft as they are: team/c\n")


def test_a_pipe_that_closes_is_told_like_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    api, err = Cluster(a="Running", b="Running", c="Running"), io.StringIO()
    with pytest.raises(BrokenPipeError):
        cancelled(api, monkeypatch, "a", "b", "c", yes=True, out=Closed(), err=err)
    assert err.getvalue().splitlines()[-2:] == [
        "Interrupted. Look whether this one is done: team/a",
        "Left as they are: team/b, team/c",
    ]
    assert api.writes() == [("DELETE", f"{JOBS}/a")]


def test_an_api_server_that_falls_silent_is_told_for_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(a="Running", b="Running")

    async def silent(*_: Any, **__: Any) -> Any:
        raise RetriableError("DELETE: timed out")

    monkeypatch.setattr(Client, "delete", silent)
    code, out, err = cancelled(api, monkeypatch, "a", "b", yes=True)
    assert (code, out) == (2, "")
    assert err.endswith("TrainJob team/a: DELETE: timed out\nTrainJob team/b: DELETE: timed out\n")


def test_a_cluster_without_trainjobs_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.missing.add("/apis/trainer")
    sentence = "TrainJob hello is not found: the cluster has no TrainJob API\n"
    assert cancelled(api, monkeypatch, "hello") == (2, "", sentence)


@pytest.mark.parametrize("options", [{"namespace": "../x"}, {"kubeconfig": "/no/such/file"}])
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(options: dict[str, Any]) -> None:
    code, out, err = answered(cancel.run, ["hello"], ask=lambda _: True, **options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    with pytest.raises(UserError, match=r"'\.\./x' is not a valid name of an object"):
        answers.run_each("resume", stops.resume, ["../x"])
