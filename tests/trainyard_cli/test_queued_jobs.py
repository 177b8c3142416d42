"""Jobs in queues that would no longer hold them."""

from typing import Any

import pytest

from tests.support.fake_api import FakeApi, run
from trainyard_cli.cluster import queued_jobs
from trainyard_platform.parts.kueue.settings import Integration

TRAINJOB, JOBSET = "trainer.kubeflow.org/trainjob", "jobset.x-k8s.io/jobset"


def workload(kind: str, name: str, *, finished: bool = False) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{kind.lower()}-{name}",
            "namespace": "team",
            "ownerReferences": [{"kind": kind, "name": name}],
        },
        "status": {"conditions": [{"type": "Finished", "status": str(finished)}]},
    }


def refused(integrations: list[str], *workloads: dict[str, Any]) -> list[str]:
    api = FakeApi()
    for manifest in workloads:
        api.put(
            f"/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/{manifest['metadata']['name']}", manifest
        )

    async def test() -> list[str]:
        async with api.client() as client:
            return await queued_jobs.refused(client, [Integration(kind) for kind in integrations])

    return run(test)


@pytest.mark.parametrize(
    ("integrations", "jobs"),
    [
        ([JOBSET], "team/old"),
        ([TRAINJOB], "team/new"),
        ([TRAINJOB, JOBSET], None),
    ],
)
def test_a_stack_keeps_what_its_queues_hold_while_jobs_are_in_them(
    integrations: list[str], jobs: str | None
) -> None:
    ended = (workload("TrainJob", "done", finished=True), workload("JobSet", "over", finished=True))
    assert refused(integrations, *ended) == []
    said = (
        "refused: Kueue would no longer look at these jobs, and their quota would stay taken: "
        f"{jobs}. Wait until they have ended or delete them, or keep what Kueue queues now: "
        f"kueue.integrations: [{JOBSET if TRAINJOB in integrations else TRAINJOB}] in the stack file"
    )
    open_ones = (workload("TrainJob", "old"), workload("JobSet", "new"))
    assert refused(integrations, *ended, *open_ones) == ([said] if jobs else [])
