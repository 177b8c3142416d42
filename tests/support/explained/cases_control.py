"""Causes before there are pods: the TrainJob, its operator, its queue, its JobSet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from trainyard_api.reasons import Reason
from trainyard_assist.explain import Finding, Observation, Ref, Subject
from trainyard_assist.queue_place import Holder, QueuePlace
from trainyard_operator.core.decide.causes import MEND_CONTENT, MEND_QUOTA

from .cases import ANSWER, QUOTA_SAID, SELF, UNANSWERED, WORKLOAD, Case, held_jobset, queued
from .objects import (
    NOW,
    QUEUED,
    ago,
    condition,
    deployment,
    event,
    gated,
    job,
    jobset,
    lease,
    seen,
    suspended,
    trainjob,
    unbuilt,
    workload,
)

PREEMPTED = (
    "Preempted to accommodate a workload (UID: 5515f7da-d2ea-4851-9e9c-6b8b3333734d, JobUID: "
    "95ded0bd-8f5f-4a5e-a1cf-2c5b8b3333ff) due to prioritization in the ClusterQueue"
)

WAIT = (
    "wait until enough quota is free for the TrainJob and for the jobs before it. To start sooner, "
    "request fewer resources, or ask the platform team for more quota for LocalQueue research"
)
AS_FIRST = (
    "no job is before it: it starts when enough of the jobs that use the quota have ended. To start sooner, "
    "request fewer resources, or ask the platform team for more quota for LocalQueue research"
)
TOO_LATE = "Exceeded the PodsReady timeout team/trainjob-tj-1"
TRIED_AGAIN = (
    "wait until then. If it happens again, find out why the pods are not ready in time (usually, an image "
    "takes long to pull, or a node does not start), or ask the owner of the AdmissionCheck"
)
RESUME = (
    "resume it, so that its queue can admit it: kubectl patch trainjob tj -n team "
    """--type=merge -p '{"spec":{"suspend":false}}'"""
)
HIDDEN = dict.fromkeys(
    (Subject.RUNTIME, Subject.OPERATOR_LEASE, Subject.KUEUE, Subject.JOBSET, Subject.JOBS, Subject.PODS),
    "you are not allowed to see it",
)


def hidden(state: str, **of_trainjob: Any) -> Observation:
    """One of which only the TrainJob may be seen, in this state by the operator's word."""
    made = trainjob(**of_trainjob)
    made["status"]["trainyard"] = {"state": state, "queue": "research"}
    return unbuilt(trainjob=made, runtime=None, leases=(), unseen=HIDDEN)


HELD = Finding(Reason.HELD, SELF, "LocalQueue research does not admit it before it is resumed", RESUME)
NO_OPERATOR = Finding(
    Reason.OPERATOR_DOWN,
    Ref("Lease", "trainyard-operator"),
    "there is no Lease of an operator",
    "have the platform team look at the operator: kubectl get deployments,pods -n trainyard-system",
)
JOBSET_DOWN = Finding(
    Reason.JOBSET_CONTROLLER_DOWN,
    Ref("Deployment", "jobset-controller", "jobset-system"),
    "it has no available pods (replicas: 1)",
    "have the platform team look at the JobSet controller: kubectl get deployments,pods -n jobset-system",
)

KUEUE = Ref("Deployment", "kueue-controller-manager", "kueue-system")

TOO_MANY_JOBS = (
    'jobs.batch "tj-node-0" is forbidden: exceeded quota: tenant, requested: count/jobs.batch=1, used: '
    "count/jobs.batch=10k, limited: count/jobs.batch=10k"
)


def inadmissible(said: str) -> Finding:
    """What is told of a Workload to which Kueue says that its queue never admits it."""
    elsewhere = (
        "use another queue (label kueue.x-k8s.io/queue-name), request fewer resources, or have the "
        "platform team check LocalQueue research and its ClusterQueue"
    )
    return Finding(Reason.WORKLOAD_INADMISSIBLE, WORKLOAD, said, elsewhere)


CASES = (
    Case(
        "a TrainJob that was deleted says which finalizer holds it",
        seen(trainjob=trainjob(more={"deletionTimestamp": ago(9), "finalizers": ["x.io/keep"]})),
        Finding(
            Reason.DELETING,
            SELF,
            "it was deleted at 2026-01-01T11:59:51Z",
            "wait until it no longer exists; if it remains, ask the owners of its finalizers: x.io/keep",
        ),
    ),
    Case(
        "a TrainJob of another controller is that one's",
        unbuilt(trainjob=trainjob(managedBy="kueue.x-k8s.io/multikueue")),
        Finding(
            Reason.MANAGED_ELSEWHERE,
            SELF,
            "spec.managedBy is kueue.x-k8s.io/multikueue",
            "look for the TrainJob where kueue.x-k8s.io/multikueue runs it. To run it in this cluster, "
            "create it again without spec.managedBy",
        ),
    ),
    Case(
        "a TrainJob of a controller that nobody knows is that one's",
        unbuilt(trainjob=trainjob(managedBy="example.com/other")),
        Finding(
            Reason.MANAGED_ELSEWHERE,
            SELF,
            "spec.managedBy is example.com/other",
            "look for the TrainJob where example.com/other runs it. To run it in this cluster, create it "
            "again without spec.managedBy",
        ),
    ),
    Case(
        "a TrainJob that MultiKueue has not sent yet waits for what its queue says",
        queued(
            condition("QuotaReserved", "Pending", QUOTA_SAID, "False"),
            trainjob=trainjob(managedBy="kueue.x-k8s.io/multikueue", suspend=True, more=QUEUED),
        ),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            QUOTA_SAID,
            WAIT,
        ),
    ),
    Case(
        "a TrainJob that MultiKueue has sent is explained where it runs",
        unbuilt(
            trainjob=trainjob(managedBy="kueue.x-k8s.io/multikueue", more=QUEUED),
            workloads=(workload(condition("QuotaReserved"), condition("Admitted"), clusterName="west"),),
        ),
        Finding(
            Reason.MANAGED_ELSEWHERE,
            SELF,
            "spec.managedBy is kueue.x-k8s.io/multikueue, which has sent it to west",
            "look for the TrainJob where kueue.x-k8s.io/multikueue runs it. To run it in this cluster, "
            "create it again without spec.managedBy",
        ),
    ),
    Case(
        "an operator whose Lease has run out is down",
        unbuilt(leases=(lease(renewed=40),)),
        Finding(
            Reason.OPERATOR_DOWN,
            Ref("Lease", "trainyard-operator", "trainyard-system"),
            "nobody holds it; it was last renewed 40 s ago",
            "have the platform team look at the operator: kubectl get deployments,pods -n trainyard-system",
        ),
    ),
    Case(
        "an operator that has given its Lease up is down at once",
        suspended(trainjob=trainjob(), leases=(lease(holder="", renewed=1),)),
        Finding(
            Reason.OPERATOR_DOWN,
            Ref("Lease", "trainyard-operator", "trainyard-system"),
            "nobody holds it; it was last renewed 1 s ago",
            "have the platform team look at the operator: kubectl get deployments,pods -n trainyard-system",
        ),
    ),
    Case(
        "without any Lease there is no operator",
        unbuilt(leases=()),
        NO_OPERATOR,
    ),
    Case(
        "the operator's own words are repeated, with the next step at their end",
        unbuilt(
            trainjob=trainjob(
                condition("Blocked", "JobSetRejected", "spec.x: Invalid; or worse; correct the runtime")
            )
        ),
        Finding(Reason.JOBSET_REJECTED, SELF, "spec.x: Invalid; or worse", "correct the runtime"),
    ),
    Case(
        "a queue that can never hold the job is told in the operator's words, with Kueue's",
        suspended(
            trainjob=trainjob(
                condition("Blocked", "QueueTooSmall", "it asks for 2; Kueue says: none; a; b; ask for less")
            )
        ),
        Finding(Reason.QUEUE_TOO_SMALL, SELF, "it asks for 2; Kueue says: none; a; b", "ask for less"),
    ),
    Case(
        "a queue that is not there is told with the nearest name",
        suspended(
            trainjob=trainjob(
                condition("Blocked", "QueueNotFound", "there is no LocalQueue a; did you mean b?; correct it")
            )
        ),
        Finding(Reason.QUEUE_NOT_FOUND, SELF, "there is no LocalQueue a; did you mean b?", "correct it"),
    ),
    Case(
        "what pods that may not be seen wait for is told in the operator's words",
        seen(
            trainjob=trainjob(condition("Blocked", "ImageNotPulled", "pod a: no such image; correct it")),
            unseen={Subject.PODS: "you are not allowed to list pods"},
        ),
        Finding(Reason.IMAGE_NOT_PULLED, SELF, "pod a: no such image", "correct it"),
    ),
    Case(
        "a resource that the queue does not have will not come by waiting",
        queued(condition("QuotaReserved", "Pending", "resource x unavailable in ClusterQueue gpus", "False")),
        inadmissible("resource x unavailable in ClusterQueue gpus"),
    ),
    Case(
        "a reason of the operator that is not known is still told",
        unbuilt(trainjob=trainjob(condition("Blocked", "SomethingNew", "it is so"))),
        Finding(Reason.BLOCKED, SELF, "it is so", "have the platform team read the operator's log"),
    ),
    Case(
        "a runtime that is missing is named before the operator has said so",
        unbuilt(runtime=None),
        Finding(
            Reason.RUNTIME_NOT_FOUND,
            Ref("ClusterTrainingRuntime", "rt"),
            "ClusterTrainingRuntime rt is not found",
            "create ClusterTrainingRuntime rt, or create the TrainJob again with another runtimeRef",
        ),
    ),
    Case(
        "a runtime of a like name is named, of whichever kind",
        unbuilt(
            runtime=None,
            trainjob=trainjob(condition("Blocked", "RuntimeNotFound", "it is not found; create it")),
            runtimes=({"kind": "TrainingRuntime", "metadata": {"name": "rt-1"}},),
        ),
        Finding(
            Reason.RUNTIME_NOT_FOUND,
            Ref("ClusterTrainingRuntime", "rt"),
            "it is not found; did you mean TrainingRuntime rt-1?",
            "create it",
        ),
    ),
    Case(
        "a nearest name that the operator has told is told once",
        unbuilt(
            runtime=None,
            trainjob=trainjob(
                condition("Blocked", "RuntimeNotFound", "it is not found; did you mean rt-1?; create it")
            ),
            runtimes=({"kind": "ClusterTrainingRuntime", "metadata": {"name": "rt-1"}},),
        ),
        Finding(
            Reason.RUNTIME_NOT_FOUND,
            Ref("ClusterTrainingRuntime", "rt"),
            "it is not found; did you mean rt-1?",
            "create it",
        ),
    ),
    Case(
        "a queue that nobody serves has made no Workload",
        queued(workloads=()),
        Finding(
            Reason.WORKLOAD_MISSING,
            Ref("LocalQueue", "research", "team"),
            "it names LocalQueue research, and has no Workload",
            "have the platform team check that Kueue runs and manages this namespace",
        ),
    ),
    Case(
        "a queue of which nothing may be seen is named all the same",
        queued(workloads=(), unseen={Subject.WORKLOADS: "you are not allowed to list workloads"}),
        Finding(
            Reason.WORKLOAD_UNSEEN,
            Ref("LocalQueue", "research", "team"),
            "it is suspended until LocalQueue research admits it",
            "have somebody with this right run: kubectl get workloads.kueue.x-k8s.io -n team",
        ),
    ),
    Case(
        "one of which only the TrainJob may be seen waits in the queue that the operator names",
        hidden("Queued"),
        Finding(
            Reason.WORKLOAD_UNSEEN,
            Ref("LocalQueue", "research", "team"),
            "it is suspended until LocalQueue research admits it",
            "have somebody with this right run: kubectl get workloads.kueue.x-k8s.io -n team",
        ),
    ),
    Case(
        "one of which only the TrainJob may be seen is suspended by its user, as the operator says",
        hidden("Suspended", suspend=True, more=QUEUED),
        Finding(
            Reason.SUSPENDED,
            SELF,
            "spec.suspend is true, so LocalQueue research does not admit it before it is resumed",
            RESUME,
        ),
    ),
    Case(
        "one that was sent suspended to a queue waits for its user",
        queued(
            condition("QuotaReserved", "Pending", "not admissible", "False"),
            trainjob=trainjob(suspend=True, more={**QUEUED, **gated("trainyard.dev/sent-suspended")}),
        ),
        HELD,
    ),
    Case(
        "one that others keep from its queue names them",
        queued(
            condition("QuotaReserved", "Pending", "not admissible", "False"),
            trainjob=trainjob(suspend=True, more={**QUEUED, **gated("a.io/x,b.io/y")}),
        ),
        Finding(
            Reason.GATED,
            WORKLOAD,
            "Kueue is not allowed to admit it yet",
            "ask the owner of the gate (annotation kueue.x-k8s.io/admission-gated-by): a.io/x, b.io/y",
        ),
    ),
    Case(
        "a Workload that was deactivated says why",
        queued(
            workloads=(workload(condition("Evicted", "Deactivated", "exceeded the retries"), active=False),)
        ),
        Finding(
            Reason.WORKLOAD_INACTIVE,
            WORKLOAD,
            "exceeded the retries",
            "see why (kubectl describe workload trainjob-tj-1 -n team), then have the platform team set its "
            "spec.active to true",
        ),
    ),
    Case(
        "a queue that is stopped admits nobody",
        queued(condition("QuotaReserved", "Inadmissible", "ClusterQueue gpus is stopped", "False")),
        inadmissible("ClusterQueue gpus is stopped"),
    ),
    Case(
        "a request that no quota can ever hold is told so",
        queued(condition("QuotaReserved", "Pending", "current request (4) > maximum capacity (2)", "False")),
        inadmissible("current request (4) > maximum capacity (2)"),
    ),
    Case(
        "quota that is short is told with the place in the queue, who is before it, and who runs with it",
        queued(
            condition("QuotaReserved", "Pending", QUOTA_SAID, "False"),
            queue_place=QueuePlace(
                7,
                "ClusterQueue gpus",
                before=("team/a", "team/b", "others/c"),
                holders=(Holder("team/long", NOW - timedelta(hours=3)), Holder("Job others/d", NOW)),
            ),
        ),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            "it is number 7 in ClusterQueue gpus, behind team/a, team/b, others/c and 3 more, and waits for "
            f"team/long (runs for 3 h), Job others/d (runs for 0 s): {QUOTA_SAID}",
            WAIT,
        ),
    ),
    Case(
        "the first in its queue is told that none is before it, and for which jobs it waits",
        queued(
            condition("QuotaReserved", "Pending", QUOTA_SAID, "False"),
            queue_place=QueuePlace(
                1,
                "ClusterQueue gpus",
                holders=tuple(Holder(f"team/{n}", NOW) for n in range(5)),
                only_own=True,
            ),
        ),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            "it is number 1 in ClusterQueue gpus, and waits for team/0 (runs for 0 s), team/1 (runs for 0 s)"
            ", team/2 (runs for 0 s) and 2 more; you are not allowed to see the jobs of other namespaces: "
            + QUOTA_SAID,
            AS_FIRST,
        ),
    ),
    Case(
        "a place that nobody can explain further is told alone",
        queued(
            condition("QuotaReserved", "Pending", QUOTA_SAID, "False"),
            queue_place=QueuePlace(3, "ClusterQueue gpus"),
        ),
        Finding(Reason.QUOTA_SHORT, WORKLOAD, f"it is number 3 in ClusterQueue gpus: {QUOTA_SAID}", WAIT),
    ),
    Case(
        "a queue that Kueue does not know is told with the nearest name",
        queued(
            condition("QuotaReserved", "Inadmissible", "LocalQueue research doesn't exist", "False"),
            local_queues=("cpus", "reserch"),
        ),
        inadmissible("LocalQueue research doesn't exist; did you mean reserch?"),
    ),
    Case(
        "who took the quota is named",
        queued(
            condition("QuotaReserved", "Pending", "no quota", "False"),
            condition("Evicted", "Preempted", PREEMPTED),
            preemptor={
                "metadata": {
                    "name": "trainjob-urgent-1",
                    "namespace": "team-b",
                    "ownerReferences": [{"kind": "TrainJob", "name": "urgent"}],
                }
            },
        ),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            "no quota; it was evicted before (Preempted: Preempted to accommodate TrainJob team-b/urgent "
            "due to prioritization in the ClusterQueue)",
            WAIT,
        ),
    ),
    Case(
        "of who took the quota and may not be seen no uid is told",
        queued(
            condition("QuotaReserved", "Pending", "no quota", "False"),
            condition("Evicted", "Preempted", PREEMPTED),
        ),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            "no quota; it was evicted before (Preempted: Preempted to accommodate a job that you cannot see "
            "due to prioritization in the ClusterQueue)",
            WAIT,
        ),
    ),
    Case(
        "a job that was preempted waits again, and a place that was counted is no more than that",
        queued(
            condition("QuotaReserved", "Pending", "no quota", "False"),
            condition("Evicted", "Preempted", "for a higher priority"),
            queue_place=QueuePlace(1, "ClusterQueue gpus", partial=True, only_own=True),
        ),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            "it is number 1 of the visible jobs in ClusterQueue gpus, and waits for jobs that you are not "
            "allowed to see: no quota; it was evicted before (Preempted: for a higher priority)",
            AS_FIRST,
        ),
    ),
    Case(
        "a job whose pods were not ready in time is tried again later, and waits for no other job",
        queued(
            workloads=(
                workload(
                    condition("QuotaReserved", "Pending", TOO_LATE, "False"),
                    condition("Evicted", "PodsReadyTimeout", TOO_LATE),
                    condition("Requeued", "PodsReadyTimeout", TOO_LATE, "False"),
                    requeueState={"count": 1, "requeueAt": "2026-01-01T12:01:00Z"},
                ),
            ),
            queue_place=QueuePlace(1, "ClusterQueue gpus", holders=(Holder("team/other", NOW),)),
        ),
        Finding(
            Reason.REQUEUED_LATER,
            WORKLOAD,
            f"Kueue has evicted it, and tries it again at 12:01 UTC (PodsReadyTimeout: {TOO_LATE})",
            TRIED_AGAIN,
        ),
    ),
    Case(
        "a job that an admission check sends back without a time is tried again later",
        held_jobset(
            condition("QuotaReserved", "Pending", "Evicted due to provision", "False"),
            condition("Requeued", "AdmissionCheck", "Evicted due to provision", "False"),
        ),
        Finding(
            Reason.REQUEUED_LATER,
            WORKLOAD,
            "Kueue has evicted it, and tries it again later (AdmissionCheck: Evicted due to provision)",
            TRIED_AGAIN,
        ),
    ),
    Case(
        "an admission check that is not ready holds a job that has quota",
        queued(
            workloads=(
                workload(
                    condition("QuotaReserved"),
                    admissionChecks=[
                        {"name": "provision", "state": "Pending", "message": "asked for 2 nodes"}
                    ],
                ),
            )
        ),
        Finding(
            Reason.ADMISSION_CHECK,
            Ref("AdmissionCheck", "provision"),
            "it is Pending: asked for 2 nodes",
            "ask the owner of AdmissionCheck provision",
        ),
    ),
    Case(
        "a job that Kueue has admitted and not resumed is Kueue's to resume",
        queued(condition("QuotaReserved"), condition("Admitted")),
        Finding(
            Reason.NOT_RESUMED,
            WORKLOAD,
            "it is Admitted, and spec.suspend is still true",
            "have the platform team read Kueue's log",
        ),
    ),
    Case(
        "a job whose JobSet waits in a queue waits for quota",
        held_jobset(condition("QuotaReserved", "Pending", QUOTA_SAID, "False")),
        Finding(
            Reason.QUOTA_SHORT,
            WORKLOAD,
            QUOTA_SAID,
            WAIT,
        ),
    ),
    Case(
        "Kueue without pods is told, and not what it said last",
        replace(
            queued(condition("QuotaReserved", "Pending", QUOTA_SAID, "False")),
            kueue=deployment(0, "kueue-controller-manager", "kueue-system"),
        ),
        Finding(
            Reason.KUEUE_DOWN,
            KUEUE,
            "it has no available pods (replicas: 1)",
            "have the platform team look at Kueue: kubectl get deployments,pods -n kueue-system",
        ),
    ),
    Case(
        "a Kueue of the site's own without pods is told, and where it is",
        replace(
            queued(condition("QuotaReserved", "Pending", QUOTA_SAID, "False")),
            kueue=deployment(0, "quota", "openshift-kueue-operator"),
        ),
        Finding(
            Reason.KUEUE_DOWN,
            Ref("Deployment", "quota", "openshift-kueue-operator"),
            "it has no available pods (replicas: 1)",
            "have the platform team look at Kueue: kubectl get deployments,pods -n openshift-kueue-operator",
        ),
    ),
    Case(
        "Kueue without pods does not stop the pods of a job that its user has suspended",
        seen(
            trainjob=trainjob(condition("Suspended"), suspend=True, more=QUEUED),
            jobset={**jobset(), "metadata": {**jobset()["metadata"], **QUEUED}},
            workloads=(workload(condition("QuotaReserved"), condition("Admitted"), active=False),),
            kueue=deployment(0, "kueue-controller-manager", "kueue-system"),
        ),
        Finding(
            Reason.KUEUE_DOWN,
            KUEUE,
            "it has no available pods (replicas: 1); the TrainJob is suspended, but its own pods run until "
            "Kueue stops them",
            "have the platform team look at Kueue: kubectl get deployments,pods -n kueue-system",
        ),
    ),
    Case(
        "a platform that was removed under a waiting job is told, and not what Kueue said last",
        replace(held_jobset(condition("QuotaReserved", "Pending", QUOTA_SAID, "False")), leases=()),
        Finding(
            Reason.KUEUE_DOWN,
            KUEUE,
            "it does not exist, and no operator runs: the platform has been removed, or is being installed",
            "have the platform team look at Kueue: kubectl get deployments,pods -n kueue-system",
        ),
    ),
    Case(
        "a job whose JobSet has completed while no operator ran waits for that to be said",
        seen(jobset=jobset(condition("Completed")), leases=()),
        NO_OPERATOR,
    ),
    Case(
        "a job whose JobSet waits without a Workload says so, by whichever label it is in the queue",
        replace(held_jobset(), trainjob=trainjob(), workloads=()),
        Finding(
            Reason.WORKLOAD_MISSING,
            Ref("LocalQueue", "research", "team"),
            "it names LocalQueue research, and has no Workload",
            "have the platform team check that Kueue runs and manages this namespace",
        ),
    ),
    Case(
        "a job that was sent suspended has the gate on its JobSet",
        held_jobset(suspend=True, more=gated("trainyard.dev/sent-suspended")),
        HELD,
    ),
    Case(
        "a job of a queue that its user has suspended while it ran waits for its user",
        replace(
            held_jobset(suspend=True),
            workloads=(
                workload(condition("Evicted", "Deactivated", "The workload is deactivated"), active=False),
            ),
        ),
        Finding(
            Reason.SUSPENDED,
            SELF,
            "spec.suspend is true, so LocalQueue research does not admit it before it is resumed",
            RESUME,
        ),
    ),
    Case(
        "a resumed job whose JobSet still has the gate needs its operator",
        replace(held_jobset(more=gated("trainyard.dev/sent-suspended")), leases=()),
        NO_OPERATOR,
    ),
    Case(
        "a job that was resumed while no operator ran needs its operator, which has deactivated its Workload",
        replace(
            held_jobset(
                trainjob=trainjob(condition("Suspended"), more=QUEUED),
                workloads=(workload(condition("Evicted", "Deactivated", "deactivated"), active=False),),
            ),
            leases=(),
        ),
        NO_OPERATOR,
    ),
    Case(
        "a waiting job that was suspended while no operator ran needs its operator, or its queue admits it",
        replace(held_jobset(condition("QuotaReserved", status="False"), suspend=True), leases=()),
        NO_OPERATOR,
    ),
    Case(
        "what an operator that is away has said of a queue is not repeated, but what Kueue says now",
        replace(
            held_jobset(
                condition("QuotaReserved", "Pending", QUOTA_SAID, "False"),
                trainjob=trainjob(condition("Blocked", "QueueTooSmall", "too much; ask less"), more=QUEUED),
            ),
            kueue=deployment(1),
            leases=(),
        ),
        Finding(Reason.QUOTA_SHORT, WORKLOAD, QUOTA_SAID, WAIT),
    ),
    Case(
        "of refused pods, what an operator that is away has said is still told as long as there are none",
        seen(
            trainjob=trainjob(condition("Blocked", "PodsRefused", "Job tj-node-0: no root; correct it")),
            pods=(),
            leases=(),
        ),
        Finding(Reason.PODS_REFUSED, SELF, "Job tj-node-0: no root", "correct it"),
    ),
    Case(
        "a job that Kueue has admitted without resuming its JobSet is Kueue's to resume",
        held_jobset(condition("QuotaReserved"), condition("Admitted")),
        Finding(
            Reason.NOT_RESUMED,
            WORKLOAD,
            "it is Admitted, and the JobSet's spec.suspend is still true",
            "have the platform team read Kueue's log",
        ),
    ),
    Case(
        "a job that its user has suspended waits for its user",
        suspended(),
        Finding(
            Reason.SUSPENDED,
            SELF,
            "spec.suspend is true",
            'resume it: kubectl patch trainjob tj -n team --type=merge -p \'{"spec":{"suspend":false}}\'',
        ),
    ),
    Case(
        "a JobSet controller without pods is down",
        unbuilt(jobset_controller=deployment(0)),
        JOBSET_DOWN,
    ),
    Case(
        "a JobSet that nobody has touched has no controller",
        unbuilt(jobset={**jobset(seconds=8), "status": {}}, unseen={Subject.JOBSET_CONTROLLER: "no"}),
        Finding(
            Reason.JOBSET_CONTROLLER_DOWN,
            Ref("JobSet", "tj", "team"),
            "it was created 8 s ago, and its controller has not acted on it",
            "have the platform team look for the JobSet controller: kubectl get deployments,pods -A -l "
            "app.kubernetes.io/name=jobset",
        ),
    ),
    Case(
        "a JobSet controller without pods keeps Kueue from resuming what it has admitted",
        replace(
            held_jobset(condition("QuotaReserved"), condition("Admitted")), jobset_controller=deployment(0)
        ),
        JOBSET_DOWN,
    ),
    Case(
        "a JobSet controller without pods keeps the operator from resuming a job without a queue",
        suspended(trainjob=trainjob(), jobset_controller=deployment(0)),
        JOBSET_DOWN,
    ),
    Case(
        "a JobSet controller without pods leaves the Jobs of a resumed JobSet suspended",
        seen(jobs=({**job(), "spec": {"suspend": True}},), pods=(), jobset_controller=deployment(0)),
        JOBSET_DOWN,
    ),
    Case(
        "a JobSet controller without pods does not make the Jobs of a resumed JobSet anew",
        seen(jobs=(), pods=(), jobset_controller=deployment(0)),
        JOBSET_DOWN,
    ),
    Case(
        "a JobSet that does not come, though all that can be seen is well, is told",
        unbuilt(jobset_controller=deployment(1)),
        Finding(
            Reason.JOBSET_NOT_CREATED,
            SELF,
            "there is no JobSet 60 s after the TrainJob was created",
            "have the platform team read the operator's log: a webhook that does not answer is a "
            "common cause",
        ),
    ),
    Case(
        "a Job that was refused is told by the JobSet's events",
        seen(jobs=(), pods=(), events=(event("uid-of-jobset", "JobCreationFailed", "jobs are forbidden"),)),
        Finding(
            Reason.JOBS_REFUSED,
            Ref("JobSet", "tj", "team"),
            "jobs are forbidden",
            MEND_CONTENT,
        ),
    ),
    Case(
        "a webhook that does not answer for a Job is none that refuses it",
        seen(jobs=(), pods=(), events=(event("uid-of-jobset", "JobCreationFailed", UNANSWERED),)),
        Finding(Reason.JOBS_REFUSED, Ref("JobSet", "tj", "team"), UNANSWERED, ANSWER),
    ),
    Case(
        "a Job for which the namespace has no room waits for room, and nothing is to be corrected",
        seen(jobs=(), pods=(), events=(event("uid-of-jobset", "JobCreationFailed", TOO_MANY_JOBS),)),
        Finding(Reason.JOBS_REFUSED, Ref("JobSet", "tj", "team"), TOO_MANY_JOBS, MEND_QUOTA),
    ),
    Case(
        "what was refused is still told by the operator when the events are gone",
        seen(
            trainjob=trainjob(
                condition("Blocked", "PodsRefused", "Job tj-node-0: no root; have it corrected")
            ),
            jobs=(),
            pods=(),
        ),
        Finding(Reason.PODS_REFUSED, SELF, "Job tj-node-0: no root", "have it corrected"),
    ),
    Case(
        "of a job that has run, the operator knows that it keeps its runtime",
        seen(
            trainjob=trainjob(condition("Blocked", "JobsRefused", "jobs are forbidden; create it again")),
            jobs=(),
            pods=(),
            events=(event("uid-of-jobset", "JobCreationFailed", "jobs are forbidden"),),
        ),
        Finding(Reason.JOBS_REFUSED, Ref("JobSet", "tj", "team"), "jobs are forbidden", "create it again"),
    ),
)
