"""Whether a TrainJob may be cancelled, suspended or resumed, and what is said to be lost."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from trainyard_assist import stops
from trainyard_assist.stops import Answer, Outcome, Seen

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
QUEUE = "kueue.x-k8s.io/queue-name"
GATES = {"kueue.x-k8s.io/admission-gated-by": "trainyard.dev/sent-suspended"}
KUEUES = [{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {}}]


def seen(
    state: str = "Running",
    *,
    suspend: bool = False,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    patches: list[Any] | None = None,
    jobset: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    deleting: bool = False,
    unseen: str = "",
) -> Seen:
    ours = {"state": state, "nodes": "2/2"} | ({"queue": labels[QUEUE]} if labels else {})
    metadata: dict[str, Any] = {
        "name": "hello",
        "namespace": "team",
        "uid": "u",
        "creationTimestamp": "2026-01-01T08:00:00Z",
    }
    metadata |= {"labels": labels or {}, "annotations": annotations or {}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T11:00:00Z"
    return Seen(
        {
            "metadata": metadata,
            "spec": {"suspend": suspend, "runtimePatches": patches or []},
            "status": {"trainyard": ours, **(status or {})},
        },
        jobset,
        NOW,
        unseen,
    )


def jobset(*, suspend: bool = False, queue: str = "", resumed: str = "", **spec: Any) -> dict[str, Any]:
    condition = {"type": "Suspended", "status": "False", "lastTransitionTime": resumed}
    return {
        "metadata": {"creationTimestamp": "2026-01-01T08:00:00Z", "labels": {QUEUE: queue} if queue else {}},
        "spec": {"suspend": suspend, **spec},
        "status": {"conditions": [condition] if resumed else []},
    }


def answer(outcome: Outcome, predicate: str) -> Answer:
    return Answer("team", "hello", outcome, f"TrainJob team/hello {predicate}")


IN_QUEUE = {QUEUE: "default"}
OF_OTHERS = {"kueue.x-k8s.io/admission-gated-by": "example.com/budget"}
AGAIN = "to send it again: trainyard retry hello -n team"


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(seen(), None, id="it runs"),
        pytest.param(seen("Queued", labels=IN_QUEUE), None, id="it waits"),
        pytest.param(
            seen("Complete"),
            answer(
                Outcome.UNCHANGED,
                "is Complete: it has ended, and there is nothing to cancel; "
                "to remove it: kubectl delete trainjob hello -n team",
            ),
            id="it has ended",
        ),
        pytest.param(
            seen(deleting=True), answer(Outcome.UNCHANGED, "is already being deleted"), id="it is going"
        ),
    ],
)
def test_what_has_ended_or_goes_is_not_cancelled(job: Seen, expected: Answer | None) -> None:
    assert stops.not_cancelled(job) == expected


def test_a_command_that_is_named_has_the_options_that_lead_to_the_same_cluster() -> None:
    ended = replace(seen("Complete"), options=("--kubeconfig", "my config", "--context", "lab"))
    assert stops.not_cancelled(ended) == answer(
        Outcome.UNCHANGED,
        "is Complete: it has ended, and there is nothing to cancel; "
        "to remove it: kubectl delete trainjob hello -n team --kubeconfig 'my config' --context lab",
    )


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(seen(), None, id="without a queue"),
        pytest.param(
            seen(labels=IN_QUEUE, jobset=jobset(queue="default")), None, id="the queue holds its JobSet"
        ),
        pytest.param(
            seen(labels=IN_QUEUE, patches=KUEUES, jobset=jobset(queue="default")),
            None,
            id="the queue holds its JobSet, though it was sent when queues held TrainJobs",
        ),
        pytest.param(seen(patches=KUEUES), None, id="Kueue knows it, and it is in no queue"),
        pytest.param(
            seen("Suspended", suspend=True), answer(Outcome.UNCHANGED, "is already suspended"), id="suspended"
        ),
        pytest.param(
            seen("Suspended", suspend=True, labels=IN_QUEUE, patches=KUEUES, annotations=GATES),
            answer(Outcome.UNCHANGED, "is already suspended"),
            id="sent suspended into a queue that holds TrainJobs",
        ),
        *(
            pytest.param(
                seen(state, suspend=suspend, labels=IN_QUEUE, patches=KUEUES, jobset=jobset()),
                answer(
                    Outcome.REFUSED,
                    "cannot be suspended: queue default holds TrainJobs, so only Kueue suspends and resumes "
                    "them; to stop it: trainyard cancel hello -n team",
                ),
                id=f"a queue that holds TrainJobs, {state}",
            )
            for state, suspend in (("Running", False), ("Queued", True))
        ),
        pytest.param(
            seen("Failed"),
            answer(Outcome.REFUSED, f"is Failed: it has ended, and cannot be suspended; {AGAIN}"),
            id="it has ended",
        ),
        pytest.param(
            seen(deleting=True),
            answer(Outcome.REFUSED, "is being deleted, and cannot be suspended"),
            id="it is going",
        ),
    ],
)
def test_who_may_suspend_a_job_depends_on_what_its_queue_holds(job: Seen, expected: Answer | None) -> None:
    assert stops.not_suspended(job) == expected


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(seen("Suspended", suspend=True), None, id="suspended by its user"),
        pytest.param(
            seen("Suspended", suspend=True, labels=IN_QUEUE, jobset=jobset(queue="default", suspend=True)),
            None,
            id="the queue holds its JobSet",
        ),
        pytest.param(
            seen("Suspended", suspend=True, labels=IN_QUEUE, patches=KUEUES, annotations=GATES),
            None,
            id="sent suspended into a queue that holds TrainJobs",
        ),
        pytest.param(
            seen("Queued", suspend=True, labels=IN_QUEUE, patches=KUEUES),
            answer(Outcome.UNCHANGED, "is not suspended: it is Queued"),
            id="Kueue has suspended it",
        ),
        pytest.param(
            seen("Queued", suspend=True, labels=IN_QUEUE, patches=KUEUES, annotations=OF_OTHERS),
            answer(
                Outcome.UNCHANGED,
                "is not suspended: it is Queued, and Kueue admits it once the annotation "
                "kueue.x-k8s.io/admission-gated-by no longer has example.com/budget",
            ),
            id="others keep Kueue from admitting it",
        ),
        pytest.param(seen(), answer(Outcome.UNCHANGED, "is not suspended: it is Running"), id="it runs"),
        pytest.param(
            seen("Running", labels=IN_QUEUE, patches=KUEUES, annotations=OF_OTHERS),
            answer(Outcome.UNCHANGED, "is not suspended: it is Running"),
            id="it runs, whatever keeps it from another admission",
        ),
        pytest.param(
            seen("Complete", suspend=True),
            answer(Outcome.REFUSED, f"is Complete: it has ended, and cannot be resumed; {AGAIN}"),
            id="it has ended",
        ),
    ],
)
def test_what_a_user_has_suspended_can_be_resumed(job: Seen, expected: Answer | None) -> None:
    assert stops.not_resumed(job) == expected


REPORT = {
    "trainerStatus": {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 1200,
        "lastUpdatedTime": "2026-01-01T11:50:00Z",
    }
}
POLICIES = [
    {"templates": [{"metadata": {"name": "checkpoint"}}]},
    {"templates": [{"metadata": {"name": "kept"}}], "retentionPolicy": {"whenDeleted": "Retain"}},
]


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        pytest.param(
            seen(status=REPORT, jobset=jobset(resumed="2026-01-01T09:00:00Z", volumeClaimPolicies=POLICIES)),
            "TrainJob team/hello is Running (for 3 h, 2/2 nodes, 42% done, 10 min to go). Data that it has "
            "not saved outside its pods is lost. Its volume (checkpoint) is deleted, with the checkpoints on "
            "it.",
            id="it runs since its queue let it, reports its progress, and has a volume",
        ),
        pytest.param(
            seen(jobset=jobset()),
            "TrainJob team/hello is Running (for 4 h, 2/2 nodes). Data that it has not saved outside its "
            "pods is lost.",
            id="it has run from the beginning",
        ),
        pytest.param(
            seen("Queued", labels=IN_QUEUE, jobset=jobset(queue="default", suspend=True)),
            "TrainJob team/hello is Queued. It loses its place in queue default.",
            id="it waits",
        ),
        pytest.param(seen("Pending"), "TrainJob team/hello is Pending.", id="it has not begun"),
        pytest.param(
            seen(unseen="you are not allowed to get its JobSet"),
            "TrainJob team/hello is Running. Data that it has not saved outside its pods is lost. It is "
            "unknown whether a volume is deleted with it: you are not allowed to get its JobSet.",
            id="it runs, and its JobSet could not be seen",
        ),
        pytest.param(
            seen("Pending", unseen="you are not allowed to get its JobSet"),
            "TrainJob team/hello is Pending. It is unknown whether a volume is deleted with it: you are not "
            "allowed to get its JobSet.",
            id="it has not begun, and its JobSet could not be seen",
        ),
        pytest.param(
            seen("Complete", jobset=jobset(volumeClaimPolicies=POLICIES)),
            "TrainJob team/hello is Complete. Its volume (checkpoint) is deleted, with the checkpoints on "
            "it.",
            id="it has ended",
        ),
    ],
)
def test_what_is_lost_is_said_as_far_as_it_can_be_seen(job: Seen, sentence: str) -> None:
    assert stops.loss(job) == sentence


def test_who_is_suspended_keeps_its_volume() -> None:
    kept = (
        "Its pods are deleted. Once resumed, it continues from the last checkpoint that it has saved, or "
        "restarts from the beginning."
    )
    job = seen(jobset=jobset(volumeClaimPolicies=POLICIES))
    assert stops.loss(job, kept=True) == f"TrainJob team/hello is Running (for 4 h, 2/2 nodes). {kept}"
    job = seen(unseen="you are not allowed to get its JobSet")
    assert stops.loss(job, kept=True) == f"TrainJob team/hello is Running. {kept}"


@pytest.mark.parametrize(
    ("job", "loses"),
    [
        (seen(), True),
        (seen("Complete"), False),
        (seen("Complete", jobset=jobset(volumeClaimPolicies=POLICIES)), True),
        (seen("Complete", jobset=jobset(volumeClaimPolicies=POLICIES[1:])), False),
        (seen("Complete", unseen="you are not allowed to get its JobSet"), True),
    ],
)
def test_who_has_ended_loses_only_its_volume(job: Seen, loses: bool) -> None:
    assert stops.loses_something(job) is loses


@pytest.mark.parametrize(
    ("job", "predicate"),
    [
        (
            seen(labels=IN_QUEUE, jobset=jobset(queue="default")),
            "its pods are deleted, and its quota is free for others",
        ),
        (seen(jobset=jobset()), "its pods are deleted"),
        (
            seen("Queued", labels=IN_QUEUE, jobset=jobset(queue="default", suspend=True)),
            "it stays in queue default, and is not admitted",
        ),
        (seen("Pending"), "it does not start"),
        (
            seen(labels=IN_QUEUE, unseen="you are not allowed to get its JobSet"),
            "its pods are deleted, and its quota is free for others",
        ),
        (seen("Starting", unseen="you are not allowed to get its JobSet"), "its pods are deleted"),
        (
            seen("Queued", labels=IN_QUEUE, unseen="you are not allowed to get its JobSet"),
            "it stays in queue default, and is not admitted",
        ),
    ],
)
def test_what_suspending_does_depends_on_where_the_job_stands(job: Seen, predicate: str) -> None:
    resume = "to resume it: trainyard resume hello -n team"
    assert stops.how_suspended(job) == f"is suspended: {predicate}; {resume}"


def test_a_resumed_job_of_a_queue_waits_for_quota() -> None:
    assert stops.how_resumed(seen(suspend=True)) == "is resumed"
    assert stops.how_resumed(seen(suspend=True, labels=IN_QUEUE)) == (
        "is resumed: it waits for quota in queue default"
    )
