"""What the operator may do, and no more, as RBAC rules.

Cluster-wide rules are for what lives in any namespace; what the operator keeps
for itself is bound to the namespace it is kept in.
"""

from typing import Any

from trainyard_api import names

Rules = list[dict[str, Any]]

CLUSTER: Rules = [
    {
        "api_groups": [names.TRAINER_GROUP],
        "resources": [names.TRAINJOBS, names.TRAINING_RUNTIMES, names.CLUSTER_TRAINING_RUNTIMES],
        "verbs": ["get", "list", "watch"],
    },
    {"api_groups": [names.TRAINER_GROUP], "resources": [f"{names.TRAINJOBS}/status"], "verbs": ["patch"]},
    # An owner reference with blockOwnerDeletion needs this where the admission
    # plug-in OwnerReferencesPermissionEnforcement is on, as in OpenShift.
    {
        "api_groups": [names.TRAINER_GROUP],
        "resources": [f"{names.TRAINJOBS}/finalizers"],
        "verbs": ["update"],
    },
    {
        "api_groups": [names.JOBSET_GROUP],
        "resources": [names.JOBSETS],
        "verbs": ["create", "delete", "get", "list", "update", "watch"],
    },
    # JobSet adds to the placement of a Job that it resumes. Where a queue moves a
    # job from one flavor to another, its suspended Jobs have to be made anew.
    {"api_groups": ["batch"], "resources": ["jobs"], "verbs": ["delete", "list"]},
    # Only pods that have failed are followed; RBAC cannot allow only those.
    {"api_groups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    # Who cannot create a Job or its pods says so only in an Event.
    {"api_groups": [""], "resources": ["events"], "verbs": ["create", "get", "list", "patch"]},
    # MPI's list of hosts. And a job that upstream's controller started keeps its
    # runtime in a ConfigMap `<job>-runtime-snapshot` beside it; names made of
    # others cannot be listed here.
    {"api_groups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "update"]},
    {
        "api_groups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"],
        "resources": ["podgroups"],
        "verbs": ["create", "get", "update"],
    },
]
"""TrainJobs, the runtimes they name, the JobSets they become and what these need, wherever they are."""

SECRETS: Rules = [
    # RBAC cannot allow only the metadata, which is all that the operator gets;
    # list and watch it may not.
    {"api_groups": [""], "resources": ["secrets"], "verbs": ["create", "get"]},
]
"""MPI's key, made once and never changed: bound in the namespaces where MPI jobs may run."""

OWN_NAMESPACE: Rules = [
    # A rule with names cannot allow a create: the name is not known yet.
    {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "api_groups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resource_names": [names.OPERATOR],
        "verbs": ["get", "update"],
    },
    {
        "api_groups": ["apps"],
        "resources": ["controllerrevisions"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
]
"""The election's Lease and the revisions of runtimes."""

ADMISSION: Rules = [
    {
        "api_groups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resource_names": [names.MUTATING_WEBHOOKS],
        "verbs": ["get", "patch"],
    },
    {
        "api_groups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "resource_names": [names.VALIDATING_WEBHOOKS],
        "verbs": ["get", "patch"],
    },
]
"""To write the caBundle of the two webhook configurations, which are cluster-wide."""

TRIALS: Rules = [{"api_groups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]
"""To have the API server judge the Jobs of a TrainJob in a dry run. RBAC cannot allow only dry runs;
whoever may create JobSets may create Jobs through them."""

REPORTS: Rules = [
    {"api_groups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"api_groups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"api_groups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
]
"""To find out which TrainJob's pod, made by which Job, reports its progress (feature gate TrainJobStatus)."""

METRICS: Rules = [
    {"api_groups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"api_groups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
"""To find out whether whoever asks may read metrics."""

RETENTION: Rules = [
    {"api_groups": [names.TRAINER_GROUP], "resources": [names.TRAINJOBS], "verbs": ["delete"]},
]
"""To delete TrainJobs that have been finished for long enough."""

CERTIFICATE: Rules = [
    {"api_groups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {
        "api_groups": [""],
        "resources": ["secrets"],
        "resource_names": [names.WEBHOOK_CERTIFICATE],
        "verbs": ["get", "update"],
    },
]
"""The certificate of webhooks and status server, in the one Secret that the replicas share."""

UPSTREAM: Rules = [
    {
        "api_groups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resource_names": [names.TRAINER_LEASE],
        "verbs": ["get"],
    },
]
"""Whether upstream's own controller is at work: bound in its namespace, where there is one."""

PUBLIC_VERSION: Rules = [
    {
        "api_groups": [""],
        "resources": ["configmaps"],
        "resource_names": [names.TRAINER_PUBLIC_CONFIG],
        "verbs": ["get"],
    },
]
"""For everybody who may talk to the cluster: the Trainer version that the SDK asks for."""
