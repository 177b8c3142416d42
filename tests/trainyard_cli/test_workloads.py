"""What each TrainJob of a cluster hangs on, as `trainyard impact` sees it."""

from typing import Any

from tests.support import objects
from tests.support.fake_api import FakeApi, run
from trainyard_cli.cluster.workloads import Seen, look
from trainyard_platform.impact import Job, Ref, State


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
