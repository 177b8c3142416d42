"""`trainyard jobs`: what it asks the API server for, and how it prints what there is."""

import io
import json
import re
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from trainyard_api.errors import UserError
from trainyard_assist import jobs as rows_of
from trainyard_assist.jobs import Row
from trainyard_assist.queue_place import QueuePlace
from trainyard_cli.cluster import connection
from trainyard_cli.cluster import jobs as cluster
from trainyard_cli.cluster.jobs import OWN_ALONE, Seen, look
from trainyard_cli.commands import jobs as command
from trainyard_cli.output import Output
from trainyard_kube.client import RetriableError
from trainyard_kube.credentials import Credentials
from trainyard_operator.core.status.display_state import State

GROUP = "/apis/trainer.kubeflow.org/v1alpha1"
JOBS = f"{GROUP}/namespaces/team/trainjobs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
VISIBLE = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/default/pendingworkloads"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class Cluster(FakeApi):
    """An API server with TrainJobs in the queue `default` of two namespaces, which share a ClusterQueue."""

    def __init__(self) -> None:
        super().__init__()
        for namespace in ("team", "others"):
            queue = f"{KUEUE}/namespaces/{namespace}/localqueues/default"
            self.put(queue, {"spec": {"clusterQueue": "gpus"}})

    def job(self, name: str, state: str, namespace: str = "team", **fields: Any) -> None:
        ours = {"state": state, "queue": "default", "nodes": "0/2"}
        body = {"spec": {}, "status": {"trainyard": ours}, **fields}
        self.put(f"{GROUP}/namespaces/{namespace}/trainjobs/{name}", body)
        owner = [{"kind": "JobSet", "name": name}]
        self.put(
            f"{KUEUE}/namespaces/{namespace}/workloads/jobset-{name}",
            {
                "metadata": {"ownerReferences": owner},
                "spec": {"queueName": "default"},
                "status": {} if state == "Queued" else {"conditions": [reserved()]},
            },
        )

    def forbid(self, path: str) -> None:
        self.refuse_next("GET", path, status(403, "Forbidden"))

    def look(self, namespace: str | None = "team", states: Collection[str] = ()) -> Seen:
        async def answer() -> Seen:
            async with self.client() as client:
                return await look(client, namespace, lambda row: not states or row.state in states)

        return run_test(answer)


def reserved() -> dict[str, Any]:
    return {"type": "QuotaReserved", "status": "True"}


def names_of(seen: Seen) -> list[str]:
    return [row.name for row in seen.rows]


def paths(api: FakeApi) -> list[str]:
    return [path for _, path in api.requests]


def test_what_runs_is_listed_with_the_workloads_of_its_namespace_alone() -> None:
    api = Cluster()
    api.job("runs", "Running")
    seen = api.look()
    assert (names_of(seen), seen.unseen) == (["runs"], ())
    assert sorted(paths(api)) == sorted(
        [JOBS, f"{KUEUE}/namespaces/team/localqueues", f"{KUEUE}/namespaces/team/workloads"]
    )
    assert api.writes() == []


def test_what_has_ended_asks_for_no_queues() -> None:
    api = Cluster()
    api.job("done", "Complete")
    assert names_of(api.look()) == ["done"]
    assert paths(api) == [JOBS]


def test_a_place_counts_the_jobs_of_other_namespaces() -> None:
    api = Cluster()
    api.job("before", "Queued", "others")
    api.job("waits", "Queued")
    api.missing.add("/apis/visibility")
    seen = api.look()
    assert [row.place for row in seen.rows] == [
        QueuePlace(2, "ClusterQueue gpus", before=("others/before",), total=2)
    ]
    assert seen.unseen == ()


def test_a_place_is_the_one_that_kueue_reports() -> None:
    api = Cluster()
    api.job("waits", "Queued")
    items = [
        {"metadata": {"name": "jobset-waits", "namespace": "team"}, "positionInClusterQueue": 1},
    ]
    api.put(VISIBLE, {"items": items})
    assert [row.place for row in api.look().rows] == [QueuePlace(2, "ClusterQueue gpus")]
    api.job("later", "Queued", "others")
    assert [row.place for row in api.look().rows] == [QueuePlace(2, "ClusterQueue gpus", total=2)]


def test_who_may_see_only_a_namespace_is_told_that_places_count_only_that() -> None:
    api = Cluster()
    api.job("before", "Queued", "others")
    api.job("waits", "Queued")
    for path in (f"{KUEUE}/workloads", f"{KUEUE}/localqueues", VISIBLE):
        api.forbid(path)
    seen = api.look()
    assert [(row.place.position, row.place.total, row.place.partial) for row in seen.rows] == [(1, 1, True)]
    assert seen.unseen == (OWN_ALONE,)


def test_who_may_not_see_workloads_sees_the_jobs_without_their_places() -> None:
    api = Cluster()
    api.job("waits", "Queued")
    for path in (f"{KUEUE}/workloads", f"{KUEUE}/namespaces/team/workloads"):
        api.forbid(path)
    seen = api.look()
    assert [(row.name, row.queue, row.place) for row in seen.rows] == [("waits", "default", None)]
    assert seen.unseen == ("places in queues are not known: you are not allowed to list Workloads",)


def test_a_cluster_without_kueue_has_jobs_without_places() -> None:
    api = Cluster()
    api.job("waits", "Queued")
    api.missing |= {"/apis/kueue", "/apis/visibility"}
    seen = api.look()
    assert ([row.place for row in seen.rows], seen.unseen) == ([None], ())


@pytest.mark.parametrize(
    ("namespace", "sentence"),
    [
        ("team", "you are not allowed to list the TrainJobs of team"),
        (None, "you are not allowed to list the TrainJobs of all namespaces; name one of yours with -n"),
    ],
)
def test_who_may_not_list_trainjobs_is_told_so_in_one_sentence(namespace: str | None, sentence: str) -> None:
    api = Cluster()
    api.forbid("/trainjobs")
    with pytest.raises(UserError) as error:
        api.look(namespace)
    assert str(error.value) == sentence


def test_a_cluster_without_trainjobs_is_told_from_one_that_has_none() -> None:
    api = Cluster()
    assert names_of(api.look()) == []
    api.missing.add(GROUP)
    with pytest.raises(UserError, match="there is no TrainJob API: Trainyard is not installed"):
        api.look()


def test_an_object_of_another_version_is_read_as_far_as_it_can_be() -> None:
    api = Cluster()
    api.job("strange", "Running", spec={"trainer": {"numNodes": "two"}})
    assert [(row.name, row.state) for row in api.look().rows] == [("strange", "Running")]


class Many(FakeApi):
    """An API server with thousands of TrainJobs, of which every fifth runs."""

    def __init__(self, count: int) -> None:
        super().__init__()
        environment = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(20)]
        trainer = {"numNodes": 2, "env": environment, "command": ["torchrun", "train.py"] * 10}
        managed = [{"manager": "kubectl", "fieldsV1": {f"f:{number}": {} for number in range(40)}}]
        bodies = [
            msgspec.json.encode(
                {
                    "metadata": {
                        "name": f"job-{number}",
                        "namespace": f"team-{number % 50}",
                        "creationTimestamp": "2026-01-01T10:00:00Z",
                        "managedFields": managed,
                    },
                    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
                    "status": {"trainyard": {"state": "Complete" if number % 5 else "Running"}},
                }
            )
            for number in range(count)
        ]
        self.pages = [b",".join(bodies[at : at + 500]) for at in range(0, count, 500)]

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        if not request.path.endswith("/trainjobs"):
            return await super()._get(request, body)
        at = int(request.query.get("continue", "0"))
        token = b"" if at + 1 == len(self.pages) else b'"continue":"%d",' % (at + 1)
        text = b'{"metadata":{%s"resourceVersion":"1"},"items":[%s]}' % (token, self.pages[at])
        return web.Response(body=text, content_type="application/json")


def test_thousands_of_trainjobs_are_listed_page_by_page() -> None:
    api = Many(2_000)

    async def answer() -> Seen:
        async with api.client() as client:
            return await look(client, None, lambda row: not row.is_over)

    assert len(run_test(answer).rows) == 400
    assert paths(api).count(f"{GROUP}/trainjobs") == 4


# --- what is printed ----------------------------------------------------------------


RUNS = Row(
    namespace="team",
    name="hello",
    state="Running",
    created=NOW - timedelta(hours=3),
    nodes="2/2",
    queue="default",
    gpus=16,
    progress=42,
    ends=NOW + timedelta(minutes=12),
)
WAITS = Row(
    namespace="team",
    name="waits",
    state="Queued",
    created=NOW - timedelta(minutes=4),
    nodes="0/8",
    queue="default",
    place=QueuePlace(3, "ClusterQueue gpus", total=7),
)
DONE = Row(
    namespace="team",
    name="done",
    state="Complete",
    created=NOW - timedelta(days=3),
    queue="default",
    ended=NOW - timedelta(days=2),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(
    monkeypatch: pytest.MonkeyPatch, *rows: Row, unseen: tuple[str, ...] = (), **options: Any
) -> tuple[int, str, str]:
    async def looked(_: Any, __: Any, chosen: Any) -> Seen:
        return Seen([row for row in rows if chosen(row)], NOW, unseen)

    monkeypatch.setattr(command, "look", looked)
    credentials = Credentials("http://127.0.0.1:1", None, namespace="team")
    monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
    return answered(command.run, **options)


def test_the_table_says_what_runs_and_what_waits_where(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, RUNS, WAITS, DONE) == (
        0,
        "NAME   STATE    NODES  QUEUE              GPUS  PROGRESS  ETA     AGE\n"
        "hello  Running  2/2    default            16    42%       12 min  3 h\n"
        "waits  Queued   0/8    3 of 7 in default                          4 min\n",
        "",
    )


def test_what_has_ended_is_listed_only_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = answer(monkeypatch, RUNS, DONE, ended=True, all_namespaces=True)
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["NAMESPACE", "NAME", "STATE"],
        ["team", "hello", "Running"],
        ["team", "done", "Complete"],
    ]
    _, out, _ = answer(monkeypatch, RUNS, WAITS, DONE, states=[State.COMPLETE, State.QUEUED])
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "waits", "done"]


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ({}, "No TrainJob runs or waits in namespace team: --all lists those that have ended.\n"),
        ({"all_namespaces": True, "ended": True}, "There is no TrainJob in the namespaces.\n"),
        ({"states": [State.FAILED]}, "No TrainJob in namespace team is Failed.\n"),
    ],
)
def test_no_job_is_no_table_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], remark: str
) -> None:
    assert answer(monkeypatch, **options) == (0, "", remark)


def test_what_could_not_be_seen_is_said_beside_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, err = answer(monkeypatch, WAITS, unseen=(OWN_ALONE,))
    assert err == f"Not everything is visible: {OWN_ALONE}\n"


def test_the_json_has_the_documented_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = answer(monkeypatch, RUNS, WAITS, DONE, ended=True, output=Output.JSON, unseen=("x",))
    assert (code, err) == (0, "")
    whole = json.loads(out)
    assert (whole["apiVersion"], whole["kind"], whole["unseen"]) == (
        "jobs.trainyard.dev/v1alpha1",
        "Jobs",
        ["x"],
    )
    runs, waits, done = whole["trainJobs"]
    assert runs == {
        "namespace": "team",
        "name": "hello",
        "state": "Running",
        "nodes": {"ready": 2, "total": 2},
        "queue": "default",
        "place": None,
        "gpus": 16,
        "progressPercentage": 42,
        "endsAt": "2026-01-01T12:12:00Z",
        "createdAt": "2026-01-01T09:00:00Z",
        "endedAt": None,
    }
    assert waits["place"] == {"position": 3, "total": 7, "partial": False}
    assert (done["nodes"], done["endedAt"]) == (None, "2025-12-30T12:00:00Z")


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (200, "NAME STATE NODES QUEUE GPUS PROGRESS ETA AGE"),
        (60, "NAME STATE NODES QUEUE PROGRESS AGE"),
        (40, "NAME STATE NODES QUEUE"),
        (20, "NAME STATE"),
        (3, "NAME"),
    ],
)
def test_a_narrow_terminal_has_the_columns_that_matter_most(width: int, columns: str) -> None:
    lines = command.table(Seen([RUNS, WAITS], NOW), with_namespace=False, width=width)
    assert lines[0].split() == columns.split()
    assert max(map(len, lines)) <= max(width, 5)


def test_a_place_without_a_total_is_said_without_one() -> None:
    row = replace(WAITS, place=QueuePlace(3, "ClusterQueue gpus"))
    assert "3 in default" in command.table(Seen([row], NOW), with_namespace=False, width=None)[1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"namespace": "../x"}, "'../x' is not a valid name of an object"),
        ({"namespace": "a", "all_namespaces": True}, "-n names one namespace, and -A means all"),
        ({"watch": True, "output": Output.JSON}, "--watch prints text as it changes"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(options: dict[str, Any], sentence: str) -> None:
    code, out, err = answered(command.run, **options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


# --- as it changes ------------------------------------------------------------------


def watched(
    monkeypatch: pytest.MonkeyPatch,
    out: io.StringIO,
    *looks: list[Row] | Exception,
    unseen: tuple[str, ...] = (),
    term: str = "xterm",
    **options: Any,
) -> str:
    """What is printed of these looks, after which the user presses Ctrl-C."""
    left = iter(looks)
    err = io.StringIO()

    async def looked(_: Any, __: Any, chosen: Any) -> Seen:
        rows = next(left, None)
        if rows is None:
            raise KeyboardInterrupt
        if isinstance(rows, Exception):
            raise rows
        return Seen([row for row in rows if chosen(row)], NOW, unseen)

    monkeypatch.setattr(command, "look", looked)
    monkeypatch.setattr(command, "EVERY", 0.0)
    monkeypatch.setenv("TERM", term)
    credentials = Credentials("http://127.0.0.1:1", None, namespace="team")
    monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
    assert command.run(watch=True, out=out, err=err, **options) == 0
    return err.getvalue()


def test_in_a_pipe_each_change_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    older = replace(RUNS, created=NOW - timedelta(hours=4))
    done = replace(RUNS, state="Complete", nodes="", progress=None)
    watched(monkeypatch, out, [RUNS, WAITS, DONE], [older, WAITS], [done, WAITS], [done], [done])
    assert out.getvalue().splitlines() == [
        "2026-01-01T12:00:00Z team/hello Running 2/2 default 42%",
        "2026-01-01T12:00:00Z team/waits Queued 0/8 3 of 7 in default",
        "2026-01-01T12:00:00Z team/hello Complete default",
        "2026-01-01T12:00:00Z team/waits Deleted",
    ]


def test_on_a_terminal_the_table_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "24")
    out = Terminal()
    watched(monkeypatch, out, [RUNS, WAITS], [])
    first, second = re.split(r"\x1b\[3F", out.getvalue())
    assert first.startswith("\x1b[JNAME   STATE    NODES  QUEUE\n")
    assert second == "\x1b[JNo TrainJob runs or waits in namespace t\n"
    shown = re.sub(r"\x1b\[\d*[A-Z]", "", out.getvalue())
    assert all(len(line) <= 40 for line in shown.splitlines())


def test_on_a_terminal_that_cannot_be_drawn_on_each_change_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    watched(monkeypatch, out, [RUNS], [], term="dumb")
    assert out.getvalue().splitlines() == [
        "2026-01-01T12:00:00Z team/hello Running 2/2 default 42%",
        "2026-01-01T12:00:00Z team/hello Deleted",
    ]


def test_what_is_not_visible_is_told_while_jobs_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    unseen, remark = ("places in queues",), "Not everything is visible: places in queues\n"
    out = Terminal()
    watched(monkeypatch, out, [RUNS], unseen=unseen, states=[State.FAILED])
    assert out.getvalue() == f"\x1b[JNo TrainJob in namespace team is Failed.\n{remark}"
    assert watched(monkeypatch, io.StringIO(), [RUNS], [RUNS], unseen=unseen) == remark


def test_a_list_that_is_longer_than_the_terminal_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "10")
    out = Terminal()
    watched(monkeypatch, out, [replace(RUNS, name=f"job-{number}") for number in range(30)])
    lines = out.getvalue().splitlines()
    assert (len(lines), lines[-1]) == (9, "and 23 more")


def test_an_api_server_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    away = RetriableError("GET /x: timed out")
    assert watched(monkeypatch, out, away, away, [RUNS]) == "GET /x: timed out; trying again\n"
    assert "hello" in out.getvalue()


def test_what_the_rows_read_is_what_the_cluster_is_asked_for() -> None:
    """A field that is read and not decoded would be missing without a word."""
    fields = {
        "metadata": {
            "name": "tj",
            "namespace": "team",
            "creationTimestamp": "2026-01-01T10:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "default", "other": "x"},
            "annotations": {"kueue.x-k8s.io/admission-gated-by": "x"},
        },
        "spec": {
            "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}},
            "runtimePatches": [{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {}}],
        },
        "status": {
            "conditions": [{"type": "Suspended", "status": "True", "reason": "x", "message": "long"}],
            "jobsStatus": [{"name": "node", "active": 1, "ready": 0}],
            "trainerStatus": {"progressPercentage": 3},
            "trainyard": {"nodes": "0/2", "attempts": [{"message": "long"}]},
        },
    }
    decoder = msgspec.json.Decoder(cluster._TrainJob)
    slim = cluster._slim(msgspec.Raw(msgspec.json.encode(fields)), decoder)
    assert rows_of.row(slim) == rows_of.row(fields)
    assert "long" not in str(slim)
