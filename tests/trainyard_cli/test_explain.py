"""The command: what it asks the API server for, what it prints, and what it cannot see."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web
from typer.testing import CliRunner

from tests.support.answers import answered
from tests.support.explained.cases import INSUFFICIENT, QUOTA_SAID
from tests.support.explained.cases_control import PREEMPTED
from tests.support.explained.objects import (
    HEALTHY,
    QUEUED,
    Object,
    condition,
    homeless,
    node,
    owned_by,
    pod,
    terminated,
    told,
    trainjob,
    workload,
)
from tests.support.fake_api import FakeApi, run, status
from trainyard_api.names import TENANT_LABEL
from trainyard_api.reasons import Reason
from trainyard_assist import read
from trainyard_assist.explain import Diagnosis, Finding, Observation, Ref, State
from trainyard_assist.explain.model import Mark, Silence, Stage, Unseen
from trainyard_cli.cluster import last_lines, patience
from trainyard_cli.cluster import observe as looks
from trainyard_cli.commands import explain as command
from trainyard_cli.main import app
from trainyard_operator.core.decide.last_lines import Kept, Lines

TRAINJOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj"
RUNTIME = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/rt"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/tj"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"
CLAIMS = "/api/v1/namespaces/team/persistentvolumeclaims"
EVENTS = "/api/v1/namespaces/team/events"
NODES = "/api/v1/nodes"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
LAST_LINES = "/api/v1/namespaces/team/configmaps/tj-last-lines"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trainyard-system/leases/trainyard-operator"
UPSTREAM_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kubeflow-system/leases/trainer.kubeflow.org"
CONTROLLER = "/apis/apps/v1/namespaces/jobset-system/deployments/jobset-controller"
DEPLOYMENTS = "/apis/apps/v1/deployments"


class Api(FakeApi):
    """With logs, and collections that take their time."""

    def __init__(self, *pods: Object) -> None:
        super().__init__()
        self.slow: set[str] = set()
        uid = self.put(TRAINJOB, HEALTHY.trainjob)["metadata"]["uid"]
        self.put(RUNTIME, {"metadata": {}})
        owner = {**owned_by("tj"), "uid": "uid-of-jobset"}
        owner["ownerReferences"][0]["uid"] = uid
        self.put(JOBSET, {"metadata": owner, "spec": {}, "status": {"restarts": 0}})
        self.put(f"{JOBS}/tj-node-0", dict(HEALTHY.jobs[0]))
        for found in pods:
            self.put(f"{PODS}/{found['metadata']['name']}", found)
        self.put(f"{NODES}/n1", node())
        now = datetime.now(UTC)
        renewed = (now - timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.put(LEASE, {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": renewed}})

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        if request.path in self.slow:
            await asyncio.sleep(60)
        if request.path.endswith("/log"):
            return web.Response(text="Traceback:\n  in train\n\x1b[31mlost\x1b[0m\n")
        return await super()._get(request, body)

    def forbid(self, path: str) -> None:
        self.refuse_next("GET", path, status(403, "Forbidden"))

    def observe(self) -> Observation:
        async def look() -> Observation:
            async with self.client() as client:
                return await looks.observe(client, "team", "tj", "trainyard-system")

        return run(look)


def test_a_job_that_runs_is_asked_about_once_each_and_nothing_is_written() -> None:
    api = Api(pod(0), pod(1))
    observation = api.observe()
    assert [path for _, path in api.requests[:1]] == [TRAINJOB]
    assert sorted(path for _, path in api.requests[1:-1]) == sorted(
        [RUNTIME, JOBSET, JOBS, PODS, CLAIMS, EVENTS]
    )
    assert [path for _, path in api.requests[-1:]] == [f"{NODES}/n1"]
    assert api.writes() == []
    assert observation.unseen == {}
    assert [found["metadata"]["name"] for found in observation.pods] == ["tj-node-0-0-x", "tj-node-0-1-x"]


SAID = "trainyard: silent since 2026-01-01T11:48:00Z: no output and no CPU of PID {}\n"


class Logging(Api):
    """An API server with logs of its pods."""

    def __init__(self, *logs: str) -> None:
        super().__init__(*(told(pod(number)) for number in range(len(logs))))
        self._logs = {f"{PODS}/tj-node-0-{number}-x/log": log for number, log in enumerate(logs)}

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        if request.path in self._logs:
            return web.Response(text=self._logs[request.path])
        return await super()._get(request, body)

    def read(self) -> list[str]:
        return [path for _, path in self.requests if path.endswith("/log")]


def test_that_ranks_are_silent_is_read_in_the_logs_of_their_pods() -> None:
    api = Logging(f"step 7\n\n{SAID.format('7 8')}", SAID.format("9") + "W0101 a store that is slow\n")
    since = datetime(2026, 1, 1, 11, 48, tzinfo=UTC)
    assert api.observe().silences == (
        Silence("tj-node-0-0-x", since, "7 8"),
        Silence("tj-node-0-1-x", since, "9"),
    )


@pytest.mark.parametrize(
    "log",
    [
        "step 7\n",
        "",
        SAID.format("7") + "\ntrainyard: silent no more\n",
        "the user says: " + SAID.format("7"),
        SAID.format("7").replace("-01-01", "-02-31"),
        SAID.format("$(reboot)"),
    ],
    ids=["output", "none", "no more", "within a line", "no time", "no PID"],
)
def test_of_a_job_that_is_not_silent_one_log_is_read(log: str) -> None:
    api = Logging(log, SAID.format("7"))
    assert api.observe().silences == ()
    assert api.read() == [f"{PODS}/tj-node-0-0-x/log"]


def test_who_may_not_read_logs_is_not_told_of_silence() -> None:
    api = Logging(SAID.format("7"))
    api.forbid(f"{PODS}/tj-node-0-0-x/log")
    observation = api.observe()
    assert (observation.silences, observation.unseen) == ((), {})


class Ahead(Api):
    """An API server whose clock is an hour ahead of this machine's."""

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        answer = await super()._get(request, body)
        answer.headers["Date"] = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        return answer


def test_time_is_that_of_the_api_server() -> None:
    now = Ahead(pod(0)).observe().now
    assert abs((datetime.now(UTC) + timedelta(hours=1) - now).total_seconds()) < 600


def test_without_a_jobset_the_controllers_are_looked_for() -> None:
    api = Api()
    api.remove(JOBSET)
    api.observe()
    assert sorted(path for _, path in api.requests[7:]) == sorted(
        [LEASE, UPSTREAM_LEASE, CONTROLLER, DEPLOYMENTS]
    )


def test_a_jobset_controller_that_a_stack_has_installed_is_the_one() -> None:
    api = Api()
    api.remove(JOBSET)
    api.put(CONTROLLER, {"status": {"availableReplicas": 1}})
    assert read.key(api.observe().jobset_controller or {}) == ("jobset-system", "jobset-controller")
    assert DEPLOYMENTS not in {path for _, path in api.requests}


def test_a_pod_without_a_node_could_go_to_all_of_them() -> None:
    api = Api(pod(0), homeless(1, INSUFFICIENT))
    assert [found["metadata"]["name"] for found in api.observe().nodes] == ["n1"]
    assert api.requests[-1] == ("GET", NODES)


class Queueing(Api):
    """An API server that gives of Workloads those that are asked for."""

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        answer = await super()._get(request, body)
        if not request.path.endswith("/workloads") or "labelSelector" not in request.query:
            return answer
        label, *uids = re.findall(r"[\w./-]+", request.query["labelSelector"].replace(" in ", " "))
        found = json.loads(answer.text or "")["items"] or ()
        chosen = [one for one in found if one["metadata"].get("labels", {}).get(label) in uids]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": chosen})


@pytest.mark.parametrize(("forbidden", "seen"), [(False, "trainjob-urgent-1"), (True, None)])
def test_who_took_the_quota_is_looked_for_in_all_namespaces_that_may_be_seen(
    forbidden: bool, seen: str | None
) -> None:
    api, label = Queueing(), "kueue.x-k8s.io/job-uid"
    sent = trainjob(more=QUEUED, suspend=True)
    uid = api.put(TRAINJOB, {**sent, "metadata": {"labels": QUEUED["labels"]}})["metadata"]["uid"]
    waits = workload(condition("QuotaReserved", status="False"), condition("Evicted", "Preempted", PREEMPTED))
    api.put(f"{WORKLOADS}/trainjob-tj-1", {**waits, "metadata": {"labels": {label: uid}}})
    api.remove(JOBSET)
    of = {"metadata": {"labels": {label: "95ded0bd-8f5f-4a5e-a1cf-2c5b8b3333ff"}}}
    api.put(f"{WORKLOADS.replace('/team/', '/team-b/')}/trainjob-urgent-1", of)
    if forbidden:
        api.forbid("/v1beta2/workloads")
    found = api.observe().preemptor
    assert (None if found is None else found["metadata"]["name"]) == seen


AnyApi = TypeVar("AnyApi", bound=Api)
QUEUES = "/apis/kueue.x-k8s.io/v1beta2"
VISIBLE = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/research/pendingworkloads"


def waiting(api: AnyApi) -> AnyApi:
    """The same with a queue in which the TrainJob waits for a job of its own team and for one of another."""
    sent = trainjob(more=QUEUED, suspend=True)
    uid = api.put(TRAINJOB, {**sent, "metadata": {"labels": QUEUED["labels"]}})["metadata"]["uid"]
    short = condition("QuotaReserved", "Pending", QUOTA_SAID, "False")
    labels = {"labels": {"kueue.x-k8s.io/job-uid": uid}}
    api.put(f"{WORKLOADS}/trainjob-tj-1", {**workload(short), "metadata": labels})
    for place, name, queue in (("team", "mine", "gpus"), ("others", "theirs", "lends")):
        assigned = {"clusterQueue": queue, "podSetAssignments": [{"flavors": {"cpu": "spot"}}]}
        admitted = workload(condition("QuotaReserved"), admission=assigned)
        api.put(f"{QUEUES}/namespaces/{place}/workloads/{name}", {**admitted, "metadata": {}})
    api.put(f"{QUEUES}/namespaces/team/localqueues/research", {"spec": {"clusterQueue": "gpus"}})
    for queue in ("gpus", "lends"):
        api.put(f"{QUEUES}/clusterqueues/{queue}", {"spec": {"cohortName": "lab"}})
    api.remove(JOBSET)
    return api


OF_JOBSET = {"app.kubernetes.io/name": "jobset", "app.kubernetes.io/component": "controller"}
OF_KUEUE = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}


class Others(Queueing):
    """An API server with controllers in namespaces of the site's own, that gives those with the labels."""

    def __init__(self) -> None:
        super().__init__()
        self.deploy("lws", "its-lws", {**OF_KUEUE, "app.kubernetes.io/name": "lws"})
        self.deploy("kubeflow", "its-jobset", OF_JOBSET)
        self.deploy("quota", "its-kueue", OF_KUEUE)

    def deploy(self, namespace: str, name: str, labels: dict[str, str], *, available: int = 0) -> None:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        self.put(path, {"metadata": {"labels": labels}, "status": {"availableReplicas": available}})

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        answer = await super()._get(request, body)
        if request.path != DEPLOYMENTS:
            return answer
        labels = dict(label.split("=") for label in request.query["labelSelector"].split(","))
        items = json.loads(answer.text or "")["items"]
        chosen = [item for item in items if labels.items() <= item["metadata"]["labels"].items()]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": chosen})


def test_controllers_of_the_sites_own_are_found_by_the_labels_of_upstream() -> None:
    observation = waiting(Others()).observe()
    controllers = observation.jobset_controller, observation.kueue
    assert [read.key(controller or {}) for controller in controllers] == [
        ("kubeflow", "its-jobset"),
        ("quota", "its-kueue"),
    ]


def test_a_jobset_controller_of_upstreams_manifests_is_found_too() -> None:
    api = waiting(Others())
    labels = {**OF_JOBSET, "app.kubernetes.io/component": "manager"}
    api.deploy("jobset-system", "jobset-controller-manager", labels, available=1)
    assert read.key(api.observe().jobset_controller or {}) == ("jobset-system", "jobset-controller-manager")


def test_a_dashboard_of_kueue_that_runs_is_no_kueue() -> None:
    api = waiting(Others())
    dashboard = {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "dashboard"}
    api.deploy("kueue-system", "kueue-kueueviz-backend", dashboard, available=1)
    assert read.key(api.observe().kueue or {}) == ("quota", "its-kueue")


def test_of_several_controllers_one_that_runs_is_the_one() -> None:
    api = waiting(Others())
    api.deploy("new-quota", "its-kueue", OF_KUEUE, available=1)
    assert read.key(api.observe().kueue or {}) == ("new-quota", "its-kueue")


def test_what_users_have_in_the_namespace_of_a_trainjob_is_no_controller() -> None:
    api = waiting(Others())
    api.deploy("team", "its-kueue", OF_KUEUE, available=1)
    assert read.key(api.observe().kueue or {}) == ("quota", "its-kueue")


@pytest.mark.parametrize(("forbidden", "seen"), [(False, "quota"), (True, "speech")])
def test_what_users_have_in_the_namespace_of_another_tenant_is_no_controller(
    forbidden: bool, seen: str
) -> None:
    api = waiting(Others())
    api.put("/api/v1/namespaces/speech", {"metadata": {"labels": {TENANT_LABEL: "speech"}}})
    api.deploy("speech", "its-kueue", OF_KUEUE, available=1)
    for _ in ("for JobSet", "for Kueue") if forbidden else ():
        api.forbid("/api/v1/namespaces")
    assert read.key(api.observe().kueue or {}) == (seen, "its-kueue")


def test_who_may_not_list_all_deployments_still_sees_that_the_stacks_controllers_are_gone() -> None:
    api = waiting(Others())
    for _ in ("of JobSet", "of Kueue"):
        api.forbid(DEPLOYMENTS)
    observation = api.observe()
    assert (observation.jobset_controller, observation.kueue) == (None, None)
    assert {"JobSet controller", "Kueue"}.isdisjoint(map(str, observation.unseen))


def test_who_holds_the_quota_is_looked_for_in_all_queues_of_the_cohort() -> None:
    api = waiting(Queueing())
    api.put(VISIBLE, {"items": [{"metadata": {"name": "trainjob-tj-1"}, "positionInClusterQueue": 1}]})
    observation = api.observe()
    place = observation.queue_place
    assert place is not None
    assert (place.position, place.queue, place.only_own) == (2, "ClusterQueue gpus", False)
    assert [holder.job for holder in place.holders] == ["others/theirs", "team/mine"]
    assert observation.local_queues == ("research",)
    assert observation.unseen == {}


def test_who_may_see_only_a_namespace_is_told_who_of_it_holds_the_quota() -> None:
    api = waiting(Queueing())
    for path in ("workloads", "localqueues", "clusterqueues", "cohorts"):
        api.forbid(f"{QUEUES}/{path}")
    place = api.observe().queue_place
    assert place is not None
    assert (place.position, place.partial, place.only_own) == (1, True, True)
    assert [holder.job for holder in place.holders] == ["team/mine"]


def test_the_log_of_a_failed_container_is_read_and_cleaned() -> None:
    observation = Api(pod(0, "Failed", state=terminated(3))).observe()
    assert observation.log == ("Traceback:", "  in train", "lost")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (RUNTIME, {"runtime": "you are not allowed to get clustertrainingruntimes.trainer.kubeflow.org"}),
        (JOBS, {"Jobs": "you are not allowed to list jobs.batch"}),
        (EVENTS, {"events": "you are not allowed to list events"}),
        (f"{NODES}/n1", {"nodes": "you are not allowed to get nodes"}),
    ],
)
def test_what_may_not_be_seen_is_noted(path: str, said: dict[str, str]) -> None:
    api = Api(pod(0), pod(1))
    api.forbid(path)
    assert {str(what): why for what, why in api.observe().unseen.items()} == said


def test_a_name_that_no_object_can_have_is_asked_for_nowhere() -> None:
    api = Api(pod(0))
    spec = {"runtimeRef": {"name": "../../../../api/v1/namespaces/kube-system/secrets/token"}}
    api.put(TRAINJOB, {**HEALTHY.trainjob, "spec": spec})
    observation = api.observe()
    assert observation.runtime is None
    assert [path for _, path in api.requests if "secrets" in path or "runtimes" in path] == []


def test_what_does_not_come_in_time_is_noted_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 1)
    api = Api(pod(0), pod(1))
    api.slow = {EVENTS}
    assert {str(what): why for what, why in api.observe().unseen.items()} == {
        "events": "no answer within 1 s"
    }


def test_more_than_can_be_looked_at_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MOST", 1)
    observation = Api(pod(0), pod(1)).observe()
    assert len(observation.pods) == 1
    assert observation.unseen == {"pods": "there are too many, only the first 1 were looked at"}


# --- what is printed ----------------------------------------------------------------


DIAGNOSIS = Diagnosis(
    trainjob=Ref("TrainJob", "tj", "team"),
    state=State.FAILED,
    answer="TrainJob team/tj has failed: ContainerExited: the others wait for node 1: code 3",
    finding=Finding(
        Reason.CONTAINER_EXITED,
        Ref("Pod", "tj-1", "team"),
        "code 3",
        "see its log",
        (1,),
        ("Traceback:", "  x"),
    ),
    walk=(Stage("TrainJob", Mark.FINE, "tj"), Stage("Pods", Mark.HELD, "1 of 2 ready")),
    unseen=(Unseen("nodes", "you are not allowed to list nodes"),),
)


def test_the_text_begins_with_the_answer() -> None:
    assert command.as_text(DIAGNOSIS) == (
        "TrainJob team/tj has failed: ContainerExited: the others wait for node 1: code 3\n"
        "Cause:      Pod team/tj-1\n"
        "Next step:  see its log\n"
        "Last lines of its log:\n"
        "  | Traceback:\n"
        "  |   x\n"
        "\n"
        "ok  TrainJob  tj\n"
        "!!  Pods      1 of 2 ready\n"
        "\n"
        "Could not see the nodes: you are not allowed to list nodes\n"
    )


def test_the_json_has_the_documented_shape() -> None:
    assert command.document(DIAGNOSIS) == {
        "apiVersion": "explain.trainyard.dev/v1alpha1",
        "kind": "Diagnosis",
        "trainJob": {"namespace": "team", "name": "tj"},
        "state": "Failed",
        "answer": DIAGNOSIS.answer,
        "finding": {
            "cause": "ContainerExited",
            "object": {"kind": "Pod", "name": "tj-1", "namespace": "team"},
            "message": "code 3",
            "nextStep": "see its log",
            "ranks": [1],
            "log": ["Traceback:", "  x"],
        },
        "walk": [
            {"stage": "TrainJob", "mark": "fine", "text": "tj"},
            {"stage": "Pods", "mark": "held", "text": "1 of 2 ready"},
        ],
        "unseen": [{"what": "nodes", "why": "you are not allowed to list nodes"}],
    }


KEPT = Kept(
    "js",
    2,
    "node-1",
    {
        "node-0": Lines("tj-node-0-0-x", "node", text="step 1\n  \x1b[31mlost\x1b[0m"),
        "node-1": Lines("tj-node-0-1-x", "node", ended=True, text="ValueError: no"),
        "node-10": Lines("tj-node-0-10-x", "node", ended=True, missing="the pod was gone"),
        "node-2": Lines("tj-node-0-2-x", "node", ended=True),
    },
    3,
)


def test_with_logs_it_ends_with_what_each_node_printed_last_and_with_the_one_that_failed_first() -> None:
    assert command.as_text(DIAGNOSIS, KEPT) == command.as_text(DIAGNOSIS) + (
        "\n"
        "Last lines of node 0 in attempt 2, pod tj-node-0-0-x, which still ran then:\n"
        "  | step 1\n"
        "  |   lost\n"
        "Last lines of node 2 in attempt 2, pod tj-node-0-2-x:\n"
        "  | (it has printed nothing)\n"
        "Last lines of node 10 in attempt 2, pod tj-node-0-10-x:\n"
        "  | (the pod was gone)\n"
        "Last lines of node 1 in attempt 2, pod tj-node-0-1-x, which failed first:\n"
        "  | ValueError: no\n"
        "Nothing is kept of 3 further nodes.\n"
    )
    assert command.as_text(DIAGNOSIS, "nothing is kept").endswith("\n\nLast lines: nothing is kept\n")


def test_with_logs_the_json_has_them_too() -> None:
    whole = command.document(DIAGNOSIS, KEPT)
    found = whole.pop("lastLines")
    assert whole == command.document(DIAGNOSIS)
    assert (found["attempt"], found["leftOut"]) == (2, 3)
    assert [node["index"] for node in found["nodes"]] == [0, 2, 10, 1]
    assert found["nodes"][0] == {
        "job": "node",
        "index": 0,
        "pod": "tj-node-0-0-x",
        "container": "node",
        "failedFirst": False,
        "ended": False,
        "missing": "",
        "lines": ["step 1", "  lost"],
    }
    assert command.document(DIAGNOSIS, "none")["lastLines"] == {"missing": "none"}


def kept(api: Api) -> Kept | str:
    async def look() -> Kept | str:
        async with api.client() as client:
            return await last_lines.kept(client, api.objects[TRAINJOB])

    return run(look)


def test_what_is_kept_is_read_from_the_trainjobs_own_config_map() -> None:
    api = Api()
    assert kept(api) == last_lines.NOTHING
    owner = {"uid": api.objects[TRAINJOB]["metadata"]["uid"], "controller": True}
    about = '{"jobset":"js","attempt":1,"pods":{"node-0":{"pod":"p"}}}'
    made = {"metadata": {"ownerReferences": [owner]}, "data": {"attempt.json": about, "node-0": "x"}}
    api.put(LAST_LINES, made)
    assert kept(api) == Kept("js", 1, pods={"node-0": Lines("p", text="x")})
    api.put(LAST_LINES, {**made, "data": {}})
    assert kept(api) == "ConfigMap tj-last-lines cannot be read: somebody has changed it"
    api.put(LAST_LINES, {**made, "metadata": {"ownerReferences": []}})
    assert kept(api) == "ConfigMap tj-last-lines is not this TrainJob's"
    api.forbid(LAST_LINES)
    assert kept(api) == "you are not allowed to get ConfigMap tj-last-lines"


def test_nobody_to_ask_is_exit_code_2_and_one_line(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    for file, said in ((config, "127.0.0.1"), (tmp_path / "none", "No such file")):
        code, out, err = answered(command.run, "tj", kubeconfig=str(file))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "x" * 254])
def test_a_name_that_no_trainjob_can_have_is_not_asked_for(name: str) -> None:
    refusal = f"{name!r} is not a valid name of an object\n"
    assert answered(command.run, name, namespace="team", kubeconfig="/nowhere") == (2, "", refusal)


def test_help_has_an_example() -> None:
    answer = CliRunner().invoke(app, ["explain", "--help"])
    assert answer.exit_code == 0
    assert "Example: trainyard explain my-training -n team-a" in answer.output
