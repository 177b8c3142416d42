"""Why something is as it is, in one word: the reasons of conditions, events and explain.

Stable: people and programs look for them. Called by the operator, which writes
them to TrainJobs, and by explain, which finds the rest.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Of a TrainJob's conditions `Blocked` and `Failed`, of our events, and of what explain finds."""

    DELETING = "BeingDeleted"
    MANAGED_ELSEWHERE = "ManagedElsewhere"
    OPERATOR_DOWN = "OperatorNotRunning"
    RUNTIME_NOT_FOUND = "RuntimeNotFound"
    RUNTIME_INVALID = "RuntimeInvalid"
    POLICY_UNSUPPORTED = "MLPolicyNotSupported"
    JOBSET_CONFLICT = "JobSetConflict"
    JOBSET_REJECTED = "JobSetRejected"
    FORBIDDEN = "Forbidden"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CRD_MISSING = "CRDMissing"
    BLOCKED = "Blocked"
    HELD = "SentSuspended"
    GATED = "AdmissionGated"
    WORKLOAD_MISSING = "WorkloadMissing"
    WORKLOAD_UNSEEN = "WaitsInQueue"
    WORKLOAD_INACTIVE = "WorkloadInactive"
    WORKLOAD_INADMISSIBLE = "WorkloadInadmissible"
    QUOTA_SHORT = "QuotaShort"
    ADMISSION_CHECK = "AdmissionCheckPending"
    NOT_RESUMED = "AdmittedButSuspended"
    SUSPENDED = "Suspended"
    JOBSET_CONTROLLER_DOWN = "JobSetControllerDown"
    KUEUE_DOWN = "KueueDown"
    JOBSET_NOT_CREATED = "JobSetNotCreated"
    JOBS_REFUSED = "JobsRefused"
    PODS_OVER_QUOTA = "PodsOverQuota"
    PODS_REFUSED = "PodsRefused"
    NODE_LOST = "NodeLost"
    CLAIM_MISSING = "VolumeClaimMissing"
    CLAIM_PENDING = "VolumeClaimPending"
    GANG_INCOMPLETE = "GangIncomplete"
    SCHEDULING_GATED = "SchedulingGated"
    NO_SCHEDULER = "NoScheduler"
    NO_DEVICE = "DeviceNotOffered"
    NO_NODE_FITS = "NoNodeFits"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a cause, not a secret
    CONFIG_MISSING = "ConfigMissing"
    SANDBOX_NOT_MADE = "SandboxNotMade"
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    CANNOT_START = "ContainerCannotStart"
    EVICTED = "Evicted"
    OOM_KILLED = "OOMKilled"
    CONTAINER_EXITED = "ContainerExited"
    INITIALIZER_RETRIES = "InitializerRetries"
    RANK_MISSING = "RankMissing"
    RANK_LEFT = "RankLeft"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    ATTEMPT_FAILED = "AttemptFailed"
    JOBSET_FAILED = "JobSetFailed"
    RUNTIME_NOT_SUPPORTED = "TrainingRuntimeNotSupported"
    RUNTIME_RENEWED = "RuntimeRenewed"
    RUNTIME_REVISION_LOST = "RuntimeRevisionLost"
    UNSCHEDULABLE = "Unschedulable"
