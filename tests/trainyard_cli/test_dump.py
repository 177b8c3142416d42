"""`trainyard dump`: what it reads, what is in the archive and what never is, and how it is written."""

import asyncio
import json
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from trainyard_api.errors import UserError
from trainyard_cli.cluster import connection
from trainyard_cli.cluster import dump as cluster
from trainyard_cli.commands import dump as command
from trainyard_cli.files import archive
from trainyard_kube.credentials import Credentials

GROUP = "/apis/trainer.kubeflow.org/v1alpha1"
JOB = f"{GROUP}/namespaces/team/trainjobs/tj"
RUNTIME = f"{GROUP}/clustertrainingruntimes/torch-distributed"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/tj"
BATCH = "/apis/batch/v1/namespaces/team/jobs"
POD = "/api/v1/namespaces/team/pods/tj-node-0-0-x"
EVENTS = "/api/v1/namespaces/team/events"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/default"
CLUSTER_QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/gpus"
OPERATOR = "/apis/apps/v1/namespaces/trainyard-system/deployments/trainyard-operator"
REVISION = "/apis/apps/v1/namespaces/trainyard-system/controllerrevisions/torch-1"
LAST_LINES = "/api/v1/namespaces/team/configmaps/tj-last-lines"
SECRET = "hunter2-of-ada"
OBJECTS = ("trainjob", "runtime", "runtime-revision", "jobset", "jobs", "pods", "queues", "events")


class Cluster(FakeApi):
    """An API server with the TrainJob `tj`, whose objects and logs are full of secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.text = f"2026-01-01T10:00:00.000000000Z HF_TOKEN={SECRET}\n"
        hostile = {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            "example.com/api-token": SECRET,
            "example.com/note": f"https://ada:{SECRET}@host/x",
        }
        env = [{"name": "HF_TOKEN", "value": SECRET}, {"name": "LR", "value": "1e-4"}]
        managed = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
        trainjob = self.put(
            JOB,
            {
                "metadata": {
                    "annotations": hostile,
                    "managedFields": managed,
                    "labels": {"kueue.x-k8s.io/queue-name": "default"},
                },
                "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"env": env}},
                "status": {"trainyard": {"state": "Running"}},
            },
        )
        owner = {"kind": "TrainJob", "name": "tj", "uid": trainjob["metadata"]["uid"], "controller": True}
        self.put(RUNTIME, {"kind": "ClusterTrainingRuntime", "spec": {}})
        annotations = {"trainyard.dev/runtime-revision": "torch-1"}
        self.put(JOBSET, {"metadata": {"annotations": annotations, "ownerReferences": [owner]}, "spec": {}})
        self.put(REVISION, {"kind": "ControllerRevision", "data": {"env": env}})
        self.put(f"{BATCH}/tj-node-0", {"spec": {}})
        waits = {"name": "waits", "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
        node = {"name": "node", "restartCount": 1, "state": {"running": {}}}
        pod = self.put(
            POD,
            {
                "spec": {
                    "imagePullSecrets": [{"name": "registry"}],
                    "containers": [{"name": "node", "args": ["--token", SECRET], "env": env}],
                },
                "status": {"phase": "Running", "containerStatuses": [node, waits]},
            },
        )
        for name, uid in (("ours", pod["metadata"]["uid"]), ("theirs", "another")):
            event = {"involvedObject": {"uid": uid}, "type": "Normal", "message": f"{name} token={SECRET}"}
            self.put(f"{EVENTS}/{name}", event)
        self.put(QUEUE, {"kind": "LocalQueue", "spec": {"clusterQueue": "gpus"}})
        self.put(CLUSTER_QUEUE, {"kind": "ClusterQueue", "spec": {}})
        containers = [{"image": "registry.example.com/operator:1"}]
        self.put(OPERATOR, {"spec": {"template": {"spec": {"containers": containers}}}})
        about = '{"jobset":"js","attempt":2,"pods":{"node-0":{"pod":"p0"}}}'
        data = {"attempt.json": about, "node-0": f"lost\npassword: {SECRET}"}
        self.put(LAST_LINES, {"metadata": {"ownerReferences": [owner]}, "data": data})

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        if request.path.endswith("/log"):
            return web.Response(text=self.text)
        return await super()._get(request, body)

    def forbid(self, path: str) -> None:
        self.refuse_next("GET", path, status(403, "Forbidden"))

    def answer(
        self, monkeypatch: pytest.MonkeyPatch, file: Path | None, **options: Any
    ) -> tuple[int, str, str]:
        async def asked() -> tuple[int, str, str]:
            async with self.serving() as url:
                credentials = Credentials(server=url, tls=None, namespace="team")
                monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
                return await asyncio.to_thread(answered, command.run, "tj", file=file, **options)

        return run_test(asked)


def files(path: Path) -> dict[str, str]:
    """By the path in the one folder of the archive."""
    with tarfile.open(path) as tar:
        entries = [(entry, tar.extractfile(entry)) for entry in tar.getmembers()]
        assert {(entry.mode, entry.uid, entry.uname, entry.isreg()) for entry, _ in entries} == {
            (0o600, 0, "", True)
        }
        assert len({entry.name.partition("/")[0] for entry, _ in entries}) == 1
        return {entry.name.partition("/")[2]: content.read().decode() for entry, content in entries}


def items(of: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    whole = json.loads(of[f"objects/{name}.json"])
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
    return whole["items"]


def test_the_archive_has_objects_events_logs_the_answer_of_explain_and_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api, path = Cluster(), tmp_path / "for-support.tar.gz"
    code, out, err = api.answer(monkeypatch, path)
    assert (code, err) == (0, "")
    whole = files(path)
    assert list(whole) == [
        "explain.txt",
        "explain.json",
        *(
            f"objects/{name}.json"
            for name in (
                "trainjob",
                "runtime",
                "runtime-revision",
                "jobset",
                "jobs",
                "pods",
                "queues",
                "events",
            )
        ),
        "logs/tj-node-0-0-x/node.log",
        "logs/tj-node-0-0-x/node.previous.log",
        "contents.json",
        "README.txt",
    ]
    assert [(pod["kind"], pod["metadata"]["name"]) for pod in items(whole, "pods")] == [
        ("Pod", "tj-node-0-0-x")
    ]
    assert [queue["kind"] for queue in items(whole, "queues")] == ["LocalQueue", "ClusterQueue"]
    assert [event["metadata"]["name"] for event in items(whole, "events")] == ["ours"]
    assert "  | lost" in whole["explain.txt"].splitlines()
    assert "no ConfigMap but the last lines of a failed job" in whole["README.txt"]
    assert json.loads(whole["explain.json"])["lastLines"]["attempt"] == 2
    contents = json.loads(whole["contents.json"])
    assert (contents["apiVersion"], contents["kind"], contents["trainJob"], contents["unread"]) == (
        "dump.trainyard.dev/v1alpha1",
        "Dump",
        {"namespace": "team", "name": "tj"},
        [],
    )
    assert contents["versions"].keys() == {"trainyard", "kubernetes", "operator"}
    assert [file["path"] for file in contents["files"]] == list(whole)[:-2]
    first, second, last = out.splitlines()
    assert first.startswith(f"{path}: 14 files, ")
    assert second == (
        "In it: trainjob, runtime, runtime-revision, jobset, jobs, pods, queues, events; 2 logs; "
        "explain's answer; versions; README.txt."
    )
    assert last == (
        "Values that look like secrets are removed. "
        "Read it before you send it: no program knows every secret."
    )
    assert api.writes() == []


def test_no_secret_is_in_the_archive_wherever_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    api, path = Cluster(), tmp_path / "dump.tar.gz"
    api.answer(monkeypatch, path)
    whole = files(path)
    assert [name for name, text in whole.items() if SECRET in text] == []
    (trainjob,) = items(whole, "trainjob")
    assert trainjob["metadata"].keys() & {"managedFields"} == set()
    assert trainjob["metadata"]["annotations"] == {
        "example.com/api-token": "(removed)",
        "example.com/note": "https://(removed)@host/x",
    }
    assert trainjob["spec"]["trainer"]["env"] == [
        {"name": "HF_TOKEN", "value": "(removed)"},
        {"name": "LR", "value": "1e-4"},
    ]
    (pod,) = items(whole, "pods")
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert whole["logs/tj-node-0-0-x/node.log"] == "2026-01-01T10:00:00.000000000 HF_TOKEN=(removed)\n"
    assert not [path for _, path in api.requests if "/secrets" in path]


def test_what_could_not_be_read_is_said_and_written_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api, path = Cluster(), tmp_path / "dump.tar.gz"
    for refused in (REVISION, OPERATOR, CLUSTER_QUEUE, "/log", "/log"):
        api.forbid(refused)
    code, _, err = api.answer(monkeypatch, path)
    assert code == 0
    reasons = {
        "ClusterQueue": "you are not allowed to get the ClusterQueue",
        "revision of the runtime": "you are not allowed to get the revision of the runtime",
        "image of the operator": "you are not allowed to get the image of the operator",
        "logs": "you are not allowed to read logs (get pods/log)",
    }
    assert sorted(err.splitlines()) == sorted(
        f"Could not read {name}: {why}" for name, why in reasons.items()
    )
    whole = files(path)
    unread = json.loads(whole["contents.json"])["unread"]
    assert {each["what"]: each["why"] for each in unread} == reasons
    assert all(f"  {name}: {why}" in whole["README.txt"].splitlines() for name, why in reasons.items())
    assert not [name for name in whole if name.startswith("logs/")]


def test_of_a_long_log_the_last_lines_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    api, path = Cluster(), tmp_path / "dump.tar.gz"
    api.text = "".join(f"2026-01-01T10:00:00.000000000Z step {step:05}\n" for step in range(1_000))
    monkeypatch.setattr(cluster, "IN_SUM", 2 * 200)
    assert api.answer(monkeypatch, path)[0] == 0
    log = files(path)["logs/tj-node-0-0-x/node.log"]
    assert [line.rpartition(" ")[2] for line in log.splitlines()] == ["00996", "00997", "00998", "00999"]
    assert api.answer(monkeypatch, path, log=0, force=True)[0] == 0
    assert not [name for name in files(path) if name.startswith("logs/")]


def test_a_log_controls_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    api, path = Cluster(), tmp_path / "dump.tar.gz"
    api.text = "2026-01-01T10:00:00.000000000Z \x1b]0;title\x07to\x1b[31mken=abc\n"
    api.answer(monkeypatch, path)
    log = files(path)["logs/tj-node-0-0-x/node.log"]
    assert log == "2026-01-01T10:00:00.000000000 token=(removed)\n"


def test_pods_with_names_that_none_has_lead_to_no_file() -> None:
    statuses = [{"name": "node", "state": {"running": {}}}]
    pod = {"metadata": {"name": "../x"}, "status": {"containerStatuses": statuses}}
    assert list(cluster._sources([pod])) == []


def test_without_a_name_it_goes_into_a_file_here_with_a_name_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Cluster().answer(monkeypatch, None)[0] == 0
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("trainyard-dump-team-tj-2")
    assert path.name.endswith("Z.tar.gz")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- how it is written --------------------------------------------------------------


def test_a_file_that_is_there_stays_unless_it_is_to_be_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api, path = Cluster(), tmp_path / "dump.tar.gz"
    path.write_text("mine")
    assert api.answer(monkeypatch, path) == (
        2,
        "",
        f"{path}: already exists; name another with --output, or replace it with --force\n",
    )
    assert (path.read_text(), api.requests) == ("mine", [])
    assert api.answer(monkeypatch, path, force=True)[0] == 0
    assert "contents.json" in files(path)
    assert [file.name for file in tmp_path.iterdir()] == ["dump.tar.gz"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("gone")])
def test_whatever_ends_it_leaves_nothing_behind(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"

    def write() -> None:
        with archive.written(path, "x", force=False) as target:
            target.add("a", "b")
            raise error

    with pytest.raises(type(error)):
        write()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_dump_says_that_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command._Dump, "write", interrupted)
    monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: Credentials("http://127.0.0.1:1", None))
    answer = answered(command.run, "tj", file=tmp_path / "dump.tar.gz")
    assert answer == (1, "", "Interrupted: nothing is written.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_somebody_makes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"
    with (
        pytest.raises(UserError, match="cannot be written: File exists"),
        archive.written(path, "x", force=False),
    ):
        path.write_text("mine")
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("mine", 1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("folder", "is not a file; name another with --output"),
        ("link", "is not a file; name another with --output"),
        ("no/such/dump.tar.gz", "there is no such folder"),
        ("x" * 300, "cannot be written: File name too long"),
    ],
)
def test_what_is_no_place_for_it_is_one_sentence(name: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(UserError, match=sentence), archive.written(tmp_path / name, "x", force=True):
        pass
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "link"]


def test_the_home_of_nobody_is_no_place_for_it_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: Credentials("http://127.0.0.1:1", None))
    answer = answered(command.run, "tj", file=Path("~no-such-user/dump.tar.gz"))
    assert answer == (2, "", "~no-such-user: there is no such folder\n")


def test_the_archive_is_its_owners_from_the_first_byte(tmp_path: Path) -> None:
    with archive.written(tmp_path / "dump.tar.gz", "x", force=False):
        (partial,) = tmp_path.iterdir()
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        assert partial.name.endswith(".partial")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"job": "../x"}, "'../x' is not a valid name of an object"),
        ({"operator_namespace": "A"}, "'A' is not a valid name of an object"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(
    options: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = answered(command.run, **{"job": "tj", **options})
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_of_an_unknown_job_the_nearest_name_is_told_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = Cluster()
    api.put(f"{JOB}-2", {})
    api.remove(JOB)
    code, _, err = api.answer(monkeypatch, tmp_path / "dump.tar.gz")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "did you mean tj-2?" in err
