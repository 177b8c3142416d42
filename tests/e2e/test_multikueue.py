"""MultiKueue: a TrainJob waits in one cluster, runs in another, and says in the first what became of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, finish, sandbox_of_its_own, trainjob
from tests.support.patience import LEARNED, eventually

from .network import way_to

pytestmark = pytest.mark.soak  # two sandboxes more, with a platform each


def up(cluster: Cluster, folder: Path, *, checks: list[str], **multi_kueue: Any) -> None:
    """The platform of the sandbox's stack, with these settings and without what has no part in it."""
    environment = cluster.sandbox.environment()
    document = yaml.safe_load(Path(environment["PULUMI_OPTION_CONFIG_FILE"]).read_text())
    settings = document["config"]["trainyard:platform"]
    for part in ("volcano", "coscheduling", "observability"):
        settings[part]["enabled"] = False
    settings["queues"]["multiKueue"] = multi_kueue
    settings["queues"]["clusterQueues"]["team-a"]["admissionChecks"] = [{"name": name} for name in checks]
    file = folder / f"Pulumi.{cluster.name}.yaml"
    file.write_text(yaml.safe_dump(document))
    command = ("pulumi", "up", "--stack", "sandbox", "--yes", "--skip-preview", "--non-interactive")
    cluster.run("env", f"PULUMI_OPTION_CONFIG_FILE={file}", *command)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """A manager, and the worker that it sends the jobs of `team-a` to."""
    folder = tmp_path_factory.mktemp("stacks")
    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            ups = [pool.submit(stack.enter_context, sandbox_of_its_own(n)) for n in ("manager", "worker")]
            manager, worker = [one.result() for one in ups]
        up(worker, folder, checks=[], acceptsJobs=True)
        up(
            manager,
            folder,
            checks=["elsewhere"],
            workers={"worker": {"kubeconfigSecret": "worker-kubeconfig"}},
            dispatch={"elsewhere": {"workers": ["worker"]}},
        )
        server = stack.enter_context(way_to(worker, manager))
        kubeconfig = worker.run("examples/multikueue/kubeconfig.sh", server).stdout
        secret = ("secret", "generic", "worker-kubeconfig", "--namespace=kueue-system")
        manager.kubectl("create", *secret, "--from-file=kubeconfig=/dev/stdin", stdin=kubeconfig)
        # After a first roll-out, Kubernetes counts new kinds within five minutes. It refuses them until then.
        eventually("the worker counts Workloads", lambda: _counts_workloads(worker), within=LEARNED)
        yield manager, worker


def test_a_job_runs_in_the_worker_and_its_status_comes_back(clusters: tuple[Cluster, Cluster]) -> None:
    manager, worker = (cluster.within("team-a") for cluster in clusters)
    manager.wait("clusterqueue/team-a", condition="condition=Active")
    manager.apply(trainjob("far", UNTIL_TOLD))
    [pod] = eventually("it runs in the worker", lambda: _running(worker, "far"))
    status = eventually("the manager sees it run", lambda: _jobs_status(manager, "far"))
    assert [(one["name"], one["active"]) for one in status] == [("node", 1)]
    explained = manager.run("trainyard", "explain", "far", "--namespace", "team-a", check=False).stdout
    assert "runs in the cluster worker" in explained
    finish(worker, pod)
    manager.wait_for_condition("far", "Complete")
    assert manager.list("jobsets") == manager.list("pods") == []
    eventually("what ran there is removed", lambda: worker.list("trainjobs") == [])


def test_a_job_that_is_deleted_in_the_manager_goes_in_the_worker(clusters: tuple[Cluster, Cluster]) -> None:
    manager, worker = (cluster.within("team-a") for cluster in clusters)
    manager.apply(trainjob("given-up", UNTIL_TOLD))
    eventually("it runs in the worker", lambda: _running(worker, "given-up"))
    manager.kubectl("delete", "trainjob", "given-up", "--wait")
    eventually("nothing of it is left there", lambda: worker.list("trainjobs") == worker.list("pods") == [])


def _counts_workloads(cluster: Cluster) -> bool:
    quota = cluster.within("team-a").get("resourcequota", "tenant") or {}
    return "count/workloads.kueue.x-k8s.io" in quota.get("status", {}).get("used", {})


def _running(cluster: Cluster, job: str) -> list[Any]:
    return [pod for pod in cluster.pods(job) if pod["status"]["phase"] == "Running"]


def _jobs_status(cluster: Cluster, job: str) -> list[Any]:
    found = (cluster.get("trainjob", job) or {}).get("status", {}).get("jobsStatus", [])
    return [one for one in found if one.get("active")]
