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
        "wait until it no longer exists; if it remains, ask the owners of its finalizers: {finalizers}",
    ),
    Reason.MANAGED_ELSEWHERE: About(
        At.TRAINJOB,
        "spec.managedBy names another controller",
        "look for the TrainJob where {manager} runs it. To run it in this cluster, create it again without "
        "spec.managedBy",
    ),
    Reason.OPERATOR_DOWN: About(
        At.TRAINJOB,
        "the operator does not run: no replica holds its Lease",
        "have the platform team look at the operator: kubectl get deployments,pods -n {namespace}",
    ),
    Reason.RUNTIME_NOT_FOUND: About(
        At.RUNTIME,
        "the runtime that the TrainJob names does not exist",
        "create {runtime}, or create the TrainJob again with another runtimeRef",
    ),
    Reason.RUNTIME_INVALID: About(
        At.RUNTIME,
        "the operator cannot build a JobSet from the runtime",
        "correct the runtime or the TrainJob",
    ),
    Reason.POLICY_UNSUPPORTED: About(
        At.RUNTIME, "the operator does not support the runtime's mlPolicy", "use another runtime"
    ),
    Reason.JOBSET_CONFLICT: About(
        At.JOBSET,
        "another owner has an object with the name of the JobSet, or of an object that belongs to the JobSet"
        ". Or finalizers keep an object with such a name, which is being deleted",
        "delete that object, or create the TrainJob again under another name",
    ),
    Reason.JOBSET_REJECTED: About(
        At.JOBSET,
        "the API server, a webhook or an admission policy refuses the JobSet",
        "correct the runtime or the TrainJob's runtimePatches",
    ),
    Reason.FORBIDDEN: About(
        At.JOBSET,
        "the operator does not have a permission that the TrainJob needs",
        "have the platform team grant the operator the permission that the message names",
    ),
    Reason.QUOTA_EXCEEDED: About(
        At.JOBSET,
        "the JobSet would exceed the ResourceQuota of the namespace",
        "wait for other jobs to end, or have the namespace's ResourceQuota raised",
    ),
    Reason.CRD_MISSING: About(
        At.JOBSET,
        "the cluster does not have a CRD that the TrainJob needs",
        "have the platform team install it",
    ),
    Reason.QUEUE_NOT_FOUND: About(
        At.TRAINJOB,
        "the LocalQueue that the TrainJob names does not exist in its namespace",
        NO_SUCH_QUEUE,
    ),
    Reason.QUEUE_TOO_SMALL: About(
        At.TRAINJOB,
        "the queue can never have enough quota for the TrainJob, even with borrowed quota. Or it has no "
        "quota for a requested resource",
        TOO_MUCH,
    ),
    Reason.BLOCKED: About(
        At.TRAINJOB,
        "the operator reports the TrainJob as Blocked, with a reason that is not in this table",
        "have the platform team read the operator's log",
    ),
    Reason.HELD: About(
        At.TRAINJOB,
        "the TrainJob was created with spec.suspend true, and nobody has resumed it",
        f"resume it, so that its queue can admit it: {_RESUME}",
    ),
    Reason.KUEUE_DOWN: About(
        At.WORKLOAD,
        "the TrainJob waits in a queue, or Kueue has to stop its pods, but Kueue does not run",
        "have the platform team look at Kueue: kubectl get deployments,pods -n {namespace}",
    ),
    Reason.GATED: About(
        At.WORKLOAD,
        "an admission gate prevents Kueue from admitting the TrainJob",
        "ask the owner of the gate (annotation kueue.x-k8s.io/admission-gated-by): {gates}",
    ),
    Reason.WORKLOAD_MISSING: About(
        At.WORKLOAD,
        "the TrainJob names a queue, but Kueue has created no Workload for it",
        "have the platform team check that Kueue runs and manages this namespace",
    ),
    Reason.WORKLOAD_UNSEEN: About(
        At.WORKLOAD,
        "the TrainJob waits in a queue, and you do not have the right to see its Workload",
        "have somebody with this right run: kubectl get workloads.kueue.x-k8s.io -n {namespace}",
    ),
    Reason.WORKLOAD_INACTIVE: About(
        At.WORKLOAD,
        "the Workload is deactivated (its spec.active is false)",
        "see why (kubectl describe workload {name} -n {namespace}), then have the platform team set its "
        "spec.active to true",
    ),
    Reason.WORKLOAD_INADMISSIBLE: About(
        At.WORKLOAD,
        "the queue is missing, stopped, misconfigured or too small for the TrainJob",
        "use another queue (label kueue.x-k8s.io/queue-name), request fewer resources, or have the platform "
        "team check LocalQueue {queue} and its ClusterQueue",
    ),
    Reason.REQUEUED_LATER: About(
        At.WORKLOAD,
        "Kueue has evicted the TrainJob and tries it again later: its pods were not ready in time, or an "
        "AdmissionCheck asks for it",
        "wait until then. If it happens again, find out why the pods are not ready in time (usually, an "
        "image takes long to pull, or a node does not start), or ask the owner of the AdmissionCheck",
    ),
    Reason.QUOTA_SHORT: About(
        At.WORKLOAD,
        "other jobs use the queue's quota",
        "wait until enough quota is free for the TrainJob and for the jobs before it. To start sooner, "
        "request fewer resources, or ask the platform team for more quota for LocalQueue {queue}",
    ),
    Reason.ADMISSION_CHECK: About(
        At.WORKLOAD,
        "Kueue has reserved quota, but an AdmissionCheck of the Workload is not Ready yet",
        "ask the owner of AdmissionCheck {check}",
    ),
    Reason.NOT_RESUMED: About(
        At.WORKLOAD,
        "Kueue admitted the Workload at least a minute ago, but has not resumed the TrainJob or its JobSet",
        "have the platform team read Kueue's log",
    ),
    Reason.SUSPENDED: About(
        At.TRAINJOB,
        "spec.suspend is true, and Kueue does not resume the TrainJob",
        f"resume it: {_RESUME}",
    ),
    Reason.JOBSET_CONTROLLER_DOWN: About(
        At.JOBSET,
        "the JobSet controller does not run, or does not act on the JobSet",
        "have the platform team look at the JobSet controller: kubectl get deployments,pods -n {namespace}",
    ),
    Reason.JOBSET_NOT_CREATED: About(
        At.JOBSET,
        "the operator could not create the JobSet yet, and tries again",
        "have the platform team read the operator's log: a webhook that does not answer is a common cause",
    ),
    Reason.JOBS_REFUSED: About(
        At.JOBS,
        "the API server, a webhook or an admission policy refuses an object of the JobSet, such as a Job",
        MEND_CONTENT,
    ),
    Reason.PODS_OVER_QUOTA: About(
        At.PODS,
        "the pods would exceed a ResourceQuota",
        "wait for other jobs to end, request fewer resources, or have ResourceQuota {quota} raised",
    ),
    Reason.PODS_REFUSED: About(
        At.PODS,
        "the API server, a webhook or an admission policy refuses the pods",
        MEND_CONTENT,
    ),
    Reason.NODE_LOST: About(
        At.NODES,
        "a node with pods of the TrainJob is not Ready or no longer exists",
        "wait until {node} is Ready or its pods are replaced, and inform the platform team",
    ),
    Reason.CLAIM_MISSING: About(
        At.PODS,
        "a pod names a PersistentVolumeClaim that does not exist",
        "create PersistentVolumeClaim {claim}, or correct the name",
    ),
    Reason.CLAIM_PENDING: About(
        At.PODS,
        "a PersistentVolumeClaim has no volume yet",
        "see why (kubectl describe pvc {claim} -n {namespace}), and have the platform team check that "
        "StorageClass {storage_class} exists and can provision such volumes",
    ),
    Reason.GANG_INCOMPLETE: About(
        At.GANG,
        "the gang scheduler starts all pods together, and does not find nodes for all of them",
        "wait for other jobs to end, request fewer resources, or have the platform team enlarge Queue "
        "{queue} or add nodes",
    ),
    Reason.SCHEDULING_GATED: About(
        At.PODS,
        "the pods have a scheduling gate, so the scheduler does not consider them",
        "ask the owner of the gate {gates}",
    ),
    Reason.NO_SCHEDULER: About(
        At.PODS,
        "the scheduler of the pods has not reported on them",
        "have the platform team check that the scheduler {scheduler} runs",
    ),
    Reason.NO_DEVICE: About(
        At.PODS,
        "the pods request a device, but none of the nodes on which they can run offers it",
        "have the platform team check that there are nodes with {resource} and its driver, and that "
        "a device plugin runs on them (setting accelerators in the stack file)",
    ),
    Reason.NO_NODE_FITS: About(
        At.PODS,
        "no node matches the resource requests, the node selector and the tolerations of the pods",
        "change resourcesPerNode, nodeSelector or tolerations so that a node matches, or have the platform "
        "team add a matching node",
    ),
    Reason.IMAGE_NOT_PULLED: About(
        At.PODS,
        "a node cannot pull an image",
        "correct the image {image}, or give the pods a pull secret for its registry",
    ),
    Reason.SECRET_MISSING: About(
        At.PODS, "a pod needs a Secret that does not exist", "create Secret {secret}, or correct the name"
    ),
    Reason.CONFIG_MISSING: About(
        At.PODS,
        "a node cannot configure a container, usually because a ConfigMap or a key does not exist",
        "create the object or key that the message names, or correct its name",
    ),
    Reason.SANDBOX_NOT_MADE: About(
        At.PODS,
        "a node cannot create the pod sandbox, in which the containers of the pod run",
        "raise a limit that is too small for any container ({limits}), or have the platform team look at "
        "node {node}",
    ),
    Reason.VOLUME_NOT_MOUNTED: About(
        At.PODS,
        "a node cannot attach or mount a volume",
        "correct the volume that the message names, or have the platform team check the storage",
    ),
    Reason.CANNOT_START: About(
        At.PODS,
        "a node cannot start a container",
        "correct the command, the working directory or the mounts of container {container}. If the message "
        "names none of them, have the platform team look at the node",
    ),
    Reason.EVICTED: About(
        At.PODS,
        "a node has evicted a pod: the node is short of disk or memory, or the pod exceeds its disk limit",
        "if the message names memory, request more memory in resourcesPerNode. Otherwise, write less to the "
        "pod's own disk, write to a volume instead, or request more ephemeral-storage in resourcesPerNode",
    ),
    Reason.OOM_KILLED: About(
        At.PODS,
        "a container used more memory than its limit",
        "raise the memory limit ({limit}) in resourcesPerNode, or use less",
    ),
    Reason.CONTAINER_EXITED: About(
        At.PODS,
        "a container has ended with an error",
        "see its log: kubectl logs {pod} -c {container} -n {namespace}",
    ),
    Reason.INITIALIZER_RETRIES: About(
        At.PODS,
        "an initializer cannot fetch its dataset or model, and tries again",
        "check the address. If it is correct, have the platform team allow pods of this namespace to connect "
        "to it (egress of the tenant in the stack file)",
    ),
    Reason.CACHE_WAITS: About(
        At.PODS,
        "a pod of the data cache cannot start, and the initializer waits for it",
        "correct what the message names; the cache then continues by itself. See its pods: "
        "kubectl get pods -l leaderworkerset.sigs.k8s.io/name={cache} -n {namespace}",
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
        "the last two attempts failed in the same way, so the operator starts no further attempt",
        AFTER_THE_SAME_FAILURE,
    ),
    Reason.ATTEMPT_FAILED: About(
        At.ATTEMPTS,
        "the last attempt failed. The pod that failed first no longer exists, but the operator has recorded "
        "its failure",
        "correct the error that the last lines report, and create the TrainJob again",
    ),
    Reason.JOBSET_FAILED: About(
        At.JOBSET,
        "the TrainJob has failed, and no container or record shows the reason",
        "see its events: kubectl get events -n {namespace} --field-selector involvedObject.name={name}",
    ),
}
