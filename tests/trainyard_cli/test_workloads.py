"""What each TrainJob of a cluster hangs on, as `trainyard impact` sees it."""

from typing import Any

import pytest
from aiohttp import web

from tests.support import kueues, objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_api import names
from trainyard_cli.cluster.workloads import Seen, look
from trainyard_delivery.impact import Job, Ref, State
from trainyard_kube.resources import WORKLOADS


def gang(*schedulers: str | None) -> dict[str, Any]:
    pods: list[dict[str, Any]] = [{"schedulerName": name} if name else {} for name in schedulers]
    jobs = [
        {"name": f"node-{index}", "template": {"spec": {"template": {"spec": pod}}}}
        for index, pod in enumerate(pods)
    ]
    return objects.jobset(spec={"replicatedJobs": jobs})


def seen(api: FakeApi) -> Seen:
    found: list[Seen] = []

    async def test() -> None:
        async with api.client() as client:
            found.append(await look(client, pools=False))

    run(test)
    return found[0]


def test_a_job_hangs_on_the_schedulers_that_its_pods_name() -> None:
    api = FakeApi()
    job = api.put(f"{objects.JOBS}/tj", objects.trainjob())
    found = gang("volcano", None)
    found["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"]
    api.put(f"{objects.JOBSETS}/tj", found)
    runtime = Ref("ClusterTrainingRuntime", "", "rt")
    assert seen(api).jobs == [
        Job("team", "tj", State.RUNNING, runtime, started=True, schedulers=frozenset({"volcano"}))
    ]


GATED = {names.QUEUE_GATES_ANNOTATION: names.SENT_SUSPENDED}
IN_QUEUE = {names.QUEUE_LABEL: "default"}
BY_KUEUE = {"suspend": True, "runtimePatches": [{"manager": names.KUEUES_PATCHES}]}


@pytest.mark.parametrize(
    ("spec", "metadata", "jobset", "state"),
    [
        pytest.param({}, {}, None, State.QUEUED, id="no JobSet yet"),
        pytest.param({"suspend": True}, {}, None, State.SUSPENDED, id="sent suspended"),
        pytest.param({"suspend": True}, {}, True, State.SUSPENDED, id="suspended, with its JobSet"),
        pytest.param({"suspend": True}, {}, False, State.RUNNING, id="suspended, and its pods still run"),
        pytest.param({}, {}, True, State.QUEUED, id="the queue holds its JobSet"),
        pytest.param(BY_KUEUE, {"labels": IN_QUEUE}, True, State.QUEUED, id="the queue holds the TrainJob"),
        pytest.param(
            BY_KUEUE,
            {"labels": IN_QUEUE, "annotations": GATED},
            True,
            State.SUSPENDED,
            id="the queue holds the TrainJob, which was sent suspended",
        ),
    ],
)
def test_a_job_is_queued_only_if_nobody_has_suspended_it(
    spec: dict[str, Any], metadata: dict[str, Any], jobset: bool | None, state: State
) -> None:
    api = FakeApi()
    manifest = objects.trainjob(**spec)
    job = api.put(f"{objects.JOBS}/tj", {**manifest, "metadata": {**manifest["metadata"], **metadata}})
    if jobset is not None:
        its = objects.jobset(owner=job["metadata"]["uid"], spec={"suspend": jobset, "replicatedJobs": []})
        api.put(f"{objects.JOBSETS}/tj", its)
    assert [found.state for found in seen(api).jobs] == [state]


@pytest.mark.parametrize(
    ("word", "state", "started"),
    [
        ("Running", State.RUNNING, True),
        ("Starting", State.RUNNING, True),
        ("Queued", State.QUEUED, True),
        ("Pending", State.QUEUED, False),
    ],
)
def test_without_the_right_to_list_jobsets_the_state_that_the_operator_reports_counts(
    word: str, state: State, started: bool
) -> None:
    api = FakeApi()
    api.put(f"{objects.JOBS}/tj", {**objects.trainjob(), "status": {"trainyard": {"state": word}}})
    api.refuse_next("GET", "/jobsets", status(403, "Forbidden"))
    its = seen(api)
    assert [(job.state, job.started) for job in its.jobs] == [(state, started)]
    assert its.unseen == {"jobsets.jobset.x-k8s.io": "you are not allowed to list them"}


def test_a_jobset_that_was_seen_counts_also_if_the_rest_of_them_was_not() -> None:
    class FirstPage(FakeApi):
        async def _get(self, request: web.Request, body: Any) -> web.Response:
            if request.path.endswith("/jobsets") and "continue" in request.query:
                return web.json_response(status(403, "Forbidden"), status=403)
            return await super()._get(request, body)

    api = FirstPage()
    api.page_size = 1
    for name in ("tj", "other"):
        job = objects.trainjob()
        job["metadata"] |= {"name": name, "uid": name}
        api.put(f"{objects.JOBS}/{name}", {**job, "status": {"trainyard": {"state": "Blocked"}}})
        jobset = objects.jobset(owner=name, spec={"suspend": True, "replicatedJobs": []})
        jobset["metadata"]["name"] = name
        api.put(f"{objects.JOBSETS}/{name}", jobset)
    assert [(job.name, job.started) for job in seen(api).jobs] == [("tj", True), ("other", False)]


@pytest.mark.parametrize(
    ("manager", "admitted", "state"),
    [
        pytest.param(names.MANAGED_BY_MULTIKUEUE, "True", State.RUNNING, id="in a worker cluster"),
        pytest.param(names.MANAGED_BY_MULTIKUEUE, "False", State.QUEUED, id="in no worker cluster yet"),
        pytest.param(names.MANAGED_BY_TRAINER, "True", State.QUEUED, id="here, and it has no JobSet yet"),
    ],
)
def test_a_job_that_multikueue_runs_in_a_worker_cluster_runs(
    manager: str, admitted: str, state: State
) -> None:
    api = FakeApi()
    manifest = objects.trainjob(managedBy=manager, suspend=False)
    job = api.put(f"{objects.JOBS}/tj", manifest)
    its = kueues.workload("tj", conditions=[{"type": "Admitted", "status": admitted}])
    its["metadata"]["labels"] = {names.JOB_UID_LABEL: job["metadata"]["uid"]}
    api.put(WORKLOADS.path("team", its["metadata"]["name"]), its)
    assert [found.state for found in seen(api).jobs] == [state]
