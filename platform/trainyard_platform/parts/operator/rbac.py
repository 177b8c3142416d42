"""What the operator may do, and no more, as RBAC rules.

Cluster-wide rules are for what lives in any namespace; what the operator keeps
for itself is bound to the namespace it is kept in.
"""

from typing import Any

from trainyard_api import names

Rules = list[dict[str, Any]]

CLUSTER: Rules = [
    {
        "apiGroups": [names.TRAINER_GROUP],
        "resources": [names.TRAINJOBS, names.TRAINING_RUNTIMES, names.CLUSTER_TRAINING_RUNTIMES],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [names.TRAINER_GROUP], "resources": [f"{names.TRAINJOBS}/status"], "verbs": ["patch"]},
    # An owner reference with blockOwnerDeletion needs this where the admission
    # plug-in OwnerReferencesPermissionEnforcement is on, as in OpenShift.
    {
        "apiGroups": [names.TRAINER_GROUP],
        "resources": [f"{names.TRAINJOBS}/finalizers"],
        "verbs": ["update"],
    },
    {
        "apiGroups": [names.JOBSET_GROUP],
        "resources": [names.JOBSETS],
        "verbs": ["create", "delete", "get", "list", "update", "watch"],
    },
    # JobSet adds to the placement of a Job that it resumes. Where a queue moves a
    # job from one flavor to another, its suspended Jobs have to be recreated.
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete", "list"]},
    # Only pods that have failed are followed; RBAC cannot allow only those.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    # A controller that cannot create a Job or its pods says so only in an Event.
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "get", "list", "patch"]},
    # MPI's list of hosts. And a job that upstream's controller started keeps its
    # runtime in a ConfigMap `<job>-runtime-snapshot` beside it; names made of
    # others cannot be listed here.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "update"]},
    {
        "apiGroups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"],
        "resources": ["podgroups"],
        "verbs": ["create", "delete", "get", "update"],
    },
]
"""TrainJobs, the runtimes they name, the JobSets they become and what these need, wherever they are."""

SECRETS: Rules = [
    # RBAC cannot allow only the metadata, which is all that the operator gets;
    # it may not list or watch.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get"]},
]
"""MPI's key, created once and never changed: bound in the namespaces where MPI jobs may run."""

LAST_LINES: Rules = [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]
"""To keep what the pods of a failed attempt printed last: bound in the namespaces where that is kept."""

OWN_NAMESPACE: Rules = [
    # A rule with names cannot allow a create: the name is not known yet.
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [names.OPERATOR],
        "verbs": ["get", "update"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["controllerrevisions"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
]
"""The election's Lease and the revisions of runtimes."""

ADMISSION: Rules = [
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": [names.MUTATING_WEBHOOKS],
        "verbs": ["get", "patch"],
    },
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "resourceNames": [names.VALIDATING_WEBHOOKS],
        "verbs": ["get", "patch"],
    },
]
"""To write the caBundle of the two webhook configurations, which are cluster-wide."""

TRIALS: Rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]
"""To have the API server judge the Jobs of a TrainJob in a dry run, as it judges its JobSet. RBAC cannot
allow only dry runs; an account that may create JobSets may create Jobs through them."""

REPORTS: Rules = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
]
"""To find out which TrainJob's pod, created by which Job, reports progress (feature gate TrainJobStatus)."""

QUEUES: Rules = [
    {"apiGroups": [names.KUEUE_GROUP], "resources": ["workloads"], "verbs": ["list", "patch"]},
    {
        "apiGroups": [names.KUEUE_GROUP],
        "resources": ["clusterqueues", "cohorts", "localqueues"],
        "verbs": ["list"],
    },
]
"""To have Kueue take back the quota of a suspended TrainJob, and to tell one that its queue can never
give it what it asks for, where queues hold JobSets."""

METRICS: Rules = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
"""To check whether a reader may read metrics."""

RETENTION: Rules = [
    {"apiGroups": [names.TRAINER_GROUP], "resources": [names.TRAINJOBS], "verbs": ["delete"]},
]
"""To delete TrainJobs that have been finished for long enough."""

CERTIFICATE: Rules = [
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [names.WEBHOOK_CERTIFICATE],
        "verbs": ["get", "update"],
    },
]
"""The certificate of webhooks and status server, in the one Secret that the replicas share."""

UPSTREAM: Rules = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [names.TRAINER_LEASE],
        "verbs": ["get"],
    },
]
"""Whether upstream's own controller runs: bound in its namespace, if that exists."""

PUBLIC_VERSION: Rules = [
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [names.TRAINER_PUBLIC_CONFIG],
        "verbs": ["get"],
    },
]
"""For everybody who may use the cluster: the Trainer version that the SDK reads."""
