"""What is said of a stack before and after it is removed, from what Pulumi tells of its removal."""

import json
from dataclasses import replace
from typing import Any

import pytest

from trainyard_delivery.impact import Job, Ref, State, Touched
from trainyard_delivery.pulumi_state import Provider
from trainyard_delivery.rollout import events, removal, words
from trainyard_delivery.rollout.events import Planned, Step
from trainyard_platform.stack import settings

RUNTIME = Ref("ClusterTrainingRuntime", "", "torch")
RUNS = Job("team-a", "llama", State.RUNNING, RUNTIME, started=True, pools=frozenset({"gpu"}))
WAITS = Job("team-a", "next", State.QUEUED, RUNTIME, started=True, local_queue="default")
HELD = Job("team-b", "late", State.SUSPENDED, RUNTIME, started=True, local_queue="default")
FREE = Job("lab", "free", State.QUEUED, RUNTIME, started=False)
STACK: dict[str, Any] = {
    "operator": {"image": "docker.io/trainyard/operator:1"},
    "kueue": {"enabled": True},
}
KUEUE_STAYS: dict[str, Any] = {"kueue": {"enabled": True, "controller": "existing"}}


def told(kind: str, name: str, namespace: str = "", *, retained: bool = False, pool: str = "") -> str:
    """The line that `pulumi destroy --json` prints of an object."""
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {"trainyard.dev/pool": pool},
    }
    old = {
        "custom": True,
        "inputs": {"apiVersion": "v1", "kind": kind, "metadata": metadata},
        "retainOnDelete": retained,
    }
    urn = f"urn:pulumi:prod::trainyard::kubernetes:core/v1:{kind}::{kind}-{namespace}/{name}"
    step = {"op": "delete", "urn": urn, "type": f"kubernetes:core/v1:{kind}", "old": old, "new": None}
    return json.dumps({"resourcePreEvent": {"metadata": step, "planning": True}})


def group(name: str) -> str:
    """The same of a node group of a cloud."""
    urn = f"urn:pulumi:prod::trainyard::trainyard:platform:EksPool$aws:eks/nodeGroup:NodeGroup::{name}"
    old = {"custom": True, "inputs": {"clusterName": "c"}}
    step = {"op": "delete", "urn": urn, "type": "aws:eks/nodeGroup:NodeGroup", "old": old, "new": None}
    return json.dumps({"resourcePreEvent": {"metadata": step, "planning": True}})


def planned(*lines: str, **deleted_with: str) -> list[Step]:
    found = [event.step for line in lines if isinstance(event := events.read(line), Planned)]
    return list(words.left(found, deleted_with))


TOLD = (
    told("Deployment", "trainyard-operator", "trainyard-system"),
    told("Deployment", "volcano-admission", "volcano-system"),
    told("ClusterTrainingRuntime", "torch"),
    told("ClusterTrainingRuntime", "mpi"),
    told("CustomResourceDefinition", "trainjobs.trainer.kubeflow.org", retained=True),
    told("CustomResourceDefinition", "jobsets.jobset.x-k8s.io", retained=True),
    told("Namespace", "team-b", retained=True),
    told("Namespace", "team-a", retained=True),
    told("Service", "trainyard-operator", "trainyard-system"),
)


def fates(*jobs: Job, steps: list[Step] | None = None, **parts: Any) -> list[Touched]:
    return list(removal.fates(settings.of({**STACK, **parts}, "prod"), steps or [], jobs))


def test_before_a_stack_goes_it_is_said_what_goes_what_stays_and_what_becomes_of_jobs() -> None:
    steps = planned(*TOLD)
    assert list(removal.paragraphs(steps, fates(WAITS, RUNS, steps=steps))) == [
        "- 2 ClusterTrainingRuntime, 2 Deployment, 1 Service",
        "    Deployment trainyard-system/trainyard-operator: TrainJobs get no JobSet, no status and no end "
        "by a deadline",
        "    2 ClusterTrainingRuntime: jobs without a JobSet wait for them",
        "= 2 CustomResourceDefinition, 2 Namespace: stay in the cluster, and nothing manages them until the "
        "next up",
        "    2 CustomResourceDefinition: with every TrainJob, JobSet and Workload; their pods run on",
        "    Namespace team-a, team-b: with all that is in them; people of tenants lose their rights",
        "TrainJobs that have not ended: 2",
        "    team-a/llama (running) keeps its pods, which run on; loses its status, restarts and further "
        "steps until the next up",
        "    team-a/next (queued) keeps its place in the queue; loses its start until the next up",
    ]
    assert words.summary(steps) == "5 to delete, 4 to leave in the cluster"


def test_many_jobs_with_the_same_fate_are_counted() -> None:
    jobs = [replace(RUNS, name=f"j{number:02}") for number in range(23)]
    *_, last, more = removal.paragraphs(planned(*TOLD), fates(*jobs))
    assert last.startswith("    team-a/j19 (running) keeps its pods")
    assert more == "    and 3 more (running) in the same way"


def test_where_nothing_runs_it_is_said_so() -> None:
    assert list(removal.paragraphs(planned(TOLD[-1]), []))[-1] == "TrainJobs that have not ended: none"


NEXT = "until the next up"


@pytest.mark.parametrize(
    ("job", "keeps", "loses"),
    [
        (RUNS, "its pods, which run on", f"its status, restarts and further steps {NEXT}"),
        (WAITS, "its place in the queue", f"its start {NEXT}"),
        (HELD, "its TrainJob", f"its start {NEXT}, also if somebody resumes it"),
        (FREE, "its TrainJob", f"its start {NEXT}"),
    ],
    ids=lambda value: value.state.value if isinstance(value, Job) else "",
)
def test_what_becomes_of_a_job_without_the_platform(job: Job, keeps: str, loses: str) -> None:
    assert fates(job) == [Touched(job, keeps, loses)]


def test_controllers_that_are_not_the_stacks_go_on() -> None:
    assert fates(RUNS, WAITS, jobset={"enabled": False}, **KUEUE_STAYS) == [
        Touched(RUNS, "its pods, which run on", f"its status {NEXT}"),
        Touched(WAITS, "its place in the queue, and may start", f"its status {NEXT}"),
    ]
    assert fates(WAITS, jobset={"enabled": False}) == [
        Touched(WAITS, "its place in the queue", f"its start {NEXT}")
    ]


@pytest.mark.parametrize("line", [told("Node", "gpu-0", pool="gpu"), group("gpu")])
def test_jobs_on_nodes_that_are_deleted_lose_their_pods(line: str) -> None:
    elsewhere = replace(RUNS, pools=frozenset({"cpu"}))
    assert fates(RUNS, elsewhere, steps=planned(line)) == [
        Touched(RUNS, "its TrainJob and its JobSet", "its pods on nodes that are deleted"),
        Touched(elsewhere, "its pods, which run on", f"its status, restarts and further steps {NEXT}"),
    ]


def test_afterwards_it_is_said_how_to_bring_the_stack_back_and_how_to_remove_what_stayed() -> None:
    assert list(removal.afterwards("prod", planned(*TOLD))) == [
        "To bring it back, and take over what has stayed: make up STACK=prod",
        "To remove the CRDs for good, with all of their objects, also those of "
        "others: kubectl get crds -o name | grep -E 'jobset.x-k8s.io|trainer.kubeflow.org' | xargs "
        "kubectl delete",
        'Before that, and for all else that has stayed: docs/upgrade-and-removal.md, "Remove the platform"',
    ]


def test_what_stayed_is_removed_from_the_cluster_of_the_stack() -> None:
    assert [*removal.afterwards("prod", planned(*TOLD), ("--context", "my lab"))][1] == (
        "To remove the CRDs for good, with all of their objects, also those of others: "
        "kubectl --context 'my lab' get crds -o name | grep -E 'jobset.x-k8s.io|trainer.kubeflow.org' | "
        "xargs kubectl --context 'my lab' delete"
    )


def test_a_stack_file_that_names_another_cluster_than_the_last_roll_out_is_told() -> None:
    rolled_out = Provider("urn", kubeconfig=None, context="lab")
    assert removal.contradictions(rolled_out, None, "lab") == []
    assert removal.contradictions(rolled_out, None, "prod") == [
        "cluster.context of the stack file is prod, and the last roll-out had lab: that is the cluster that "
        "would be destroyed. Change the stack file back, or roll out first"
    ]
    assert removal.contradictions(None, None, "prod") == []


def test_another_way_to_the_same_cluster_is_told_as_such() -> None:
    rolled_out = Provider("urn", kubeconfig=None, context="lab")
    assert removal.contradictions(rolled_out, "/k", "prod", same_cluster=True) == [
        "cluster.kubeconfig of the stack file is /k, and the last roll-out had none, for the same cluster. "
        'Pulumi would still use that: first run `up` with --replace "cluster.kubeconfig cluster.context"',
        "cluster.context of the stack file is prod, and the last roll-out had lab, for the same cluster. "
        'Pulumi would still use that: first run `up` with --replace "cluster.kubeconfig cluster.context"',
    ]
