"""Causes on the node: images, Secrets, volumes, containers; and how jobs fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainyard_api.reasons import Reason
from trainyard_assist.explain import Finding, Ref, State

from .cases import FIRST, SECOND, SELF, Case, failed
from .objects import (
    Object,
    ago,
    condition,
    container,
    event,
    job,
    jobset,
    pod,
    seen,
    terminated,
    trainjob,
    unready,
    waiting,
)

SAID = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no\n'
FAILED_FIRST = f"rank 3 failed at 2026-01-01T12:00:00.5+00:00 with exit code 3\n{SAID}"
BESIDE = "failed at 2026-01-01T12:00:00.5+00:00 with exit code 1\nImportError: no numpy\n"
KILLED = "rank 3 failed at 2026-01-01T12:00:00.5+00:00 with exit code 137\n"
LOST_OTHERS = (
    "rank 0 lost others at 2026-01-01T12:00:00.1+00:00 with exit code 1\nConnection closed by peer\n"
)

WAITS_FOR_A_POD = (
    "1 of 3 pods of the cache are ready; pod tj-cache-0-2 is not scheduled: 0/4 nodes are available"
)


LAST_ATTEMPT = Finding(
    Reason.ATTEMPT_FAILED,
    SECOND,
    "in attempt 2 node 1 failed first: exit code 1, container node of pod tj-node-0-1-x on node n1: "
    "ValueError: no (train.py:3)",
    "correct the error that the last lines report, and create the TrainJob again",
    log=("Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: no"),
)
"""What is told of the second attempt of `with_attempts`."""


def with_attempts() -> Object:
    """A TrainJob that has failed twice, as the operator has noted."""
    first = {
        "job": "node",
        "index": 1,
        "pod": "tj-node-0-1-x",
        "node": "n1",
        "container": "node",
        "exitCode": 1,
        "reason": "Error",
        "failedAt": "2026-01-01T12:00:00Z",
    }
    failed = trainjob(condition("Failed", "FailedJobs", "jobset failed due to one or more job failures"))
    noted = [{"attempt": 1, **first}, {"attempt": 2, **first, "message": SAID}]
    return {**failed, "status": {**failed["status"], "trainyard": {"attempts": noted}}}


def tried_again(**last: Any) -> Object:
    """The same while the next attempt runs; of the last one something may be noted otherwise."""
    first, second = with_attempts()["status"]["trainyard"]["attempts"]
    return {**trainjob(), "status": {"trainyard": {"attempts": [first, {**second, **last}]}}}


def noted_once(**fields: Any) -> Object:
    """A TrainJob that runs, of whose first attempt a failure is noted."""
    first, _ = with_attempts()["status"]["trainyard"]["attempts"]
    return {**trainjob(), "status": {"trainyard": {"attempts": [{**first, **fields}]}}}


def restarted(times: int, **spec: Any) -> Object:
    """Its JobSet, which has begun anew so often."""
    return {**jobset(**spec), "status": {"restarts": times}}


CHECKPOINTS = {
    "templates": [{"metadata": {"name": "checkpoints"}}],
    "retentionPolicy": {"whenDeleted": "Delete"},
}


def initializer() -> Object:
    found = job("tj-dataset-initializer-0", ranks=1)
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}
    return {**found, "metadata": {**found["metadata"], "labels": labels}}


def failed_alike() -> Object:
    """A TrainJob that has failed twice alike, and that the operator has not let be tried again."""
    message = (
        "attempts 1 and 2 failed in the same way, so there is no further attempt: "
        "node 1 failed first: ValueError: no; the next step"
    )
    noted = with_attempts()["status"]["trainyard"]
    ended = trainjob(condition("Failed", "SameFailureTwice", message))
    return {**ended, "status": {**ended["status"], "trainyard": noted}}


def exited(how: str, **more: Any) -> Finding:
    """What is told of the first rank's container: the code, and what more is known of its end."""
    see = "see its log: kubectl logs tj-node-0-0-x -c node -n team"
    return Finding(Reason.CONTAINER_EXITED, FIRST, f"container node exited with code {how}", see, **more)


ON_A_SANDBOX = "On a sandbox, `trainyard sandbox up --with all` adds it"
LISTED = f"{ON_A_SANDBOX}. On another cluster, the platform team lists it in `artifacts.images`"
INITIALIZERS = "docker.io/trainyard/initializers:1.0.0"
AS_ITS_OWN = f"{ON_A_SANDBOX}. On another cluster, set as `image` its name in `images.txt` of a release"


def without_image(image: str) -> Object:
    """The first rank, whose image no registry has."""
    status = {"name": "node", "image": image, "state": waiting("ErrImagePull", "no such host")}
    return pod(statuses=[status], phase="Pending")


def without_initializer(*variables: str) -> Object:
    """The pod of an initializer, whose image no registry has."""
    name = "dataset-initializer"
    spec = {"name": name, "image": INITIALIZERS, "env": [{"name": variable} for variable in variables]}
    status = {"name": name, "image": INITIALIZERS, "state": waiting("ErrImagePull", "no such host")}
    return pod(statuses=[status], phase="Pending", containers=[spec])


def not_pulled(image: str, hint: str) -> Finding:
    message = f"image {image} cannot be pulled: ErrImagePull: no such host. {hint}"
    then = f"correct the image {image}, or give the pods a pull secret for its registry"
    return Finding(Reason.IMAGE_NOT_PULLED, FIRST, message, then)


def of_framework(name: str) -> Object:
    return {"metadata": {"name": "rt", "labels": {"trainer.kubeflow.org/framework": name}}}


CASES = (
    Case(
        "an image that cannot be pulled is named, and every rank that waits for it",
        seen(
            pods=(
                pod(0),
                pod(1, "Pending", state=waiting("ImagePullBackOff", "Back-off pulling")),
            )
        ),
        Finding(
            Reason.IMAGE_NOT_PULLED,
            SECOND,
            "image img:1 cannot be pulled: ImagePullBackOff: Back-off pulling",
            "correct the image img:1, or give the pods a pull secret for its registry",
            ranks=(1,),
        ),
    ),
    Case(
        "an image that a sandbox has only if somebody asks for it comes with the command that brings it",
        seen(pods=(without_image("docker.io/trainyard/mpi:sandbox"),)),
        not_pulled("docker.io/trainyard/mpi:sandbox", ON_A_SANDBOX),
    ),
    Case(
        "an image that a release publishes under another name comes with the setting that has this name",
        seen(pods=(without_image("docker.io/trainyard/lightgbm:1.0.0"),)),
        not_pulled(
            "docker.io/trainyard/lightgbm:1.0.0",
            f"{LISTED}, and leaves out `runtimes.rt.image`",
        ),
    ),
    Case(
        "of an initializer's image no setting of the trainer's is named",
        seen(pods=(without_initializer(),)),
        not_pulled(INITIALIZERS, LISTED),
    ),
    Case(
        "the initializer's image of a runtime with a data cache comes with the setting of it",
        seen(pods=(without_initializer("CACHE_IMAGE"),)),
        not_pulled(INITIALIZERS, f"{LISTED}, and leaves out `dataCache.initializerImage`"),
    ),
    Case(
        "an image that the TrainJob itself names cannot come from a setting of the platform",
        seen(
            trainjob=trainjob(trainer={"image": "docker.io/trainyard/trainers:1.0.0"}),
            pods=(without_image("docker.io/trainyard/trainers:1.0.0"),),
        ),
        not_pulled("docker.io/trainyard/trainers:1.0.0", AS_ITS_OWN),
    ),
    Case(
        "nor can that of a runtime that the platform does not install",
        seen(
            trainjob=trainjob(runtimeRef={"kind": "TrainingRuntime", "name": "rt"}),
            pods=(without_image("docker.io/trainyard/trainers:1.0.0"),),
        ),
        not_pulled("docker.io/trainyard/trainers:1.0.0", AS_ITS_OWN),
    ),
    Case(
        "a Secret that a container reads is named",
        seen(
            pods=(pod(0, "Pending", state=waiting("CreateContainerConfigError", 'secret "token" not found')),)
        ),
        Finding(
            Reason.SECRET_MISSING,
            Ref("Secret", "token", "team"),
            'Pod tj-node-0-0-x: secret "token" not found',
            "create Secret token, or correct the name",
        ),
    ),
    Case(
        "a Secret that a volume is made of is named",
        seen(
            pods=(pod(0, "Pending", state=waiting("ContainerCreating")),),
            events=(event("uid-of-tj-node-0-0-x", "FailedMount", 'volume "v" : secret "token" not found'),),
        ),
        Finding(
            Reason.SECRET_MISSING,
            Ref("Secret", "token", "team"),
            'Pod tj-node-0-0-x: volume "v" : secret "token" not found',
            "create Secret token, or correct the name",
        ),
    ),
    Case(
        "a ConfigMap that is missing is told",
        seen(
            pods=(pod(0, "Pending", state=waiting("CreateContainerConfigError", 'configmap "c" not found')),)
        ),
        Finding(
            Reason.CONFIG_MISSING,
            FIRST,
            'container node: configmap "c" not found',
            "create the object or key that the message names, or correct its name",
        ),
    ),
    Case(
        "a volume that cannot be mounted is told",
        seen(
            pods=(pod(0, "Pending", state=waiting("ContainerCreating")),),
            events=(event("uid-of-tj-node-0-0-x", "FailedAttachVolume", "Multi-Attach error"),),
        ),
        Finding(
            Reason.VOLUME_NOT_MOUNTED,
            FIRST,
            "Multi-Attach error",
            "correct the volume that the message names, or have the platform team check the storage",
        ),
    ),
    Case(
        "a command that does not exist is told while it is tried again",
        seen(
            pods=(
                unready(waiting("CrashLoopBackOff"), terminated(128, "StartError", message="no such file")),
            )
        ),
        Finding(
            Reason.CANNOT_START,
            FIRST,
            "container node: no such file",
            "correct the command, the working directory or the mounts of container node. If the message "
            "names none of them, have the platform team look at the node",
        ),
    ),
    Case(
        "a command that does not exist is told once the job has failed",
        failed(pods=(pod(0, "Failed", state=terminated(128, "StartError", message="no such file")),)),
        Finding(
            Reason.CANNOT_START,
            FIRST,
            "container node: no such file",
            "correct the command, the working directory or the mounts of container node. If the message "
            "names none of them, have the platform team look at the node",
        ),
        State.FAILED,
    ),
    Case(
        "the container that failed first is the cause, not those that failed for want of it",
        failed(
            pods=(
                pod(0, "Failed", state=terminated(1, at=10)),
                pod(1, "Failed", state=terminated(137, "OOMKilled", at=12), limits={"memory": "1Gi"}),
            ),
            log=("epoch 1",),
        ),
        Finding(
            Reason.OOM_KILLED,
            SECOND,
            "container node used more than its memory limit (1Gi)",
            "raise the memory limit (1Gi) in resourcesPerNode, or use less",
            log=("epoch 1",),
        ),
        State.FAILED,
    ),
    Case(
        "of ranks that ended in one second the one is told that has not lost another, with its traceback",
        failed(
            pods=(
                pod(0, "Failed", state=terminated(1, message=LOST_OTHERS)),
                pod(1, "Failed", state=terminated(1, message=FAILED_FIRST)),
            ),
            log=("torchrun's footer",),
        ),
        Finding(
            Reason.CONTAINER_EXITED,
            SECOND,
            "rank 3 (node 1) failed first: exit code 3, container node of pod tj-node-0-1-x on node n1: "
            "ValueError: no (train.py:3)",
            "see its log: kubectl logs tj-node-0-1-x -c node -n team",
            log=("Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: no"),
        ),
        State.FAILED,
    ),
    Case(
        "of a rank that was killed again and again its attempt is told, and what it may have wanted",
        failed(
            jobset=restarted(1),
            pods=(
                pod(
                    1,
                    statuses=[container(waiting("CrashLoopBackOff"), terminated(1, message=KILLED), 2)],
                    limits={"memory": "1Gi"},
                ),
            ),
        ),
        Finding(
            Reason.CONTAINER_EXITED,
            SECOND,
            "after 2 restarts in attempt 2 rank 3 (node 1) failed first: exit code 137 (SIGKILL, often "
            "because memory ran out, its limit is 1Gi), container node of pod tj-node-0-1-x on node n1",
            "see its log: kubectl logs tj-node-0-1-x -c node -n team",
            ranks=(1,),
        ),
        State.FAILED,
    ),
    Case(
        "a container that exits again and again is told with its log",
        seen(
            pods=(unready(waiting("CrashLoopBackOff"), terminated(3), restarts=4), pod(1)),
            log=("Traceback", "  lost"),
        ),
        exited("3, after 4 restarts", ranks=(0,), log=("Traceback", "  lost")),
    ),
    Case(
        "what is noted of a JobSet that was deleted is not why a container of its successor exits",
        seen(
            trainjob=noted_once(failedAt=ago(55)),
            pods=(unready(waiting("CrashLoopBackOff"), terminated(3), restarts=4), pod(2)),
        ),
        exited("3, after 4 restarts", ranks=(0,)),
    ),
    Case(
        "nor is a failure after which the job had continued",
        seen(
            trainjob=noted_once(failedAt=ago(3600)),
            jobset=jobset(seconds=7200),
            pods=(unready(waiting("CrashLoopBackOff"), terminated(3), restarts=4), pod(2)),
        ),
        exited("3, after 4 restarts", ranks=(0,)),
    ),
    Case(
        "a container that was started again just now, as often before, is not believed",
        seen(pods=(unready({"running": {"startedAt": ago(3)}}, terminated(3), restarts=2), pod(1))),
        Finding(
            Reason.CONTAINER_EXITED,
            FIRST,
            "container node exited with code 3, after 2 restarts",
            "see its log: kubectl logs tj-node-0-0-x -c node -n team --previous",
            ranks=(0,),
        ),
    ),
    Case(
        "a container that was killed, and nobody says why, may have wanted more memory than its limit",
        failed(pods=(pod(0, "Failed", state=terminated(137), limits={"memory": "1Gi"}),)),
        exited("137 (SIGKILL, often because memory ran out, its limit is 1Gi)"),
        State.FAILED,
    ),
    Case(
        "of a container that was killed, what a program beside its own had left before is not told",
        failed(pods=(pod(0, "Failed", state=terminated(137, message=BESIDE)),)),
        exited("137 (SIGKILL, often because memory ran out)"),
        State.FAILED,
    ),
    Case(
        "a container that was killed where it has no limit may have wanted more memory than its node has",
        failed(pods=(pod(0, "Failed", state=terminated(137)),)),
        exited("137 (SIGKILL, often because memory ran out)"),
        State.FAILED,
    ),
    Case(
        "a container that crashed is told with the signal",
        failed(pods=(pod(0, "Failed", state=terminated(139)),)),
        exited("139 (SIGSEGV)"),
        State.FAILED,
    ),
    Case(
        "a code above all signals is a code alone",
        failed(pods=(pod(0, "Failed", state=terminated(255)),)),
        exited("255"),
        State.FAILED,
    ),
    Case(
        "a container that died of a bus error may have wanted more shared memory",
        failed(pods=(pod(0, "Failed", state=terminated(135)),)),
        exited("135 (SIGBUS, often because /dev/shm is full: torch-shared-memory has a larger one)"),
        State.FAILED,
    ),
    Case(
        "an evicted pod is told as its node tells it, not by how its container ended",
        failed(
            pods=(
                {
                    **pod(0, "Failed", state=terminated(137)),
                    "status": {
                        **pod(0, "Failed", state=terminated(137))["status"],
                        "reason": "Evicted",
                        "message": 'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi".',
                    },
                },
            )
        ),
        Finding(
            Reason.EVICTED,
            FIRST,
            'node n1: Usage of EmptyDir volume "scratch" exceeds the limit "1Gi".',
            "if the message names memory, request more memory in resourcesPerNode. Otherwise, write less to "
            "the pod's own disk, write to a volume instead, or request more ephemeral-storage in "
            "resourcesPerNode",
        ),
        State.FAILED,
    ),
    Case(
        "a limit that is too small for any container is named where its node cannot make the pod",
        seen(
            pods=(pod(0, "Pending", limits={"memory": "512m"}),),
            events=(event("uid-of-tj-node-0-0-x", "FailedCreatePodSandBox", "init was OOM-killed"),),
        ),
        Finding(
            Reason.SANDBOX_NOT_MADE,
            FIRST,
            "init was OOM-killed",
            "raise a limit that is too small for any container (memory 512m of node), or have the platform "
            "team look at node n1",
        ),
    ),
    Case(
        "so it is where the pod's own volumes in memory have no room within it",
        seen(
            pods=(pod(0, "Pending", limits={"memory": "512m"}),),
            events=(event("uid-of-tj-node-0-0-x", "FailedMount", "no space left on device"),),
        ),
        Finding(
            Reason.SANDBOX_NOT_MADE,
            FIRST,
            "no space left on device",
            "raise a limit that is too small for any container (memory 512m of node), or have the platform "
            "team look at node n1",
        ),
    ),
    Case(
        "another pod than the one that is left failed first, and that one is told",
        failed(
            jobset=restarted(1),
            pods=(pod(0, "Failed", state=terminated(1, message="Connection closed by peer")),),
            trainjob=with_attempts(),
        ),
        LAST_ATTEMPT,
        State.FAILED,
    ),
    Case(
        "whoever would create a TrainJob again is told that its volume goes with it",
        failed(
            pods=(),
            jobset=restarted(1, volumeClaimPolicies=[CHECKPOINTS]),
            trainjob=with_attempts(),
        ),
        replace(
            LAST_ATTEMPT,
            next_step="correct the error that the last lines report, and create the TrainJob again. If you "
            "delete this TrainJob, its volume (checkpoints) and the checkpoints on it are deleted too. Use "
            "another name for the new TrainJob, and delete this one when you have copied the checkpoints or "
            "no longer need them",
        ),
        State.FAILED,
    ),
    Case(
        "an initializer that tries again says what it cannot do",
        seen(
            jobs=(initializer(),),
            pods=(pod(0, of="tj-dataset-initializer-0"),),
            log=("fetching", "hub.example.com: no such host; trying again in 8 s"),
        ),
        Finding(
            Reason.INITIALIZER_RETRIES,
            Ref("Pod", "tj-dataset-initializer-0-0-x", "team"),
            "hub.example.com: no such host; trying again in 8 s",
            "check the address. If it is correct, have the platform team allow pods of this namespace to "
            "connect to it (egress of the tenant in the stack file)",
            log=("fetching", "hub.example.com: no such host; trying again in 8 s"),
        ),
    ),
    Case(
        "an initializer whose data cache has a pod that cannot start says which",
        seen(
            jobs=(initializer(),),
            pods=(pod(0, of="tj-dataset-initializer-0"),),
            log=("waiting", WAITS_FOR_A_POD),
        ),
        Finding(
            Reason.CACHE_WAITS,
            Ref("LeaderWorkerSet", "tj-cache", "team"),
            WAITS_FOR_A_POD,
            "correct what the message names; the cache then continues by itself. See its pods: kubectl get "
            "pods -l leaderworkerset.sigs.k8s.io/name=tj-cache -n team",
        ),
    ),
    Case(
        "a rank that ended early is told when the others still run after a minute",
        seen(
            runtime=of_framework("torch"),
            jobs=(job(completedIndexes="0"),),
            pods=(pod(0, "Succeeded", state=terminated(0, "Completed", at=90)), pod(1)),
        ),
        Finding(
            Reason.RANK_LEFT,
            SECOND,
            "node 0 of 2 ended with exit code 0 90 s ago, and 1 still run: if they wait for a node that "
            "has ended, they wait forever",
            "see what the others wait for: kubectl logs tj-node-0-1-x -c node -n team",
        ),
    ),
    Case(
        "a rank without a pod is missed by the others",
        seen(pods=(pod(0),)),
        Finding(
            Reason.RANK_MISSING,
            Ref("Job", "tj-node-0", "team"),
            "node 1 of 2 has no pod",
            "look at job tj-node-0: kubectl describe job tj-node-0 -n team",
            ranks=(1,),
        ),
    ),
    Case(
        "a rank that is not Ready is missed by the others",
        seen(
            pods=(pod(0), pod(1, "Running", condition("Ready", status="False"))),
            events=(event("uid-of-tj-node-0-1-x", "Unhealthy", "Readiness probe failed: no"),),
        ),
        Finding(
            Reason.RANK_MISSING,
            SECOND,
            "node 1 of 2 is Running and not Ready: Readiness probe failed: no",
            "look at pod tj-node-0-1-x: kubectl describe pod tj-node-0-1-x -n team",
            ranks=(1,),
        ),
    ),
    Case(
        "a job that ran for too long is told its deadline",
        failed(
            condition("Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline"),
            trainjob=trainjob(
                condition("Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline"),
                activeDeadlineSeconds=30,
            ),
        ),
        Finding(
            Reason.DEADLINE_EXCEEDED,
            SELF,
            "TrainJob exceeded its active deadline of 30 s",
            "create it again with a larger activeDeadlineSeconds (30)",
        ),
        State.FAILED,
    ),
    Case(
        "a job that failed twice alike is told what came twice, and how to have it tried again",
        failed(pods=(), trainjob=failed_alike()),
        Finding(
            Reason.SAME_FAILURE,
            SECOND,
            "attempts 1 and 2 failed in the same way, so there is no further attempt: "
            "node 1 failed first: ValueError: no",
            "correct the cause of the failure, and create the TrainJob again. With the annotation "
            "trainyard.dev/max-restarts, the operator retries a TrainJob even after the same failure",
            log=("Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: no"),
        ),
        State.FAILED,
    ),
    Case(
        "a runtime of a kind that nobody knows has ended the job",
        failed(condition("Failed", "TrainingRuntimeNotSupported", "unsupported runtime: X.y.io"), pods=()),
        Finding(
            Reason.RUNTIME_NOT_FOUND,
            Ref("ClusterTrainingRuntime", "rt"),
            "unsupported runtime: X.y.io",
            "create a runtime, or create the TrainJob again with another runtimeRef",
        ),
        State.FAILED,
    ),
    Case(
        "a job whose pods are gone has failed with how its last attempt was noted to end",
        failed(pods=(), trainjob=with_attempts()),
        LAST_ATTEMPT,
        State.FAILED,
    ),
    Case(
        "a job whose pods are gone has failed with what the JobSet and its Jobs say",
        failed(
            pods=(),
            jobs=(
                {**job(), "status": {"conditions": [condition("Failed", "BackoffLimitExceeded", "enough")]}},
            ),
        ),
        Finding(
            Reason.JOBSET_FAILED,
            Ref("JobSet", "tj", "team"),
            "FailedJobs: jobset failed due to one or more job failures; Job tj-node-0: "
            "BackoffLimitExceeded: enough",
            "see its events: kubectl get events -n team --field-selector involvedObject.name=tj",
        ),
        State.FAILED,
    ),
)
