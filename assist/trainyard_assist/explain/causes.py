"""The causes that can be named: each with its place in the walk, its meaning and the next step.

Called by the rules, and by the test that holds docs/explain.md to this table.
In a next step, `{word}` is filled in by the rule that found the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trainyard_api.reasons import Reason
from trainyard_operator.core.decide.causes import (
    AFTER_THE_SAME_FAILURE,
    MEND_CONTENT,
    NO_SUCH_QUEUE,
    TOO_MUCH,
)


class At(StrEnum):
    """The stages of the walk, in order."""

    TRAINJOB = "TrainJob"
    RUNTIME = "Runtime"
    WORKLOAD = "Workload"
    JOBSET = "JobSet"
    ATTEMPTS = "Attempts"
    JOBS = "Jobs"
    GANG = "PodGroup"
    PODS = "Pods"
    NODES = "Nodes"


@dataclass(frozen=True, slots=True)
class About:
    """A row of the table of causes."""

    at: At
    means: str
    next_step: str


_RESUME: Final = (
    'kubectl patch trainjob {name} -n {namespace} --type=merge -p \'{{"spec":{{"suspend":false}}}}\''
)

TABLE: Final[dict[Reason, About]] = {
    Reason.DELETING: About(
        At.TRAINJOB,
        "the TrainJob is being deleted",
        "wait until it is gone; the owner of a finalizer that stays has to remove it: {finalizers}",
    ),
    Reason.MANAGED_ELSEWHERE: About(
        At.TRAINJOB,
        "spec.managedBy names another controller",
        "look where {manager} runs it; to run it here, create it again without spec.managedBy",
    ),
    Reason.OPERATOR_DOWN: About(
        At.TRAINJOB,
        "no operator holds its Lease",
        "have the platform team look at the operator: kubectl get deployments,pods -n {namespace}",
    ),
    Reason.RUNTIME_NOT_FOUND: About(
        At.RUNTIME,
        "there is no such runtime",
        "create {runtime}, or create the TrainJob again with another runtimeRef",
    ),
    Reason.RUNTIME_INVALID: About(
        At.RUNTIME, "no JobSet can be built from the runtime", "correct the runtime or the TrainJob"
    ),
    Reason.POLICY_UNSUPPORTED: About(
        At.RUNTIME, "the runtime's mlPolicy is not supported", "use another runtime"
    ),
    Reason.JOBSET_CONFLICT: About(
        At.JOBSET,
        "an object with the name of the JobSet, or of one created with it, belongs to someone else",
        "delete it, or create the TrainJob again under another name",
    ),
    Reason.JOBSET_REJECTED: About(
        At.JOBSET,
        "the API server, a webhook or an admission policy refuses the JobSet",
        "correct the runtime or the TrainJob's runtimePatches",
    ),
    Reason.FORBIDDEN: About(
        At.JOBSET,
        "the operator lacks a permission that the job needs",
        "have the platform team grant the operator the permission that the message names",
    ),
    Reason.QUOTA_EXCEEDED: About(
        At.JOBSET,
        "the namespace's ResourceQuota has no room for the JobSet",
        "wait for other jobs to end, or have the namespace's ResourceQuota raised",
    ),
    Reason.CRD_MISSING: About(
        At.JOBSET, "the cluster lacks a resource that the job needs", "have the platform team install it"
    ),
    Reason.QUEUE_NOT_FOUND: About(
        At.TRAINJOB,
        "there is no such LocalQueue in its namespace",
        NO_SUCH_QUEUE,
    ),
    Reason.QUEUE_TOO_SMALL: About(
        At.TRAINJOB,
        "the job requests more than its queue can have, borrowed quota included, or a resource that the "
        "queue lacks",
        TOO_MUCH,
    ),
    Reason.BLOCKED: About(At.TRAINJOB, "the operator reports that it is blocked", "see the operator's log"),
    Reason.HELD: About(
        At.TRAINJOB,
        "it was created with spec.suspend true, and waits to be resumed",
        f"resume it, and its queue admits it when there is quota: {_RESUME}",
    ),
    Reason.KUEUE_DOWN: About(
        At.WORKLOAD,
        "the job waits in a queue, but Kueue does not run",
        "have the platform team look at Kueue: kubectl get deployments,pods -n {namespace}",
    ),
    Reason.GATED: About(
        At.WORKLOAD,
        "an admission gate keeps the queue from admitting it",
        "ask the owner of the gate (annotation kueue.x-k8s.io/admission-gated-by): {gates}",
    ),
    Reason.WORKLOAD_MISSING: About(
        At.WORKLOAD,
        "the TrainJob names a queue, but Kueue has created no Workload for it",
        "have the platform team check that Kueue runs and manages this namespace",
    ),
    Reason.WORKLOAD_UNSEEN: About(
        At.WORKLOAD,
        "the TrainJob waits in a queue, and you may not see its Workload",
        "ask somebody who may: kubectl get workloads.kueue.x-k8s.io -n {namespace}",
    ),
    Reason.WORKLOAD_INACTIVE: About(
        At.WORKLOAD,
        "the Workload was deactivated",
        "see why (kubectl describe workload {name} -n {namespace}), then set its spec.active to true",
    ),
    Reason.WORKLOAD_INADMISSIBLE: About(
        At.WORKLOAD,
        "the queue is missing, stopped, misconfigured or too small for the TrainJob",
        "use another queue (label kueue.x-k8s.io/queue-name), ask for less, or have the platform team check "
        "LocalQueue {queue} and its ClusterQueue",
    ),
    Reason.QUOTA_SHORT: About(
        At.WORKLOAD,
        "other jobs use the queue's quota",
        "wait for the jobs before it and for those that use the quota, ask for less, or ask the platform "
        "team to raise the quota behind LocalQueue {queue}",
    ),
    Reason.ADMISSION_CHECK: About(
        At.WORKLOAD,
        "quota is reserved, but an admission check is not ready",
        "ask the owner of AdmissionCheck {check}",
    ),
    Reason.NOT_RESUMED: About(
        At.WORKLOAD,
        "Kueue admitted it a minute ago or more, and it is still suspended",
        "have the platform team read Kueue's log",
    ),
    Reason.SUSPENDED: About(
        At.TRAINJOB,
        "spec.suspend is true, and no queue resumes it",
        f"resume it: {_RESUME}",
    ),
    Reason.JOBSET_CONTROLLER_DOWN: About(
        At.JOBSET,
        "no controller acts on JobSets",
        "have the platform team look at the JobSet controller: kubectl get deployments,pods -n {namespace}",
    ),
    Reason.JOBSET_NOT_CREATED: About(
        At.JOBSET,
        "the operator has not been able to create the JobSet and tries again",
        "have the platform team read the operator's log: a webhook that does not answer is a common cause",
    ),
    Reason.JOBS_REFUSED: About(
        At.JOBS,
        "a child of the JobSet was refused",
        MEND_CONTENT,
    ),
    Reason.PODS_OVER_QUOTA: About(
        At.PODS,
        "a ResourceQuota has no room for the pods",
        "wait for other jobs to end, ask for less, or have ResourceQuota {quota} raised",
    ),
    Reason.PODS_REFUSED: About(
        At.PODS,
        "admission refuses the pods",
        MEND_CONTENT,
    ),
    Reason.NODE_LOST: About(
        At.NODES,
        "a node with pods of the job is gone or not ready",
        "wait for it to come back or for its pods to be replaced; have the platform team look at {node}",
    ),
    Reason.CLAIM_MISSING: About(
        At.PODS,
        "a pod names a PersistentVolumeClaim that does not exist",
        "create PersistentVolumeClaim {claim}, or correct the name",
    ),
    Reason.CLAIM_PENDING: About(
        At.PODS,
        "a PersistentVolumeClaim has no volume",
        "check that StorageClass {storage_class} exists and can provision such volumes: "
        "kubectl describe pvc {claim} -n {namespace}",
    ),
    Reason.GANG_INCOMPLETE: About(
        At.GANG,
        "the gang scheduler starts all pods or none, and cannot place all of them",
        "wait for others to end, ask for less, or have Queue {queue} or the nodes enlarged",
    ),
    Reason.SCHEDULING_GATED: About(
        At.PODS, "a scheduling gate holds the pods", "ask the owner of the gate {gates}"
    ),
    Reason.NO_SCHEDULER: About(
        At.PODS,
        "no scheduler has considered the pods",
        "have the platform team check that the scheduler {scheduler} runs",
    ),
    Reason.NO_DEVICE: About(
        At.PODS,
        "no node that the pods may run on offers the device that they ask for",
        "have the platform team check that there are nodes with {resource} and its driver, and that "
        "a device plugin runs on them (accelerators in the stack file)",
    ),
    Reason.NO_NODE_FITS: About(
        At.PODS,
        "no node has the resources, taints or labels that the pods ask for",
        "ask for what nodes have (resourcesPerNode, nodeSelector, tolerations), or have such a node added",
    ),
    Reason.IMAGE_NOT_PULLED: About(
        At.PODS,
        "an image cannot be pulled",
        "correct the image {image}, or give the pods a pull secret for its registry",
    ),
    Reason.SECRET_MISSING: About(
        At.PODS, "a pod needs a Secret that does not exist", "create Secret {secret}, or correct the name"
    ),
    Reason.CONFIG_MISSING: About(
        At.PODS,
        "a container cannot be configured: a ConfigMap or a key is missing",
        "create what the message names, or correct the name",
    ),
    Reason.SANDBOX_NOT_MADE: About(
        At.PODS,
        "a node cannot create the sandbox that the pod's containers run in",
        "raise a limit that is too small for any container ({limits}), or have the platform team look at "
        "node {node}",
    ),
    Reason.VOLUME_NOT_MOUNTED: About(
        At.PODS,
        "a volume cannot be attached or mounted",
        "correct what the message names, or have the platform team look at the storage",
    ),
    Reason.CANNOT_START: About(
        At.PODS,
        "the container cannot be started",
        "correct command, working directory or mounts of container {container}",
    ),
    Reason.EVICTED: About(
        At.PODS,
        "a node has evicted a pod: disk or memory ran short, or the pod wrote more than its limit",
        "write less to the pod's own disk, or to a volume; or ask for more ephemeral-storage in "
        "resourcesPerNode",
    ),
    Reason.OOM_KILLED: About(
        At.PODS,
        "a container used more memory than its limit",
        "raise the memory limit ({limit}) in resourcesPerNode, or use less",
    ),
    Reason.CONTAINER_EXITED: About(
        At.PODS,
        "a container exits with an error",
        "see its log: kubectl logs {pod} -c {container} -n {namespace}",
    ),
    Reason.INITIALIZER_RETRIES: About(
        At.PODS,
        "an initializer cannot fetch its dataset or model, and tries again",
        "check that the address is right, and ask the platform team that pods of this namespace may reach "
        "it (a tenant's egress in the stack file)",
    ),
    Reason.RANK_MISSING: About(
        At.PODS,
        "some ranks wait at the rendezvous for a rank that has not joined",
        "look at {what}: kubectl describe {what} -n {namespace}",
    ),
    Reason.RANK_LEFT: About(
        At.PODS,
        "some ranks have ended with exit code 0 while others still run",
        "see what the others wait for: kubectl logs {pod} -c {container} -n {namespace}",
    ),
    Reason.DEADLINE_EXCEEDED: About(
        At.TRAINJOB,
        "the TrainJob ran longer than spec.activeDeadlineSeconds",
        "create it again with a larger activeDeadlineSeconds ({seconds})",
    ),
    Reason.SAME_FAILURE: About(
        At.TRAINJOB,
        "its last two attempts failed in the same way, so it was not tried again",
        AFTER_THE_SAME_FAILURE,
    ),
    Reason.ATTEMPT_FAILED: About(
        At.ATTEMPTS,
        "its last attempt failed and its pods are gone; the operator noted how they ended",
        "correct what the last lines name, and create the TrainJob again",
    ),
    Reason.JOBSET_FAILED: About(
        At.JOBSET,
        "the TrainJob has failed, and no container is left to show why",
        "see its events: kubectl get events -n {namespace} --field-selector involvedObject.name={name}",
    ),
}
