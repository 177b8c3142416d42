"""`trainyard adopt`: the commands that it names."""

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from tests.support.fake_api import FakeApi, run, status
from tests.support.typed import typed
from trainyard_assist import adopt
from trainyard_assist.adopt.model import Ref
from trainyard_cli.cluster import adopt as cluster
from trainyard_cli.cluster import connection
from trainyard_cli.commands import adopt as command
from trainyard_cli.output import Output
from trainyard_kube.credentials import Credentials

LAB: dict[str, Any] = {"kubeconfig": "my config", "context": "lab"}
NAMESPACES: dict[str, Any] = {"trainer_namespace": "kf", "operator_namespace": "ty"}
ON_LAB = (
    "trainyard adopt --kubeconfig 'my config' --context lab --trainer-namespace kf --operator-namespace ty"
)


@pytest.mark.parametrize(
    ("options", "itself"), [({}, "trainyard adopt"), ({**LAB, **NAMESPACES}, ON_LAB)], ids=["", "elsewhere"]
)
@pytest.mark.parametrize("back", [False, True])
def test_the_next_commands_act_on_the_same_cluster_and_namespaces(
    options: dict[str, Any], itself: str, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = adopt.Delete(Ref("v1", "ConfigMap", "kf", "c"), "uid", "why")

    def planned(_: adopt.Observed, command: str) -> adopt.Plan:
        return adopt.Plan(back, (), steps=(step,), next_steps=(command,))

    async def observed(*_: Any, **__: Any) -> adopt.Observed:
        return adopt.Observed(datetime.now(UTC), None)

    monkeypatch.setattr(adopt, "give_back" if back else "adopt", planned)
    monkeypatch.setattr(command, "observe", observed)
    _, out, _ = typed(FakeApi(), monkeypatch, command.run, back=back, **options)
    to_do_it = f"{itself} --back --yes" if back else f"{itself} --yes"
    assert out.splitlines()[-1] == f"Nothing has been changed. To do it: {to_do_it}"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+ \(kubeconfig\)", out.splitlines()[0])
    _, out, _ = typed(FakeApi(), monkeypatch, command.run, back=back, output=Output.JSON, **options)
    assert json.loads(out)["next"] == [itself]


def test_a_snapshot_that_a_namespace_refuses_is_a_note_and_the_steps_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": "team"}}
    steps = (
        adopt.Put(config_map, trainjob="team/tj"),
        adopt.Delete(Ref("v1", "ConfigMap", "kf", "c"), "uid", "why"),
    )

    async def observed(*_: Any, **__: Any) -> adopt.Observed:
        return adopt.Observed(datetime.now(UTC), None)

    def api() -> FakeApi:
        cluster = FakeApi()
        cluster.put("/api/v1/namespaces/kf/configmaps/c", {"metadata": {"uid": "uid"}})
        cluster.refuse_next("POST", "/namespaces/team/configmaps", status(403, "Forbidden", "quota\n!!"))
        return cluster

    monkeypatch.setattr(adopt, "give_back", lambda *_: adopt.Plan(True, (), steps=steps))
    monkeypatch.setattr(command, "observe", observed)
    message = (
        "TrainJob team/tj gets no snapshot of its runtime, so Trainer uses the runtime as it then is: "
        "403 Forbidden: quota !!"
    )
    code, out, err = typed(api(), monkeypatch, command.run, back=True, yes=True)
    first, second = (f"{step} ..." for step in steps)
    assert (code, err.splitlines()) == (0, [first, f"--  TrainJobs     {message}", second])
    assert out.splitlines()[-1] == "Trainer's controller works again."
    _, out, _ = typed(api(), monkeypatch, command.run, back=True, yes=True, output=Output.JSON)
    answer = json.loads(out)
    assert answer["checks"] == [{"level": "note", "about": "TrainJobs", "message": message}]
    assert [step["done"] for step in answer["steps"]] == [False, True]


def test_deadlines_of_jobs_are_compared_with_the_time_of_the_api_server() -> None:
    class Ahead(FakeApi):
        async def _get(self, request: web.Request, body: Any) -> web.Response:
            answer = await super()._get(request, body)
            answer.headers["Date"] = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
            return answer

    async def observed() -> adopt.Observed:
        async with Ahead().serving() as url, connection.client(Credentials(url, None), "adopt") as client:
            return await cluster.observe(client, (), trainer_namespace="kf", operator_namespace="ty")

    now = run(observed).now
    assert abs((datetime.now(UTC) + timedelta(hours=1) - now).total_seconds()) < 600
