"""What is no cause, and the diagnosis as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.explained.cases import FITS, INSUFFICIENT, PODS, SECOND, SELF, queued
from tests.support.explained.cases_containers import initializer, of_framework, restarted, tried_again
from tests.support.explained.objects import (
    HEALTHY,
    NOW,
    QUEUED,
    ago,
    claim,
    condition,
    container,
    deleted,
    event,
    homeless,
    job,
    jobset,
    lease,
    mounts,
    owned_by,
    pod,
    seen,
    terminated,
    told,
    trainjob,
    unbuilt,
    waiting,
    workload,
)
from trainyard_api.reasons import Reason
from trainyard_assist.explain import Diagnosis, Finding, Observation, State, Subject, explain
from trainyard_assist.explain.model import Mark, Silence, Stage, Unseen


def at(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def elastic(of: dict[str, Any], least: str = "") -> dict[str, Any]:
    """The pod, with the command of the runtime torch-elastic."""
    command = ["sh", "-c", 'exec torchrun --nnodes="${MIN_NODES:-1}:$PET_NNODES" "$@"', "torchrun"]
    env = [{"name": "MIN_NODES", "value": least}] if least else []
    return {**of, "spec": {**of["spec"], "containers": [{"name": "node", "command": command, "env": env}]}}


FULL = "0/1 nodes are available: 1 node(s) were unschedulable."
FINE = {
    "two ranks that run": (HEALTHY, State.RUNNING, "runs: 2 of 2 pods are ready"),
    "a finished job": (
        seen(trainjob=trainjob(condition("Complete", "AllJobsCompleted", "jobset completed")), pods=()),
        State.COMPLETE,
        "is complete: jobset completed",
    ),
    "a job that runs by now, whatever its operator has said that is away": (
        seen(trainjob=trainjob(condition("Blocked", "QueueTooSmall", "too much; ask less")), leases=()),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a job whose pods are not refused any more, whatever its operator has said that is away": (
        seen(trainjob=trainjob(condition("Blocked", "PodsRefused", "no root; correct it")), leases=()),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a job that keeps the content of its runtime, which was deleted, and whose JobSet may not be seen": (
        seen(jobset=None, runtime=None, unseen={Subject.JOBSET: "you are not allowed to get jobsets"}),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a job whose predecessor of the same name has left a pod on a lost node": (
        seen(pods=(pod(0), pod(1), deleted(pod(0, node="n2"), owned_by("earlier")))),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a job that has replaced a pod on a lost node": (
        seen(pods=(pod(0), pod(1), deleted(pod(0, node="n2", seconds=50)))),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a job that was just created": (
        unbuilt(trainjob=trainjob(seconds=1)),
        State.STARTING,
        "is starting: it was created 1 s ago and has no JobSet yet",
    ),
    "a JobSet that was just created": (
        unbuilt(jobset={**jobset(seconds=1), "status": {}}),
        State.STARTING,
        "is starting: its JobSet has no pods yet",
    ),
    "a pod that nobody has looked at yet": (
        seen(pods=(homeless(0, seconds=1),)),
        State.STARTING,
        "is starting: 0 of 1 pods are ready",
    ),
    "an attempt after one that failed": (
        seen(trainjob=tried_again(), jobset=restarted(2)),
        State.RUNNING,
        "runs: 2 of 2 pods are ready, attempt 3; in attempt 2 node 1 failed first: exit code 1, container "
        "node of pod tj-node-0-1-x on node n1: ValueError: no (train.py:3)",
    ),
    "an attempt after one whose pod was deleted": (
        seen(trainjob=tried_again(reason="Deleted", exitCode=0), jobset=restarted(2)),
        State.RUNNING,
        "runs: 2 of 2 pods are ready, attempt 3; attempt 2 ended because its pod was deleted; nothing to do",
    ),
    "an attempt after one that was preempted, which starts": (
        seen(
            trainjob=tried_again(reason="PreemptionByScheduler", exitCode=143),
            jobset=restarted(2),
            pods=(pod(0, "Pending", state=waiting("ContainerCreating")),),
        ),
        State.STARTING,
        "is starting: 0 of 1 pods are ready, attempt 3; attempt 2 ended because its pod was preempted; "
        "nothing to do",
    ),
    "an attempt after one of which nothing was noted": (
        seen(jobset=restarted(1)),
        State.RUNNING,
        "runs: 2 of 2 pods are ready, attempt 2",
    ),
    "an attempt that an earlier release counted from 0": (
        seen(trainjob=tried_again(attempt=0, reason="Deleted"), jobset=restarted(1)),
        State.RUNNING,
        "runs: 2 of 2 pods are ready, attempt 2; attempt 1 ended because its pod was deleted; nothing to do",
    ),
    "workers that do not wait for each other, of which one has ended long ago": (
        seen(
            runtime=of_framework("plain"),
            jobs=(job(completedIndexes="0"),),
            pods=(pod(0, "Succeeded", state=terminated(0, "Completed", at=90)), pod(1)),
        ),
        State.RUNNING,
        "runs: 1 of 2 pods are ready",
    ),
    "a rank that has ended, and the others not a minute later": (
        seen(
            runtime=of_framework("torch"),
            jobs=(job(completedIndexes="0"),),
            pods=(pod(0, "Succeeded", state=terminated(0, "Completed", at=59)), pod(1)),
        ),
        State.RUNNING,
        "runs: 1 of 2 pods are ready",
    ),
    "a rank that is not among the pods that were looked at, and the refusal of a pod long ago": (
        seen(
            jobs=(job(active=2),),
            pods=(pod(0),),
            events=(event("uid-of-tj-node-0", "FailedCreate", "exceeded quota: gpus"),),
            unseen={Subject.PODS: "there are too many, only the first 1 were looked at"},
        ),
        State.RUNNING,
        "runs: 1 of 1 pods are ready",
    ),
    "an elastic job of which enough nodes are ready": (
        seen(
            jobs=(job(ranks=3),),
            pods=(elastic(pod(0), "2"), elastic(pod(1), "2"), elastic(homeless(2, FULL), "2")),
        ),
        State.RUNNING,
        f"runs: 2 of 3 pods are ready; the others continue without node 2: NoNodeFits: {FULL[:-1]}",
    ),
    "an elastic job that says nothing of its least number of nodes": (
        seen(pods=(elastic(pod(0)),)),
        State.RUNNING,
        "runs: 1 of 1 pods are ready; "
        "the others continue without node 1: RankMissing: node 1 of 2 has no pod",
    ),
    "ranks that are silent": (
        seen(
            pods=(told(pod(0)), told(pod(1))),
            silences=(Silence("tj-node-0-0-x", at(720), "7 8"), Silence("tj-node-0-1-x", at(700), "7 9")),
        ),
        State.RUNNING,
        "runs: 2 of 2 pods are ready; silent for 11 min: no output and no CPU of any rank since 11:48 UTC. "
        "kubectl exec -n team tj-node-0-0-x -c node -- sh -c 'kill -USR1 7 8' makes each rank of this pod "
        "print its Python stack to the log",
    ),
    "so many of them that not all were looked at": (
        seen(
            pods=(told(pod(0)), told(pod(1))),
            silences=(Silence("tj-node-0-0-x", at(720), "7"),),
        ),
        State.RUNNING,
        "runs: 2 of 2 pods are ready; silent for 12 min: no output and no CPU of any rank of 1 of 2 pods "
        "since 11:48 UTC. kubectl exec -n team tj-node-0-0-x -c node -- sh -c 'kill -USR1 7' makes each "
        "rank of this pod print its Python stack to the log",
    ),
    "an initializer whose data cache loads its rows": (
        seen(
            jobs=(initializer(),),
            pods=(pod(0, of="tj-dataset-initializer-0"),),
            log=("waiting for the cache", "1 of 3 pods of the cache are ready"),
        ),
        State.RUNNING,
        "runs: 1 of 1 pods are ready",
    ),
    "an initializer that fetches": (
        seen(
            jobs=(initializer(),),
            pods=(pod(0, of="tj-dataset-initializer-0"),),
            log=("10 of 12 files",),
        ),
        State.RUNNING,
        "runs: 1 of 1 pods are ready",
    ),
    "an image that is being pulled": (
        seen(pods=(pod(0, "Pending", state=waiting("ContainerCreating")),)),
        State.STARTING,
        "is starting: 0 of 1 pods are ready",
    ),
    "a rank that starts a moment later than the others": (
        seen(pods=(pod(0), pod(1, "Pending", state=waiting("ContainerCreating")))),
        State.RUNNING,
        "runs: 1 of 2 pods are ready",
    ),
    "a container that was started again and runs": (
        seen(
            pods=(
                pod(0, statuses=[container({"running": {"startedAt": ago(40)}}, terminated(3), restarts=2)]),
                pod(1),
            )
        ),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a rank that failed and was replaced": (
        seen(
            pods=(
                pod(0),
                pod(1),
                {
                    **(old := pod(1, "Failed", state=terminated(3), seconds=50)),
                    "metadata": {**old["metadata"], "name": "tj-node-0-1-old"},
                },
            )
        ),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a refusal of pods that are there by now": (
        seen(events=(event(PODS, "FailedCreate", "Error creating: exceeded quota: small"),)),
        State.RUNNING,
        "runs: 2 of 2 pods are ready",
    ),
    "a rank that has ended while another goes on": (
        seen(
            jobs=(job(active=1, completedIndexes="1"),),
            pods=(pod(0), pod(1, "Succeeded", state=terminated(0))),
        ),
        State.RUNNING,
        "runs: 1 of 2 pods are ready",
    ),
    "a pod whose node could not make its sandbox and mount its volumes at first, and has now": (
        seen(
            pods=(
                pod(0),
                pod(1, "Pending", condition("PodReadyToStartContainers"), state=waiting("ContainerCreating")),
            ),
            events=(
                event("uid-of-tj-node-0-1-x", "FailedCreatePodSandBox", "the network is not ready"),
                event("uid-of-tj-node-0-1-x", "FailedMount", 'volume "v" : secret "token" not found'),
            ),
        ),
        State.RUNNING,
        "runs: 1 of 2 pods are ready",
    ),
    "a rank that has ended, whose sidecar was killed after it": (
        seen(
            jobs=(job(active=1, completedIndexes="1"),),
            pods=(
                pod(0),
                {
                    **(ended := pod(1, "Succeeded", state=terminated(0))),
                    "status": {
                        **ended["status"],
                        "initContainerStatuses": [container(terminated(137), name="proxy")],
                    },
                },
            ),
        ),
        State.RUNNING,
        "runs: 1 of 2 pods are ready",
    ),
    "Kubeflow Trainer's controller in the operator's place": (
        unbuilt(trainjob=trainjob(seconds=1), leases=(lease(renewed=90), lease(renewed=1))),
        State.STARTING,
        "is starting: it was created 1 s ago and has no JobSet yet",
    ),
    "a job that runs in another cluster": (
        unbuilt(
            trainjob={
                **trainjob(managedBy="kueue.x-k8s.io/multikueue"),
                "status": {"jobsStatus": [{"name": "node", "active": 1}]},
            },
        ),
        State.RUNNING,
        "runs elsewhere",
    ),
    "a job that Kueue has sent to another cluster": (
        unbuilt(
            trainjob={
                **trainjob(managedBy="kueue.x-k8s.io/multikueue"),
                "status": {"jobsStatus": [{"name": "node", "active": 1}]},
            },
            workloads=(workload(condition("Admitted"), clusterName="west"),),
        ),
        State.RUNNING,
        "runs in the cluster west",
    ),
    "a Workload that Kueue has just made": (
        queued(trainjob=trainjob(seconds=1, suspend=True, more=QUEUED), workloads=(workload(seconds=1),)),
        State.STARTING,
        "is starting: its JobSet has no pods yet",
    ),
    "a job that Kueue has admitted, and resumes within a minute": (
        queued(condition("QuotaReserved"), condition("Admitted", at=59)),
        State.STARTING,
        "is being started by Kueue, which admitted it 59 s ago",
    ),
    "a claim that is bound once its pod has a node": (
        seen(
            pods=(pod(0, "Pending", state=waiting("ContainerCreating"), volumes=mounts("data")),),
            claims=(claim(),),
        ),
        State.STARTING,
        "is starting: 0 of 1 pods are ready",
    ),
}


@pytest.mark.parametrize(
    ("first", "second", "node"),
    [(pod(0), homeless(1, FULL), 1), (homeless(0, FULL), pod(1), 0)],
    ids=["too few nodes", "without the node where the others meet"],
)
def test_an_elastic_job_that_cannot_go_on_is_held_up(
    first: dict[str, Any], second: dict[str, Any], node: int
) -> None:
    least = "2" if node else "1"
    diagnosis = explain(seen(pods=(elastic(first, least), elastic(second, least))))
    assert (diagnosis.state, diagnosis.answer) == (
        State.HELD,
        f"TrainJob team/tj is held up: NoNodeFits: the others wait for node {node}: {FULL}",
    )


@pytest.mark.parametrize("name", FINE)
def test_what_is_no_cause(name: str) -> None:
    observation, state, answer = FINE[name]
    diagnosis = explain(observation)
    assert (diagnosis.finding, diagnosis.state, diagnosis.answer) == (
        None,
        state,
        f"TrainJob team/tj {answer}.",
    )


def test_a_diagnosis_is_the_answer_the_cause_the_walk_and_what_was_not_seen() -> None:
    observation = seen(
        trainjob=trainjob(more=QUEUED),
        workloads=(workload(condition("Admitted")),),
        pods=(pod(0), homeless(1, INSUFFICIENT)),
        nodes=(),
        unseen={Subject.NODES: "you are not allowed to list nodes", Subject.RUNTIME: "no answer within 10 s"},
    )
    message = "0/1 nodes are available: 1 Insufficient cpu. (the pod asks for cpu 0)"
    assert explain(observation) == Diagnosis(
        trainjob=SELF,
        state=State.HELD,
        answer=f"TrainJob team/tj is held up: NoNodeFits: the others wait for node 1: {message}",
        finding=Finding(Reason.NO_NODE_FITS, SECOND, message, FITS, ranks=(1,)),
        walk=(
            Stage("TrainJob", Mark.FINE, "tj, created 60 s ago"),
            Stage("Runtime", Mark.FINE, "ClusterTrainingRuntime rt"),
            Stage("Workload", Mark.FINE, "trainjob-tj-1 in LocalQueue research: Admitted"),
            Stage("JobSet", Mark.FINE, "tj"),
            Stage("Jobs", Mark.FINE, "tj-node-0: 2 active of 2"),
            Stage("Pods", Mark.HELD, "1 of 2 ready; tj-node-0-1-x Pending"),
            Stage("Nodes", Mark.UNSEEN, "not seen"),
        ),
        unseen=(
            Unseen("runtime", "no answer within 10 s"),
            Unseen(
                "nodes",
                "you are not allowed to list nodes; your platform team can tell whether they are ready and "
                "have room",
            ),
        ),
    )


@pytest.mark.parametrize(
    ("observation", "told"),
    [
        (seen(), False),
        (seen(pods=(pod(0), pod(1, "Pending", state=waiting("ContainerCreating")))), True),
        (seen(pods=(pod(0), pod(1, "Pending", state=waiting("ErrImagePull", "no")))), False),
        (seen(pods=(pod(0), homeless(1, INSUFFICIENT))), True),
        (seen(trainjob=trainjob(condition("Complete")), pods=()), False),
    ],
    ids=["runs", "starts", "an image", "fits no node", "complete"],
)
def test_that_nodes_could_not_be_seen_is_told_once_and_only_if_they_matter(
    observation: Observation, told: bool
) -> None:
    forbidden = replace(observation, nodes=(), unseen={Subject.NODES: "you are not allowed to get nodes"})
    diagnosis = explain(forbidden)
    assert [unseen.what for unseen in diagnosis.unseen] == ["nodes"] * told
    assert [stage.text for stage in diagnosis.walk if stage.mark is Mark.UNSEEN] == ["not seen"] * told


@pytest.mark.parametrize("unseen", list(Subject))
def test_nothing_that_could_not_be_seen_is_taken_for_missing(unseen: Subject) -> None:
    """The healthy job less one look; each look gives nothing, and says so."""
    empty: dict[Subject, dict[str, Any]] = {
        Subject.RUNTIME: {"runtime": None},
        Subject.OPERATOR_LEASE: {"leases": ()},
        Subject.JOBSET: {"jobset": None},
        Subject.JOBS: {"jobs": (), "pods": ()},
        Subject.PODS: {"pods": ()},
        Subject.NODES: {"nodes": ()},
    }
    observation = seen(**empty.get(unseen, {}), unseen={unseen: "no"})
    diagnosis = explain(observation)
    hidden = unseen in (Subject.PODS, Subject.JOBS)
    told = "is starting. Its pods could not be seen" if hidden else "runs: 2 of 2 pods are ready"
    assert (diagnosis.finding, diagnosis.answer) == (None, f"TrainJob team/tj {told}.")


def test_the_workload_of_a_jobset_that_could_not_be_seen_is_not_said_to_be_none() -> None:
    """It is looked for by the uid of the JobSet."""
    observation = seen(trainjob=trainjob(more=QUEUED), jobset=None, unseen={Subject.JOBSET: "no"})
    assert Stage("Workload", Mark.UNSEEN, "not seen") in explain(observation).walk


def test_the_workload_of_a_trainjob_that_its_queue_suspends_is_missing_also_if_the_jobset_is_unseen() -> None:
    """It is looked for by the uid of the TrainJob. Without Kueue's patch, its user may have suspended it."""
    queued = {"status": {"trainyard": {"state": "Queued"}}}
    patches = [{"manager": "kueue.x-k8s.io/manager"}]
    causes = []
    for more in ({"runtimePatches": patches}, {}):
        held = {**trainjob(more=QUEUED, seconds=600, suspend=True, **more), **queued}
        finding = explain(
            seen(trainjob=held, jobset=None, pods=(), workloads=(), unseen={Subject.JOBSET: "no"})
        ).finding
        assert finding is not None
        causes.append(finding.cause)
    assert causes == [Reason.WORKLOAD_MISSING, Reason.WORKLOAD_UNSEEN]


class Counted(tuple[Any, ...]):
    """Objects that count how often somebody goes through all of them."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_not_every_rule_goes_through_all_pods() -> None:
    """There may be thousands: which ones count is found once for the rules and once for the walk."""
    pods = Counted([pod(0), pod(1)])
    assert explain(seen(pods=pods)).state is State.RUNNING
    assert pods.times <= 3


def test_not_every_pod_goes_through_all_events() -> None:
    """There may be thousands of both: which are about which object is found once."""
    events = Counted([event("uid-of-another", "FailedMount", "no such volume")])
    explain(seen(pods=[pod(rank, "Pending") for rank in range(9)], events=events))
    assert events.times <= 2
