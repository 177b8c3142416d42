"""The Jobs of a JobSet are read when they are asked for, its own alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.core_values import jobset
from tests.support.fake_api import FakeApi, run, status
from trainyard_api.reasons import Reason
from trainyard_operator.core import model
from trainyard_operator.work.apply import RefusedError
from trainyard_operator.work.jobs import Jobs

PATH = "/apis/batch/v1/namespaces/team/jobs"


def job(owner: str = "js-uid", annotations: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    owners = [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "uid": owner, "controller": True}]
    template = {"metadata": {"annotations": annotations} if annotations else {}, "spec": {}}
    return {
        "metadata": {"ownerReferences": owners, **fields.pop("metadata", {})},
        "spec": {"suspend": True, "template": template},
        **fields,
    }


def found(*jobs: dict[str, Any]) -> tuple[model.Job, ...]:
    async def test() -> tuple[model.Job, ...]:
        api = FakeApi()
        for position, manifest in enumerate(jobs):
            api.put(f"{PATH}/job-{position}", manifest)
        async with api.client() as client:
            return await Jobs(client).of(jobset())

    return run(test)


def test_of_its_jobs_it_is_known_what_they_were_made_from_and_whether_they_may_go() -> None:
    stamped = job(annotations={"trainyard.dev/placement": "stamp"}, metadata={"uid": "u"})
    assert found(stamped) == (
        model.Job("team", "job-0", "u", "100", True, 0, False, deleting=False, placement="stamp"),
    )
    busy = job(status={"active": 2}, metadata={"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert found(busy) == (model.Job("team", "job-0", "u", "100", True, 2, False, deleting=True),)


@pytest.mark.parametrize(
    ("kind", "held", "finished"),
    [
        ("Complete", "True", True),
        ("Failed", "True", True),
        ("Failed", "False", False),
        ("Suspended", "True", False),
    ],
)
def test_a_job_that_has_ended_is_told_from_one_that_has_not(kind: str, held: str, finished: bool) -> None:
    (seen,) = found(job(status={"conditions": [{"type": kind, "status": held}]}))
    assert seen.finished is finished


def test_the_jobs_of_another_jobset_are_none_of_its_own() -> None:
    referred = job()
    referred["metadata"]["ownerReferences"][0]["controller"] = False
    assert found(job(owner="another"), {**job(), "metadata": {}}, referred) == ()


def test_jobs_that_may_not_be_listed_are_a_lasting_no() -> None:
    async def test() -> None:
        api = FakeApi()
        api.refuse_next("GET", "/jobs", status(403, "Forbidden", "jobs.batch is forbidden"))
        async with api.client() as client:
            with pytest.raises(RefusedError) as refused:
                await Jobs(client).of(jobset())
        assert refused.value.rejection == model.Rejection(
            Reason.FORBIDDEN, "Job of JobSet tj: jobs.batch is forbidden"
        )

    run(test)
