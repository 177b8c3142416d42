"""What is said of a TrainJob before it is sent."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.run_runtimes import runtime
from trainyard_api.json_types import Json
from trainyard_assist.queue_place import Holder, QueuePlace
from trainyard_assist.run import settings
from trainyard_assist.run.plan import Draft, Queue, lines
from trainyard_assist.run.runtime import Runtime
from trainyard_assist.run.trainjob import trainjob

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def draft(queue: Queue | None = None, **options: object) -> Draft:
    chosen = settings.of_options({"command": ["python", "train.py"], **options})
    on = runtime(image="registry/torch:2")
    job = trainjob(
        chosen, on, namespace="team", name="train-x", secret_keys={"hub": ["TOKEN"]} if options else {}
    )
    return Draft(trainjob=job, runtime=on, queue=queue or Queue(name=""))


def test_the_smallest_plan() -> None:
    assert list(lines(draft(), NOW)) == [
        "TrainJob team/train-x",
        "  runtime    rt",
        "  image      registry/torch:2",
        "  command    torchrun train.py",
        "  nodes      1",
        "  queue      none: it starts as soon as there are nodes",
        "  admission  lets it in",
    ]


def test_a_plan_with_all_that_can_be_said() -> None:
    place = QueuePlace(
        5,
        "ClusterQueue gpus",
        partial=True,
        before=("team/a", "team/b", "team/c"),
        holders=(Holder("team/h", datetime(2026, 1, 1, 10, tzinfo=UTC)),),
        only_own=True,
    )
    planned = replace(
        draft(
            Queue(name="default", place=place), nodes=2, gpus=8, memory="64Gi", priority="high", env=["A=1"]
        ),
        warnings=["it is deprecated"],
        remarks=["keys of Secret hub that cannot be variables: tls.crt"],
        last={"metadata": {"name": "train-y", "creationTimestamp": "2026-01-01T09:00:00Z"}},
        changes=["trainer.numNodes: 1 -> 2"],
    )
    assert list(lines(planned, NOW)) == [
        "TrainJob team/train-x",
        "  runtime    rt",
        "  image      registry/torch:2",
        "  command    torchrun train.py",
        "  nodes      2, each with 8 GPUs, memory 64Gi; 16 GPUs in all",
        "  variables  TOKEN (of Secret hub), A",
        "  queue      default, priority high; it would be number 5 of those that you may see in ClusterQueue "
        "gpus, behind team/a, team/b, team/c and 1 more; quota there is held by team/h (for 2 h) and perhaps "
        "others that you may not see",
        "  admission  lets it in, with a warning",
        "             it is deprecated",
        "  changes    since train-y, 3 h ago",
        "             trainer.numNodes: 1 -> 2",
        "  not seen   keys of Secret hub that cannot be variables: tls.crt",
    ]


@pytest.mark.parametrize(
    ("command", "trainer", "planned"),
    [
        (["python", "-m", "trainers"], {}, "the runtime's: python -m trainers"),
        (["python", "-m", "trainers"], {"args": ["-v"]}, "the runtime's, with -v"),
        (["python", "-m", "trainers"], {"command": []}, "the image's own"),
        (["python", "-m", "trainers"], {"command": [], "args": ["-v"]}, "the image's own, with -v"),
        ([], {"args": ["-v"]}, "the image's own, with -v"),
    ],
)
def test_without_a_command_that_of_the_runtime_or_of_the_image_is_told(
    command: list[str], trainer: Json, planned: str
) -> None:
    job = {**draft().trainjob, "spec": {"trainer": trainer}}
    plan = list(lines(replace(draft(), trainjob=job, runtime=runtime(command=command)), NOW))
    assert plan[3] == f"  command    {planned}"


def nodes_line(on: Runtime, trainer: Json) -> str:
    planned = draft()
    planned = replace(planned, runtime=on, trainjob={**planned.trainjob, "spec": {"trainer": trainer}})
    return list(lines(planned, NOW))[4].removeprefix("  nodes      ")


def test_a_launcher_that_trains_has_one_more_node_beside_it() -> None:
    mpi = runtime("mpi")
    mpi.manifest["spec"]["mlPolicy"]["mpi"] = {"runLauncherAsNode": True}
    resources = {"limits": {"nvidia.com/gpu": 8}}
    assert nodes_line(mpi, {"resourcesPerNode": resources}) == "2, each with 8 GPUs; 16 GPUs in all"
    assert nodes_line(mpi, {"numNodes": 3}) == "3"
    assert nodes_line(runtime("mpi"), {"numNodes": 1}) == "1"


def test_a_node_has_the_runtimes_resources_but_for_those_that_the_trainjob_names() -> None:
    on = runtime(resources={"limits": {"nvidia.com/gpu": "8", "memory": "1Gi"}})
    assert nodes_line(on, {"resourcesPerNode": {"limits": {"memory": "2Gi"}}}) == (
        "1, each with 8 GPUs, memory 2Gi"
    )


def test_a_refusal_is_told_in_the_words_of_admission() -> None:
    planned = replace(draft(), refusal="spec: Invalid value: too \x1b[31mmuch")
    assert list(lines(planned, NOW))[-1] == "  admission  refuses it: spec: Invalid value: too much"


def queue_line(queue: Queue) -> str:
    return list(lines(draft(queue), NOW))[5].removeprefix("  queue      ")


def test_of_a_queue_is_said_what_can_be_seen() -> None:
    first = QueuePlace(1, "ClusterQueue gpus")
    assert queue_line(Queue(name="q", place=first)) == (
        "q; nobody waits before it in ClusterQueue gpus; nobody holds quota there"
    )
    assert queue_line(Queue(name="q", place=first, verdict="starts now")) == (
        "q: starts now; nobody waits before it in ClusterQueue gpus; nobody holds quota there"
    )
    assert queue_line(Queue(name="q", unseen="you are not allowed to list workloads")) == (
        "q; its place there is not known: you are not allowed to list workloads"
    )
    assert queue_line(Queue(name="q", stopped="it is on hold")) == "q: it admits nobody now (it is on hold)"
    assert queue_line(Queue(name="", unseen="you are not allowed to get LocalQueues")) == (
        "you are not allowed to get LocalQueues"
    )


def test_the_same_again_is_said_so() -> None:
    planned = replace(draft(), last={"metadata": {"name": "y", "creationTimestamp": "2026-01-01T11:00:00Z"}})
    assert list(lines(planned, NOW))[-1] == "  changes    none since y, 60 min ago"
