"""`trainyard seff`: what it asks the API server for, and how it prints what is used."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from trainyard_assist.logs import Place
from trainyard_assist.seff import Amount, Kind, Rank
from trainyard_cli.cluster import connection
from trainyard_cli.commands import seff as command
from trainyard_cli.output import Output
from trainyard_kube.credentials import Credentials

JOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/tj"
PODS = "/api/v1/namespaces/team/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/team/pods"
GIB = 2**30


class Cluster(FakeApi):
    """An API server with the TrainJob `tj` and its pods, of which it measures those that a test says."""

    def __init__(self, state: str = "Running", **conditions: str) -> None:
        super().__init__()
        listed = [{"type": kind, "status": "True", "message": text} for kind, text in conditions.items()]
        self.put(JOB, {"status": {"trainyard": {"state": state}, "conditions": listed}})

    def node(self, index: int, *, measured: bool = True, gpus: int = 0) -> None:
        name = f"tj-node-0-{index}-x"
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        resources = {"requests": {"cpu": "16", "memory": "64Gi"}, "limits": limits}
        self.put(
            f"{PODS}/{name}",
            {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "node", "resources": resources}]},
                "status": {"phase": "Running", "containerStatuses": [{"name": "node", "state": RUNS}]},
            },
        )
        if measured:
            usage = {"cpu": f"{index + 1}900m", "memory": "2Gi"}
            self.put(f"{METRICS}/{name}", {"containers": [{"name": "node", "usage": usage}]})

    def forbid(self, path: str) -> None:
        self.refuse_next("GET", path, status(403, "Forbidden"))

    def answer(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[int, str, str]:
        async def asked() -> tuple[int, str, str]:
            async with self.serving() as url:
                credentials = Credentials(url, None, namespace="team", options=("--context", "lab"))
                monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
                return await asyncio.to_thread(answered, command.run, "tj", **options)

        return run_test(asked)


RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ADVICE = (
    "Each rank asks for 64Gi of memory, and none uses more than 2Gi now: "
    "a job that asks for less (resourcesPerNode) starts sooner.\n"
)
GPUS = (
    "metrics.k8s.io does not measure GPUs. "
    "Ask a rank that runs: trainyard exec tj -n team --context lab -- nvidia-smi\n"
)


def test_the_table_says_of_each_rank_and_of_all_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.node(0)
    api.node(1)
    assert api.answer(monkeypatch) == (
        0,
        "RANK  CPU         MEMORY\n"
        "0     1.9/16 12%  2Gi/64Gi 3%\n"
        "1     2.9/16 18%  2Gi/64Gi 3%\n"
        f"all   4.8/32 15%  4Gi/128Gi 3%\n{ADVICE}",
        "",
    )
    assert api.writes() == []
    assert {path for _, path in api.requests} == {JOB, JOBSET, PODS, METRICS}


def test_pods_of_a_deleted_job_of_the_same_name_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.node(0)
    api.node(1)
    api.objects[f"{PODS}/tj-node-0-1-x"]["metadata"]["creationTimestamp"] = "2025-12-31T23:59:59Z"
    assert api.answer(monkeypatch) == (
        0,
        f"RANK  CPU         MEMORY\n0     1.9/16 12%  2Gi/64Gi 3%\n{ADVICE}",
        "",
    )


def test_gpus_are_counted_and_it_is_said_that_nobody_measures_them(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.node(0, gpus=8)
    code, out, err = api.answer(monkeypatch)
    assert (code, out.splitlines()[:2], err) == (
        0,
        ["RANK  CPU         MEMORY       GPUS", "0     1.9/16 12%  2Gi/64Gi 3%  ?/8"],
        GPUS,
    )


def test_a_cluster_that_measures_no_pods_says_so_beside_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster()
    api.node(0, measured=False)
    api.missing.add("/apis/metrics.k8s.io")
    sentence = "nothing measures the pods of this cluster: it has no metrics.k8s.io (metrics-server)"
    assert api.answer(monkeypatch) == (
        1,
        "RANK  CPU   MEMORY\n0     ?/16  ?/64Gi\n",
        f"What it uses is not known: {sentence}.\n",
    )


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (
            status(403, "Forbidden"),
            "What it uses is not known: you are not allowed to list pods.metrics.k8s.io in namespace team.\n",
        ),
        (
            status(503, "ServiceUnavailable", "the server is\x1b[2J not able"),
            "What it uses is not known: metrics.k8s.io does not answer: "
            "503 ServiceUnavailable: the server is [2J not able.\n",
        ),
    ],
)
def test_metrics_that_cannot_be_read_are_told_from_none(
    refusal: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Cluster()
    api.node(0)
    api.refuse_next("GET", METRICS, refusal)
    code, out, err = api.answer(monkeypatch)
    assert (code, out, err) == (1, "RANK  CPU   MEMORY\n0     ?/16  ?/64Gi\n", sentence)


def test_a_rank_that_is_not_measured_yet_is_named_and_the_sum_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster()
    api.node(0)
    api.node(1, measured=False)
    assert api.answer(monkeypatch) == (
        0,
        "RANK  CPU         MEMORY\n"
        "0     1.9/16 12%  2Gi/64Gi 3%\n"
        "1     ?/16        ?/64Gi\n"
        "all   ?/32        ?/128Gi\n",
        "Not measured: 1. That begins up to a minute after a pod starts.\n",
    )


def test_a_job_that_waits_has_no_pods_and_says_who_knows_why(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster("Queued")
    assert api.answer(monkeypatch) == (
        1,
        "",
        "TrainJob team/tj is Queued, and has no pods yet. "
        "See why: trainyard explain tj -n team --context lab\n",
    )


def test_after_the_end_it_says_what_the_status_knows_and_asks_for_no_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster("Complete", Complete="jobset completed successfully in 12 min 4 s")
    resources = {"requests": {"cpu": "16", "memory": "64Gi"}}
    template = {"parallelism": 1, "template": {"spec": {"containers": [{"resources": resources}]}}}
    api.put(JOBSET, {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": template}}]}})
    assert api.answer(monkeypatch) == (
        1,
        "RANK  CPU   MEMORY\n0     ?/16  ?/64Gi\n",
        "TrainJob team/tj is Complete (jobset completed successfully in 12 min 4 s): "
        "what it used was measured only while it ran, and nothing has recorded it.\n",
    )
    assert METRICS not in {path for _, path in api.requests}


def test_the_json_has_the_documented_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.node(0, gpus=8)
    code, out, err = api.answer(monkeypatch, output=Output.JSON)
    assert (code, err) == (0, "")
    amounts = {
        "cpu": {"requested": 16.0, "used": 1.9, "percent": 12},
        "memory": {"requested": 64.0 * GIB, "used": 2.0 * GIB, "percent": 3},
        "gpus": {"requested": 8.0, "used": None, "percent": None},
    }
    assert json.loads(out) == {
        "apiVersion": "seff.trainyard.dev/v1alpha1",
        "kind": "Efficiency",
        "trainJob": {"namespace": "team", "name": "tj"},
        "state": "Running",
        "ranks": [{"rank": "0", "pod": "tj-node-0-0-x", **amounts}],
        "total": amounts,
        "advice": [ADVICE.rstrip()],
        "unmeasured": [GPUS.rstrip()],
    }


@pytest.mark.parametrize(
    ("width", "columns"),
    [(80, "RANK CPU MEMORY GPUS"), (30, "RANK CPU MEMORY"), (20, "RANK MEMORY"), (5, "RANK")],
)
def test_a_narrow_terminal_has_the_columns_that_matter_most(width: int, columns: str) -> None:
    amounts = {
        Kind.CPU: Amount(16, 1.9),
        Kind.MEMORY: Amount(64 * GIB, 2 * GIB),
        Kind.GPUS: Amount(8),
    }
    rank = Rank(label="0", place=Place("node", 0), amounts=amounts)
    assert command.table([rank], width)[0].split() == columns.split()


def test_who_may_not_list_pods_is_told_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.forbid(PODS)
    assert api.answer(monkeypatch) == (2, "", "you are not allowed to list pods in namespace team\n")


def test_of_an_unknown_job_the_nearest_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.put(f"{JOB}-2", {})
    api.remove(JOB)
    code, out, err = api.answer(monkeypatch)
    assert (code, out) == (2, "")
    assert err == ("TrainJob tj is not found: namespace team has none of this name; did you mean tj-2?\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"job": "../x"}, "'../x' is not a valid name of an object"),
        ({"namespace": "A"}, "'A' is not a valid name of an object"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(options: dict[str, Any], sentence: str) -> None:
    code, out, err = answered(command.run, **{"job": "tj", **options})
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
