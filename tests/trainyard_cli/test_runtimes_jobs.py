"""`trainyard runtimes jobs`: the jobs on a runtime, each with the content of it that it has."""

import json
from typing import Any

import pytest

from tests.support import objects
from tests.support.answers import answered
from tests.support.fake_api import FakeApi
from tests.support.fake_api import run as run_test
from trainyard_cli.cluster import connection
from trainyard_cli.cluster.workloads import Seen, look
from trainyard_cli.commands import runtimes_jobs
from trainyard_cli.output import Output
from trainyard_delivery.impact import Job, Ref, State
from trainyard_kube.credentials import Credentials
from trainyard_operator.core.decide import revisions

RUNTIME = Ref("ClusterTrainingRuntime", "", "plain")
OLD, NEW = "runtime-" + "0" * 32, "runtime-" + "1" * 32
LLAMA = Job("team-a", "llama", State.RUNNING, RUNTIME, started=True, revision=OLD)
NEXT = Job("team-a", "next", State.QUEUED, RUNTIME, started=True, revision=NEW)
THEN = Job("team-b", "then", State.QUEUED, RUNTIME, started=False)
OTHER = Job("team-b", "other", State.RUNNING, Ref("ClusterTrainingRuntime", "", "mpi"), started=True)


def answer(
    monkeypatch: pytest.MonkeyPatch, *jobs: Job, newest: str = NEW, unseen: Any = None, **options: Any
) -> tuple[int, str, str]:
    async def asked(*_: Any) -> tuple[Seen, str]:
        return Seen(list(jobs), unseen or {}), newest

    monkeypatch.setattr(runtimes_jobs, "_asked", asked)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    return answered(runtimes_jobs.run, "plain", **options)


def test_each_job_has_the_newest_content_an_older_one_or_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = answer(monkeypatch, THEN, NEXT, OTHER, LLAMA)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["TRAINJOB", "STATE", "CONTENT", "REVISION"],
        ["team-a/llama", "running", "older", OLD],
        ["team-a/next", "queued", "newest", NEW],
        ["team-b/then", "queued", "none", "yet"],
    ]
    assert err == (
        "A TrainJob keeps the content that it started with, even while it is suspended. "
        "To get the newest content, delete the TrainJob and create it again.\n"
    )


def test_json_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = answer(monkeypatch, NEXT, THEN, output=Output.JSON)
    assert (code, err) == (0, "")
    queued = {"state": "queued"}
    assert json.loads(out) == {
        "runtime": "plain",
        "newest": NEW,
        "trainJobs": [
            {"namespace": "team-a", "name": "next", **queued, "revision": NEW, "content": "newest"},
            {"namespace": "team-b", "name": "then", **queued, "revision": None, "content": "none yet"},
        ],
    }


def test_of_a_runtime_that_is_gone_the_jobs_are_listed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = answer(monkeypatch, LLAMA, newest="")
    assert (code, out.splitlines()[1].split()[2]) == (0, "older")
    assert err == "The runtime plain no longer exists: TrainJobs without a JobSet are Blocked.\n"


def test_what_nobody_knows_or_may_see_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "there is no ClusterTrainingRuntime plain, and no TrainJob on it\n"
    assert answer(monkeypatch, OTHER, newest="") == (2, "", said)
    hidden = Job("team-a", "llama", State.RUNNING, RUNTIME, started=True)
    code, out, err = answer(monkeypatch, hidden, unseen={"jobsets": "you are not allowed to list them"})
    assert (code, err) == (0, "Could not see jobsets: you are not allowed to list them\n")
    assert out.splitlines()[1].split() == ["team-a/llama", "running", "unknown"]
    monkeypatch.undo()
    code, out, err = answered(runtimes_jobs.run, "plain", kubeconfig="/no/such/file")
    assert (code, out) == (2, "")
    assert "/no/such/file" in err


def test_the_newest_content_is_the_revision_that_the_operator_would_record() -> None:
    api = FakeApi()
    runtime = api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
    job = api.put(f"{objects.JOBS}/tj", objects.trainjob())
    jobset = objects.jobset()
    jobset["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"]
    jobset["metadata"].setdefault("annotations", {})["trainyard.dev/runtime-revision"] = OLD
    api.put(f"{objects.JOBSETS}/tj", jobset)
    found: list[Any] = []

    async def test() -> None:
        async with api.client() as client:
            found.append(await runtimes_jobs.newest_of(client, "rt"))
            found.append(await runtimes_jobs.newest_of(client, "gone"))
            found.extend(one.revision for one in (await look(client, pools=False)).jobs)

    run_test(test)
    assert found == [revisions.name_of(revisions.live(runtime)), "", OLD]
