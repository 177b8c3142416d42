"""TrainJobs in queues, and what Kueue says of them."""

from tests.support.cluster import Cluster, Object, trainjob
from tests.support.patience import eventually


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
