"""TrainJobs as rows: the state that the operator writes, the place that `explain` tells, in one order."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.checked_in import ROOT
from trainyard_assist.jobs import Row, row, rows
from trainyard_assist.queue_place import QueuePlace, counted_place, counted_places
from trainyard_operator.core.status.display_state import State

CREATED = "2026-01-01T10:00:00Z"


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 1, 1, hour, minute, tzinfo=UTC)


def trainjob(name: str = "tj", state: str = "", created: str = CREATED, **fields: Any) -> dict[str, Any]:
    status = fields.pop("status", {})
    ours = {**({"state": state} if state else {}), **fields.pop("ours", {})}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "creationTimestamp": created,
            **fields.pop("more", {}),
        },
        "spec": fields,
        "status": {**status, **({"trainyard": ours} if ours else {})},
    }


def workload(job: str, queue: str = "default", namespace: str = "team", **fields: Any) -> dict[str, Any]:
    priority, created = fields.pop("priority", 0), fields.pop("created", CREATED)
    owner = {"kind": "JobSet", "name": job}
    return {
        "metadata": {
            "name": f"jobset-{job}",
            "namespace": namespace,
            "creationTimestamp": created,
            "ownerReferences": [owner],
        },
        "spec": {"queueName": queue, "priority": priority, "active": True},
        "status": fields,
    }


def condition(kind: str, when: str = CREATED) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": "x", "lastTransitionTime": when}


def test_a_row_says_what_the_operator_and_the_job_itself_say() -> None:
    report = {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 600,
        "lastUpdatedTime": "2026-01-01T11:00:00Z",
    }
    job = trainjob(
        state="Running",
        ours={"nodes": "2/2", "queue": "default"},
        status={"trainerStatus": report},
        trainer={"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}},
    )
    assert row(job) == Row(
        namespace="team",
        name="tj",
        state="Running",
        created=at(10),
        nodes="2/2",
        queue="default",
        gpus=16,
        progress=42,
        ends=at(11, 10),
    )


@pytest.mark.parametrize(
    ("job", "state"),
    [
        pytest.param(trainjob(), "Pending", id="nothing is known"),
        pytest.param(trainjob(status={"conditions": [condition("Complete")]}), "Complete", id="complete"),
        pytest.param(trainjob(status={"conditions": [condition("Suspended")]}), "Suspended", id="suspended"),
        pytest.param(
            trainjob(
                status={"conditions": [condition("Suspended")]},
                more={"labels": {"kueue.x-k8s.io/queue-name": "default"}},
                runtimePatches=[{"manager": "kueue.x-k8s.io/manager"}],
            ),
            "Queued",
            id="Kueue holds it",
        ),
        pytest.param(
            trainjob(status={"jobsStatus": [{"name": "node", "active": 1, "ready": 1}]}), "Running", id="runs"
        ),
        pytest.param(trainjob(state="Hib\x1b[2Jernated"), "Hibernated", id="a word that is not ours"),
    ],
)
def test_without_the_operators_word_it_is_made_of_the_status_as_the_operator_does(
    job: dict[str, Any], state: str
) -> None:
    assert row(job).state == state


@pytest.mark.parametrize(
    ("job", "of", "gpus"),
    [
        pytest.param(trainjob(trainer={"numNodes": 2}), None, None, id="nobody says"),
        pytest.param(
            trainjob(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}}, ours={"nodes": "0/3"}),
            None,
            12,
            id="of all nodes that it wants",
        ),
        pytest.param(
            trainjob(
                trainer={"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}},
                ours={"nodes": "6/6"},
                status={"jobsStatus": [{"name": "chief"}, {"name": "ps"}, {"name": "node"}]},
            ),
            None,
            4,
            id="of the nodes that it asks for, without chief and parameter server",
        ),
        pytest.param(
            trainjob(
                trainer={"numNodes": 1, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}},
                ours={"nodes": "2/2"},
                status={"jobsStatus": [{"name": "node"}, {"name": "launcher"}]},
            ),
            None,
            8,
            id="of the launcher too",
        ),
        pytest.param(
            trainjob(),
            workload("tj", admission={"podSetAssignments": [{"resourceUsage": {"amd.com/gpu": "16"}}]}),
            16,
            id="what its Workload has got",
        ),
        pytest.param(
            trainjob(),
            workload(
                "tj", resourceRequests=[{"resources": {"nvidia.com/gpu": "8"}}, {"resources": {"cpu": "1"}}]
            ),
            8,
            id="what its Workload waits for",
        ),
        pytest.param(trainjob(), workload("tj"), None, id="a Workload that nobody has looked at"),
        pytest.param(
            trainjob(trainer={"numNodes": 1, "resourcesPerNode": {"limits": {"x/gpu": "many"}}}),
            None,
            None,
            id="no quantity",
        ),
    ],
)
def test_gpus_are_those_of_all_nodes(job: dict[str, Any], of: Any, gpus: int | None) -> None:
    assert row(job, of).gpus == gpus


def test_what_runs_comes_first_then_what_waits_by_its_place_then_what_has_ended() -> None:
    jobs = [
        trainjob("done", "Complete", status={"conditions": [condition("Complete", "2026-01-01T10:30:00Z")]}),
        trainjob("lost", "Failed", status={"conditions": [condition("Failed", "2026-01-01T10:40:00Z")]}),
        trainjob("blocked", "Blocked"),
        trainjob("third", "Queued"),
        trainjob("first", "Queued", created="2026-01-01T11:00:00Z"),
        trainjob("unknown", "Queued"),
        trainjob("young", "Starting", created="2026-01-01T12:00:00Z"),
        trainjob("old", "Running"),
    ]
    waiting = [workload("third"), workload("first", priority=1000), workload("other", namespace="more")]
    queues = [
        {"metadata": {"name": "default", "namespace": namespace}, "spec": {"clusterQueue": "gpus"}}
        for namespace in ("team", "more")
    ]
    places = counted_places(waiting, queues, partial=False)
    listed = rows([(job, row(job)) for job in jobs], waiting, places)
    assert [found.name for found in listed] == [
        "old",
        "young",
        "first",
        "third",
        "unknown",
        "blocked",
        "lost",
        "done",
    ]
    behind = ("team/first", "more/other")
    assert [found.place for found in listed if found.place] == [
        QueuePlace(1, "ClusterQueue gpus", total=3),
        QueuePlace(3, "ClusterQueue gpus", before=behind, total=3),
    ]
    assert [found.ended for found in listed[-2:]] == [at(10, 40), at(10, 30)]


def test_a_place_of_many_is_the_one_that_explain_counts() -> None:
    times = [f"2026-01-01T10:00:{second:02}Z" for second in range(20)]
    waiting = [
        workload(f"w{number}", f"q{number % 3}", priority=number % 2, created=time)
        for number, time in enumerate(times)
    ]
    waiting[3]["spec"]["active"] = False
    waiting[4]["status"] = {"conditions": [condition("QuotaReserved")]}
    queues = [
        {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": "gpus"}}
        for name in ("q0", "q1")
    ]
    places = counted_places(waiting, queues, partial=True)
    assert {("team", f"jobset-w{number}") for number in (3, 4)} & places.keys() == set()
    assert len(places) == 18
    for found in waiting:
        if (place := places.get(("team", found["metadata"]["name"]))) is not None:
            alone = counted_place(found, waiting, queues, partial=True)
            assert (place.position, place.queue, place.before) == (alone.position, alone.queue, alone.before)


def test_a_workload_that_has_finished_or_of_another_kind_is_nobodys() -> None:
    finished = workload("tj", conditions=[condition("Finished")])
    batch = workload("tj")
    batch["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "tj"}]
    queued = trainjob(state="Queued")
    place = {("team", "jobset-tj"): QueuePlace(1, "q")}
    assert rows([(queued, row(queued))], [finished, batch], place) == [
        Row(namespace="team", name="tj", state="Queued", created=at(10))
    ]


def test_a_trainjob_of_which_everything_is_missing_has_a_row() -> None:
    assert row({}).state == "Pending"
    junk = {"metadata": {"labels": 7}, "spec": [], "status": {"trainyard": "x", "trainerStatus": [1]}}
    assert row(junk).state == "Pending"


def test_the_page_about_states_has_each_of_them() -> None:
    page = (ROOT / "docs/explain.md").read_text()
    _, _, rest = page.partition("| state | meaning |\n|---|---|\n")
    table, _, _ = rest.partition("\n\n")
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(State)
