"""Values that the tests of the core are made of; each keeps to what its test is not about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from trainyard_api.json_types import Json
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.model import (
    JobSet,
    Observed,
    ReplicatedJobStatus,
    Runtime,
    RuntimeProblem,
    TrainJob,
)

Object = dict[str, Any]

T0 = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
JOB_UID = "job-uid"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def replicated_job(
    name: str = "node", ancestor: str | None = "trainer", containers: list[Object] | None = None, **spec: Any
) -> Object:
    metadata: Object = (
        {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor}} if ancestor else {}
    )
    pod = {"containers": containers or [{"name": "node", "image": "img"}]}
    return {
        "name": name,
        "groupName": "default",
        "replicas": 1,
        "template": {"metadata": metadata, "spec": {"template": {"spec": pod}, **spec}},
    }


def runtime(ml_policy: Object | None = None, jobs: list[Object] | None = None, **template: Any) -> Runtime:
    spec: Object = {"template": {**template, "spec": {"replicatedJobs": jobs or [replicated_job()]}}}
    if ml_policy is not None:
        spec["mlPolicy"] = ml_policy
    return Runtime(kind="ClusterTrainingRuntime", name="rt", namespace=None, uid="rt-uid", spec=spec)


PLAIN = runtime({"numNodes": 1})


def trainjob(spec: Json | None = None, status: Json | None = None, **others: Any) -> TrainJob:
    job = TrainJob(
        namespace="team",
        name="tj",
        uid=JOB_UID,
        resource_version="7",
        created=T0,
        spec={"runtimeRef": {"name": "rt"}, **(spec or {})},
        status=status or {},
    )
    return replace(job, **others)


def jobset(**fields: Any) -> JobSet:
    values: Object = {
        "namespace": "team",
        "name": "tj",
        "uid": "js-uid",
        "resource_version": "9",
        "owner_uid": JOB_UID,
        "suspend": False,
    }
    return JobSet(**{**values, **fields})


def counts(name: str = "node", **fields: Any) -> ReplicatedJobStatus:
    return ReplicatedJobStatus(name, **fields)


def observed(
    job: TrainJob | None = None, js: JobSet | None = None, rt: Runtime | RuntimeProblem = PLAIN, **fields: Any
) -> Observed:
    """What was observed of a TrainJob; by default nobody has found anything beside its JobSet."""
    return Observed(trainjob=job or trainjob(), runtime=rt, jobset=js, **{"companions": (), **fields})


def built(job: TrainJob, rt: Runtime) -> Object:
    """The JobSet that the framework builds."""
    return next(dict(m) for m in plugins.ALL.build(job, rt, DEFAULT_SETTINGS) if m["kind"] == "JobSet")


def containers(job: TrainJob, rt: Runtime, replicated: str = "node") -> dict[str, Object]:
    """The containers by name, init containers included, of one ReplicatedJob of the JobSet."""
    jobs = {
        j["name"]: j["template"]["spec"]["template"]["spec"] for j in built(job, rt)["spec"]["replicatedJobs"]
    }
    pods = jobs[replicated]
    return {c["name"]: c for c in [*pods.get("initContainers", []), *pods.get("containers", [])]}
