"""TrainJobs in queues, and what Kueue says of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.cluster import OPERATOR, UNTIL_TOLD, Cluster, Object, emptied, finish, shows, trainjob
from tests.support.patience import eventually
from trainyard_platform.parts.queues import manifests as queue_manifests
from trainyard_platform.stack.queues import Queues

GATES = "kueue.x-k8s.io/admission-gated-by"


def queued(name: str, cpu: str, script: str = "true", *, priority: str | None = None) -> Object:
    """A TrainJob of one node; a tenant's namespace puts it into its queue."""
    job = trainjob(name, script)
    job["metadata"] = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "default"}}
    if priority:
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    job["spec"]["trainer"]["resourcesPerNode"] = {"requests": {"cpu": cpu}}
    return job


def workload(cluster: Cluster, job: str) -> Object:
    """The Workload that Kueue has made of a TrainJob."""

    def ask() -> Object | None:
        found = [w for w in cluster.list("workloads") if w["metadata"]["ownerReferences"][0]["name"] == job]
        return found[0] if found else None

    found: Object = eventually(f"{job} has a Workload", ask)
    return found


def said(cluster: Cluster, job: str, kind: str, status: str = "True") -> Object:
    """The condition of a job's Workload, once it has that status."""

    def ask() -> Object | None:
        conditions = workload(cluster, job).get("status", {}).get("conditions", [])
        return next((c for c in conditions if (c["type"], c["status"]) == (kind, status)), None)

    found: Object = eventually(f"the Workload of {job} has {kind}={status}", ask)
    return found


def evictions(cluster: Cluster, job: str) -> list[str]:
    """Why a job's Workload was evicted, once it was: its condition says so until it is admitted again."""

    def ask() -> list[str]:
        status = workload(cluster, job).get("status", {})
        return [one["reason"] for one in status.get("schedulingStats", {}).get("evictions", [])]

    found: list[str] = eventually(f"the Workload of {job} is evicted", ask)
    return found


def running(cluster: Cluster, job: str) -> Object:
    """The job's one pod, once it runs."""

    def ask() -> Object | None:
        return next((p for p in cluster.pods(job) if p["status"].get("phase") == "Running"), None)

    found: Object = eventually(f"{job} runs", ask)
    return found


def suspend(cluster: Cluster, job: str, suspended: bool) -> None:
    """Set a job's `spec.suspend`."""
    patch = f'{{"spec":{{"suspend":{str(suspended).lower()}}}}}'
    cluster.kubectl("patch", "trainjob", job, "--type=merge", "-p", patch)


def stays_without_pods(cluster: Cluster, job: str, beside: Cluster, runs: str, seconds: float = 10) -> None:
    """For a while a job has no pod, while another one runs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert cluster.pods(job) == []
        [pod] = beside.pods(runs)
        assert pod["status"]["phase"] == "Running", pod["status"]
        time.sleep(1)


def waits_until_it_is_resumed(team_a: Cluster, gate_on: str) -> None:
    """A job that is sent suspended waits with free quota; `gate_on` is the kind of what its queue holds."""
    late = queued("late", "100m", UNTIL_TOLD)
    late["spec"]["suspend"] = True
    team_a.apply(late)
    beside = queued("beside", "100m", UNTIL_TOLD)
    team_a.apply(beside)
    other = running(team_a, "beside")
    stays_without_pods(team_a, "late", team_a, "beside")
    shows(team_a, "late", STATE="Suspended", NODES="0/1", REASON="Suspended", QUEUE="default")
    shows(team_a, "beside", STATE="Running", NODES="1/1", REASON="", QUEUE="default")
    told = team_a.run("trainyard", "explain", "late", "-n", "team-a", check=False).stdout
    assert "SentSuspended" in told, told
    assert "LocalQueue default does not admit it before it is resumed" in told
    resume = next(line for line in told.splitlines() if "kubectl patch" in line).partition("kubectl ")[2]
    team_a.run("sh", "-c", f"kubectl {resume}")
    pod = running(team_a, "late")
    assert GATES not in team_a.get(gate_on, "late")["metadata"].get("annotations", {})
    for one in (pod, other):
        finish(team_a, one)
    team_a.wait_for_condition("late", "Complete")
    shows(team_a, "late", STATE="Complete", NODES="", REASON="AllJobsCompleted", QUEUE="default")


def gives_way_and_goes_on(team_a: Cluster, team_b: Cluster, taker: str) -> None:
    """A high priority takes the quota of a low one; `taker` is what Kueue calls who took it."""
    # Nothing can be borrowed: a share of one's own is what there is to preempt for.
    team_b.apply(queued("fills", "500m", UNTIL_TOLD))
    running(team_b, "fills")
    team_a.apply(queued("low", "500m", UNTIL_TOLD, priority="low"))
    first = running(team_a, "low")
    team_a.apply(queued("high", "500m", UNTIL_TOLD, priority="high"))
    high = running(team_a, "high")
    assert evictions(team_a, "low") == ["Preempted"]
    eventually("its pod is gone", lambda: team_a.pods("low") == [])
    stays_without_pods(team_a, "low", team_a, "high")
    told = team_a.run("trainyard", "explain", "low", "-n", "team-a", check=False).stdout
    assert f"Preempted to accommodate {taker} team-a/high due to prioritization" in told, told
    finish(team_a, high)
    team_a.wait_for_condition("high", "Complete")
    second = running(team_a, "low")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    finish(team_a, second)
    team_a.wait_for_condition("low", "Complete")


def flavor(label: str, toleration: str) -> Object:
    """A flavor that the sandbox's node has, and that pods can be told by."""
    return {
        "nodeLabels": {label: {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}[label]},
        "tolerations": [{"key": toleration, "operator": "Exists"}],
    }


@contextmanager
def two_flavors(platform: Cluster) -> Iterator[Cluster]:
    """A namespace whose queue has two flavors, and preempts on the first before it tries the second."""
    quota = {"cpu": {"nominal": "400m"}, "memory": {"nominal": "1Gi"}}
    flavors = {
        "flavor-a": flavor("kubernetes.io/os", "only-a"),
        "flavor-b": flavor("kubernetes.io/arch", "only-b"),
    }
    queue = {
        "resourceGroups": [{"flavors": [{"name": name, "resources": quota} for name in flavors]}],
        "flavorFungibility": {"whenCanPreempt": "MayStopSearch"},
    }
    name = "moves"
    door = {"name": "default", "namespace": name, "clusterQueue": name}
    settings = {"flavors": flavors, "clusterQueues": {name: queue}, "localQueues": [door]}
    labels = {"trainyard.dev/tenant": name}
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    platform.apply(*queue_manifests.manifests(Queues.model_validate(settings)))
    yield from emptied(platform.within(name))
    # It is called a tenant's, and has no quota as tenants have.
    platform.kubectl("delete", "namespace", name)


A = ({"kubernetes.io/os": "linux"}, ["only-a"])
B = ({"kubernetes.io/arch": "amd64"}, ["only-b"])


def placement(pod: Object) -> tuple[Any, list[str]]:
    """The node selector of a pod, and what it tolerates of what a flavor may say."""
    tolerated = [one["key"] for one in pod["spec"]["tolerations"]]
    return pod["spec"].get("nodeSelector"), [key for key in tolerated if key.startswith("only-")]


def moves_to_another_flavor(mover: Cluster) -> None:
    """Its JobSet stays, with whatever volumes it has; the Jobs that were on the first flavor are made anew.

    JobSet 0.12 by itself would add the second flavor's placement to what the Jobs have.
    """
    mover.apply(queued("moves", "400m", UNTIL_TOLD, priority="low"))
    before = running(mover, "moves")
    assert placement(before) == A
    jobset = mover.get("jobset", "moves")
    assert jobset is not None
    mover.apply(queued("displaces", "400m", UNTIL_TOLD, priority="high"))
    assert evictions(mover, "moves") == ["Preempted"]
    gone = before["metadata"]["uid"]
    eventually("its pod on A is gone", lambda: all(p["metadata"]["uid"] != gone for p in mover.pods("moves")))
    after = running(mover, "moves")
    assert placement(after) == B
    assert placement(running(mover, "displaces")) == A
    moved = mover.get("jobset", "moves")
    assert moved is not None
    assert moved["metadata"]["uid"] == jobset["metadata"]["uid"]
    assert moved["status"].get("restarts", 0) == 0
    finish(mover, after)
    mover.wait_for_condition("moves", "Complete")
    # Who was never moved kept its Job.
    assert set(mover.audited_writes(OPERATOR, "moves-node-0")) == {"delete jobs"}
    assert set(mover.audited_writes(OPERATOR, "displaces-node-0")) == set()
