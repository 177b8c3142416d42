"""Jobs in queues that would no longer hold them."""

from functools import partial
from typing import Any

import pytest

from tests.support.fake_api import FakeApi, run, status
from tests.support.program import ROOT
from trainyard_cli.cluster import connection, queued_jobs
from trainyard_kube.credentials import Credentials
from trainyard_platform.stack.kueue import Integration
from trainyard_platform.stack.settings import StackSettings

TRAINJOB, JOBSET = "trainer.kubeflow.org/trainjob", "jobset.x-k8s.io/jobset"


JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"


def workload(kind: str, name: str, **conditions: bool) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{kind.lower()}-{name}",
            "namespace": "team",
            "ownerReferences": [{"kind": kind, "name": name}],
        },
        "status": {"conditions": [{"type": kind, "status": str(told)} for kind, told in conditions.items()]},
    }


ENDED = (workload("TrainJob", "done", Finished=True), workload("JobSet", "over", Finished=True))
OPEN = (
    workload("TrainJob", "old", Finished=False, QuotaReserved=True),
    workload("TrainJob", "older"),
    workload("JobSet", "new", QuotaReserved=True),
    workload("JobSet", "newer", QuotaReserved=False),
    workload("JobSet", "alone", QuotaReserved=True),
)


BINDING = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
    "queued-jobs-wait.policy.trainyard.dev"
)
CLOSE = (
    "kubectl get namespaces -l trainyard.dev/tenant -o jsonpath='{.items[*].metadata.name}' | xargs -n1 "
    "kubectl patch resourcequota tenant --type=merge -p "
    """'{"spec":{"hard":{"count/trainjobs.trainer.kubeflow.org":"0"}}}' -n"""
)


def cluster(*workloads: dict[str, Any]) -> FakeApi:
    """An API server with these Workloads; the JobSet `alone` is no TrainJob's."""
    api = FakeApi()
    for manifest in workloads:
        api.put(
            f"/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/{manifest['metadata']['name']}", manifest
        )
    for name in ("new", "newer"):
        api.put(f"{JOBSETS}/{name}", {"metadata": {"ownerReferences": [{"kind": "TrainJob", "name": name}]}})
    api.put(f"{JOBSETS}/alone", {})
    return api


def refused(
    integrations: list[str], *workloads: dict[str, Any], installs: bool = True
) -> tuple[list[str], FakeApi]:
    """The refusals of a stack with Kueue."""
    api = cluster(*workloads)

    async def test() -> list[str]:
        async with api.client() as client:
            kinds = [Integration(kind) for kind in integrations]
            return await queued_jobs.refused(client, kinds, installs=installs)

    return run(test), api


def refused_without_kueue(api: FakeApi) -> list[str]:
    """The refusals of a stack without Kueue."""

    async def test() -> list[str]:
        async with api.client() as client:
            return await queued_jobs.refused_without_kueue(client)

    return run(test)


HELD_TRAINJOBS = "With quota: team/old. Waiting: team/older"
HELD_JOBSETS = "With quota: team/new. Waiting: team/newer"


@pytest.mark.parametrize(
    ("integrations", "installs", "jobs"),
    [
        pytest.param([JOBSET], True, HELD_TRAINJOBS, id="from TrainJobs to JobSets"),
        pytest.param([JOBSET, "batch/job"], False, HELD_TRAINJOBS, id="the same of a Kueue that is there"),
        pytest.param(
            [TRAINJOB],
            True,
            "With quota: team/alone, team/new. Waiting: team/newer",
            id="no JobSets any more",
        ),
        pytest.param([TRAINJOB, JOBSET], True, HELD_JOBSETS, id="JobSets only of people"),
        pytest.param(
            [TRAINJOB], False, HELD_JOBSETS, id="a Kueue that is there, whoever says what it queues"
        ),
    ],
)
def test_a_stack_keeps_what_its_queues_hold_while_jobs_are_in_them(
    integrations: list[str], installs: bool, jobs: str
) -> None:
    now, then, way = ("TrainJob", "JobSet", TRAINJOB) if "old" in jobs else ("JobSet", "TrainJob", JOBSET)
    said, _ = refused(integrations, *ENDED, *OPEN, installs=installs)
    assert said == [
        f"refused: the queues hold {now}s, and would hold {then}s: Kueue would stop the jobs that are in "
        f"them, or keep their quota forever. {jobs}",
        f"To leave it as it is, say in the stack file: kueue.integrations: [{way}]",
        "To change it, let these jobs end, or delete them. So that no new ones come meanwhile, run this; "
        f"make up then gives the tenants their quota back: {CLOSE}",
    ]
    assert refused(integrations, *ENDED, installs=installs)[0] == []


@pytest.mark.parametrize("integrations", [[JOBSET], [TRAINJOB], [TRAINJOB, JOBSET]])
def test_a_stack_that_changes_nothing_about_its_queues_is_not_refused(integrations: list[str]) -> None:
    held = [one for one in OPEN if ("TrainJob" in str(one)) == (TRAINJOB in integrations)]
    mine = [*held, OPEN[-1]] if JOBSET in integrations else held
    assert refused(integrations, *mine)[0] == []


def test_jobsets_are_looked_at_only_if_a_queue_holds_some() -> None:
    said, api = refused([TRAINJOB, JOBSET], *OPEN[:2])
    assert (said, api.requests) == ([], [("GET", "/apis/kueue.x-k8s.io/v1beta2/workloads")])


@pytest.mark.parametrize(
    ("had_kueue", "jobs"),
    [
        pytest.param(
            True, "With quota: team/new, team/old. Waiting: team/newer, team/older", id="a Kueue of the stack"
        ),
        pytest.param(False, HELD_JOBSETS, id="another Kueue, which keeps its TrainJobs"),
    ],
)
def test_a_stack_keeps_kueue_while_trainjobs_are_in_its_queues(had_kueue: bool, jobs: str) -> None:
    api = cluster(*ENDED, *OPEN, workload("Job", "batch"))
    if had_kueue:
        api.put(BINDING, {})
    assert refused_without_kueue(api) == [
        "refused: the stack file disables Kueue, and jobs are in the queues: those that wait would start "
        f"without quota, or never. {jobs}",
        "To keep Kueue, say in the stack file: kueue.enabled: true",
        "To disable it, let these jobs end, or delete them. So that no new ones come meanwhile, run this: "
        f"{CLOSE}",
    ]


@pytest.mark.parametrize(
    "workloads", [(), ENDED, (workload("TrainJob", "other"), OPEN[-1], workload("Job", "batch"))]
)
def test_a_stack_without_kueue_is_not_refused_for_jobs_that_it_never_queued(
    workloads: tuple[dict[str, Any], ...],
) -> None:
    assert refused_without_kueue(cluster(*workloads)) == []


def test_a_cluster_that_does_not_know_kueue_has_no_jobs_in_queues() -> None:
    api = FakeApi()
    api.refuse_next("GET", "/workloads", status(404, "NotFound"))
    assert refused_without_kueue(api) == []


def test_a_stack_without_kueue_is_compared_with_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = StackSettings.model_validate({"operator": {"image": "example.com/operator:1"}})
    monkeypatch.setattr(connection, "ask", lambda _credentials, _command, question: [question.__name__])
    connect = partial(Credentials, "http://127.0.0.1:1", None)
    assert queued_jobs.refusals(stack, connect) == ["refused_without_kueue"]


def test_the_command_that_lets_no_new_jobs_come_acts_on_the_cluster_of_the_stack() -> None:
    assert queued_jobs.close(("--context", "lab")) == (
        "kubectl --context lab get namespaces -l trainyard.dev/tenant -o "
        "jsonpath='{.items[*].metadata.name}' | xargs -n1 kubectl --context lab patch resourcequota tenant "
        """--type=merge -p '{"spec":{"hard":{"count/trainjobs.trainer.kubeflow.org":"0"}}}' -n"""
    )


def test_the_guide_has_the_command_that_lets_no_new_jobs_come() -> None:
    assert f"$ {queued_jobs.close()}\n" in (ROOT / "docs" / "queues-and-tenants.md").read_text()
