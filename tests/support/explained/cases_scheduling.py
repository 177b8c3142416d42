"""Causes that keep pods from a node."""

from __future__ import annotations

from typing import Any

from trainyard_api.reasons import Reason
from trainyard_assist.explain import Finding, Ref, Subject
from trainyard_operator.core.decide.causes import MEND_CONTENT

from .cases import ANSWER, ASKS, FIRST, FITS, INSUFFICIENT, PODS, SECOND, UNANSWERED, Case
from .objects import (
    claim,
    condition,
    deleted,
    event,
    homeless,
    job,
    mounts,
    node,
    pod,
    pod_group,
    seen,
    trainjob,
)

UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
POOL = {"trainyard.dev/pool": "h100"}

EIGHT: dict[str, Any] = {"nvidia.com/gpu": "8"}
NONE: dict[str, Any] = {"nvidia.com/gpu": "0"}
CASES = (
    Case(
        "a ResourceQuota that refuses a pod is named, and so is the rank that the others wait for",
        seen(
            pods=(pod(0),),
            events=(
                event(
                    PODS, "FailedCreate", "Error creating: pods is forbidden: exceeded quota: small, used: 1"
                ),
            ),
        ),
        Finding(
            Reason.PODS_OVER_QUOTA,
            Ref("ResourceQuota", "small", "team"),
            "1 of 2 pods exist: Job tj-node-0: pods is forbidden: exceeded quota: small, used: 1",
            "wait for other jobs to end, request fewer resources, or have ResourceQuota small raised",
            ranks=(1,),
        ),
    ),
    Case(
        "if not all pods were looked at, the Job knows how many there are, and nobody which",
        seen(
            jobs=(job(ranks=3, active=2),),
            pods=(pod(0),),
            events=(event(PODS, "FailedCreate", "Error creating: exceeded quota: small"),),
            unseen={Subject.PODS: "there are too many, only the first 1 were looked at"},
        ),
        Finding(
            Reason.PODS_OVER_QUOTA,
            Ref("ResourceQuota", "small", "team"),
            "2 of 3 pods exist: Job tj-node-0: exceeded quota: small",
            "wait for other jobs to end, request fewer resources, or have ResourceQuota small raised",
        ),
    ),
    Case(
        "a policy that refuses the pods is told in its own words",
        seen(pods=(), events=(event(PODS, "FailedCreate", "Error creating: pods is forbidden: no root"),)),
        Finding(
            Reason.PODS_REFUSED,
            Ref("Job", "tj-node-0", "team"),
            "pods is forbidden: no root",
            MEND_CONTENT,
        ),
    ),
    Case(
        "a webhook that does not answer for pods is none that refuses them",
        seen(
            trainjob=trainjob(condition("Blocked", "PodsRefused", f"Job tj-node-0: no root; {MEND_CONTENT}")),
            pods=(),
            events=(event(PODS, "FailedCreate", f"Error creating: {UNANSWERED}"),),
        ),
        Finding(Reason.PODS_REFUSED, Ref("Job", "tj-node-0", "team"), UNANSWERED, ANSWER),
    ),
    Case(
        "a node that does not answer is named with the pods on it",
        seen(nodes=(node(ready="Unknown"),)),
        Finding(
            Reason.NODE_LOST,
            Ref("Node", "n1"),
            "it is not Ready: KubeletStopped: no word of it; pods on it: tj-node-0-0-x, tj-node-0-1-x",
            "wait until Node n1 is Ready or its pods are replaced, and inform the platform team",
            ranks=(0, 1),
        ),
    ),
    Case(
        "a node that is gone is named, also if its pod has been deleted and not replaced",
        seen(pods=(pod(0), deleted(pod(1, node="n2")))),
        Finding(
            Reason.NODE_LOST,
            Ref("Node", "n2"),
            "it no longer exists; pods on it: tj-node-0-1-x",
            "wait until Node n2 is Ready or its pods are replaced, and inform the platform team",
            ranks=(1,),
        ),
    ),
    Case(
        "a node that is gone is named",
        seen(pods=(pod(0), pod(1, node="n2"))),
        Finding(
            Reason.NODE_LOST,
            Ref("Node", "n2"),
            "it no longer exists; pods on it: tj-node-0-1-x",
            "wait until Node n2 is Ready or its pods are replaced, and inform the platform team",
            ranks=(1,),
        ),
    ),
    Case(
        "a claim that does not exist is named before the scheduler's words",
        seen(pods=(homeless(0, "no nodes", volumes=mounts("data")),)),
        Finding(
            Reason.CLAIM_MISSING,
            Ref("PersistentVolumeClaim", "data", "team"),
            "Pod tj-node-0-0-x needs it, and it does not exist",
            "create PersistentVolumeClaim data, or correct the name",
        ),
    ),
    Case(
        "a claim without a volume is told in its provisioner's words",
        seen(
            pods=(homeless(0, "pod has unbound immediate PersistentVolumeClaims", volumes=mounts("data")),),
            claims=(claim(),),
            events=(event("uid-of-data", "ProvisioningFailed", "storageclass fast not found"),),
        ),
        Finding(
            Reason.CLAIM_PENDING,
            Ref("PersistentVolumeClaim", "data", "team"),
            "Pod tj-node-0-0-x waits for it: storageclass fast not found",
            "see why (kubectl describe pvc data -n team), and have the platform team check that "
            "StorageClass fast exists and can provision such volumes",
        ),
    ),
    Case(
        "a gang that cannot be placed is told by its PodGroup",
        seen(
            pods=(homeless(0, "pod group is not ready"), homeless(1, "pod group is not ready")),
            pod_groups=(
                pod_group(
                    "Inqueue", condition("Unschedulable", "NotEnoughResources", "1/2 tasks unschedulable")
                ),
            ),
        ),
        Finding(
            Reason.GANG_INCOMPLETE,
            Ref("PodGroup", "tj", "team"),
            "2 of its 2 pods have no node: 1/2 tasks unschedulable",
            "wait for other jobs to end, request fewer resources, or have the platform team enlarge Queue "
            "gangs or add nodes",
        ),
    ),
    Case(
        "a gang scheduler that speaks of the pods alone is understood too",
        seen(pods=(homeless(0, "rejected by Coscheduling"),), pod_groups=(pod_group("Scheduling"),)),
        Finding(
            Reason.GANG_INCOMPLETE,
            Ref("PodGroup", "tj", "team"),
            "1 of its 2 pods have no node: rejected by Coscheduling",
            "wait for other jobs to end, request fewer resources, or have the platform team enlarge Queue "
            "gangs or add nodes",
        ),
    ),
    Case(
        "a scheduling gate is its owner's",
        seen(pods=(homeless(0, "gated", "SchedulingGated", schedulingGates=[{"name": "x.io/gate"}]),)),
        Finding(
            Reason.SCHEDULING_GATED,
            FIRST,
            "it is held by the scheduling gate x.io/gate",
            "ask the owner of the gate x.io/gate",
        ),
    ),
    Case(
        "a scheduler that says nothing is not there",
        seen(pods=(homeless(0, schedulerName="volcano"),)),
        Finding(
            Reason.NO_SCHEDULER,
            FIRST,
            "volcano has not reported on it for 35 s",
            "have the platform team check that the scheduler volcano runs",
        ),
    ),
    Case(
        "a resource that no node has is named with what was asked for",
        seen(pods=(pod(0), homeless(1, INSUFFICIENT, **ASKS))),
        Finding(
            Reason.NO_NODE_FITS,
            SECOND,
            "0/1 nodes are available: 1 Insufficient cpu. (the pod asks for cpu 64, and no node has "
            "more than 4)",
            FITS,
            ranks=(1,),
        ),
    ),
    Case(
        "of a pod whose init container asks for more than its containers, that is what it asks for",
        seen(
            pods=(
                pod(0),
                homeless(
                    1,
                    INSUFFICIENT,
                    containers=[{"name": "node", "resources": {"requests": {"cpu": "1"}}}],
                    initContainers=[
                        {"name": "fetch", "resources": {"requests": {"cpu": "6"}}},
                        {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    ],
                ),
            )
        ),
        Finding(
            Reason.NO_NODE_FITS,
            SECOND,
            "0/1 nodes are available: 1 Insufficient cpu. (the pod asks for cpu 6, and no node has "
            "more than 4)",
            FITS,
            ranks=(1,),
        ),
    ),
    Case(
        "a device that no node offers which the pod may run on is a device plugin's matter",
        seen(
            pods=(homeless(0, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", nodeSelector=POOL),),
            nodes=(
                node(labels=POOL),
                node("n2", labels=POOL, **NONE),
                node("n3", **EIGHT),
            ),
        ),
        Finding(
            Reason.NO_DEVICE,
            FIRST,
            "it asks for nvidia.com/gpu, but none of the 2 nodes on which it can run offers it",
            "have the platform team check that there are nodes with nvidia.com/gpu and its driver, and "
            "that a device plugin runs on them (setting accelerators in the stack file)",
        ),
    ),
    Case(
        "a device that others use is not",
        seen(
            pods=(homeless(0, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),),
            nodes=(node(**EIGHT),),
        ),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
            "(the pod asks for nvidia.com/gpu 0, which other pods use)",
            FITS,
        ),
    ),
    Case(
        "nor is one whose nodes are still to come",
        seen(
            pods=(homeless(0, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", nodeSelector=POOL),),
        ),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
            "(the pod asks for nvidia.com/gpu 0, and cannot run on nodes that have enough of it: "
            "node n1 lacks the label trainyard.dev/pool=h100)",
            FITS,
        ),
    ),
    Case(
        "a resource that others use is told apart from one that no node has",
        seen(pods=(homeless(0, INSUFFICIENT, **ASKS),), nodes=(node(cpu="96"),)),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            "0/1 nodes are available: 1 Insufficient cpu. (the pod asks for cpu 64, which other pods use)",
            FITS,
        ),
    ),
    Case(
        "a resource that tainted nodes alone have is not called used by others",
        seen(
            pods=(homeless(0, INSUFFICIENT, **ASKS),),
            nodes=(
                node(),
                node("n2", cpu="96", taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}]),
            ),
        ),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            "0/1 nodes are available: 1 Insufficient cpu. (the pod asks for cpu 64, and cannot run on nodes "
            "that have enough of it: node n2 has the taint team=b:NoSchedule)",
            FITS,
        ),
    ),
    Case(
        "a taint that is not tolerated is named, one that is tolerated is not",
        seen(
            pods=(
                homeless(
                    0,
                    "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
                    tolerations=[{"key": "spot", "operator": "Exists"}],
                ),
            ),
            nodes=(
                node(
                    taints=[
                        {"key": "spot", "effect": "NoSchedule"},
                        {"key": "gpu", "value": "true", "effect": "NoSchedule"},
                        {"key": "soft", "effect": "PreferNoSchedule"},
                    ]
                ),
            ),
        ),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            "0/1 nodes are available: 1 node(s) had untolerated taint(s). (node n1 has the taint "
            "gpu=true:NoSchedule)",
            FITS,
        ),
    ),
    Case(
        "a label that no node has is named",
        seen(
            pods=(
                homeless(
                    0,
                    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
                    nodeSelector={"disk": "ssd", "zone": "a"},
                ),
            ),
            nodes=(node(labels={"zone": "a"}),),
        ),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. (no node "
            "has the label "
            "disk=ssd)",
            FITS,
        ),
    ),
    Case(
        "an affinity that matches a node is not the cause",
        seen(pods=(homeless(0, f"0/3 nodes are available: 1 Insufficient cpu, 2 {UNMATCHED}."),)),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            f"0/3 nodes are available: 1 Insufficient cpu, 2 {UNMATCHED}. "
            "(the pod asks for cpu 0, which other pods use)",
            FITS,
        ),
    ),
    Case(
        "an affinity that matches no node is the cause",
        seen(pods=(homeless(0, f"0/3 nodes are available: 3 {UNMATCHED}."),)),
        Finding(
            Reason.NO_NODE_FITS,
            FIRST,
            f"0/3 nodes are available: 3 {UNMATCHED}. (its node affinity matches no node)",
            FITS,
        ),
    ),
)
