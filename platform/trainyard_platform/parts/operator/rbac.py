"""What the operator may do, and no more, as RBAC rules.

Cluster-wide rules are for what lives in any namespace; what the operator keeps
for itself is bound to the namespace it is kept in.
"""

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects.rights import rule

Rules = list[Manifest]

CLUSTER: Rules = [
    rule(
        names.TRAINER_GROUP,
        [names.TRAINJOBS, names.TRAINING_RUNTIMES, names.CLUSTER_TRAINING_RUNTIMES],
        ["get", "list", "watch"],
    ),
    rule(names.TRAINER_GROUP, [f"{names.TRAINJOBS}/status"], ["patch"]),
    # An owner reference with blockOwnerDeletion needs this where the admission
    # plug-in OwnerReferencesPermissionEnforcement is on, as in OpenShift.
    rule(names.TRAINER_GROUP, [f"{names.TRAINJOBS}/finalizers"], ["update"]),
    rule(names.JOBSET_GROUP, [names.JOBSETS], ["create", "delete", "get", "list", "update", "watch"]),
    # JobSet adds to the placement of a Job that it resumes. Where a queue moves a
    # job from one flavor to another, its suspended Jobs have to be recreated.
    rule("batch", ["jobs"], ["delete", "list"]),
    # Only pods that have failed are followed; RBAC cannot allow only those.
    rule("", ["pods"], ["list", "watch"]),
    # A controller that cannot create a Job or its pods says so only in an Event.
    rule("", ["events"], ["create", "get", "list", "patch"]),
    # MPI's list of hosts. And a job that upstream's controller started keeps its
    # runtime in a ConfigMap `<job>-runtime-snapshot` beside it; names made of
    # others cannot be listed here.
    rule("", ["configmaps"], ["create", "get", "update"]),
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
    rule("", ["secrets"], ["create", "get"]),
]
"""MPI's key, created once and never changed: bound in the namespaces where MPI jobs may run."""

LAST_LINES: Rules = [rule("", ["pods/log"], ["get"])]
"""To keep what the pods of a failed attempt printed last: bound in the namespaces where that is kept."""

OWN_NAMESPACE: Rules = [
    # A rule with names cannot allow a create: the name is not known yet.
    rule("coordination.k8s.io", ["leases"], ["create"]),
    rule("coordination.k8s.io", ["leases"], ["get", "update"], only=[names.OPERATOR]),
    rule("apps", ["controllerrevisions"], ["create", "delete", "get", "list", "patch", "watch"]),
]
"""The election's Lease and the revisions of runtimes."""

ADMISSION: Rules = [
    rule(
        "admissionregistration.k8s.io",
        ["mutatingwebhookconfigurations"],
        ["get", "patch"],
        only=[names.MUTATING_WEBHOOKS],
    ),
    rule(
        "admissionregistration.k8s.io",
        ["validatingwebhookconfigurations"],
        ["get", "patch"],
        only=[names.VALIDATING_WEBHOOKS],
    ),
]
"""To write the caBundle of the two webhook configurations, which are cluster-wide."""

TRIALS: Rules = [rule("batch", ["jobs"], ["create"])]
"""To have the API server judge the Jobs of a TrainJob in a dry run, as it judges its JobSet. RBAC cannot
allow only dry runs; an account that may create JobSets may create Jobs through them."""

REPORTS: Rules = [
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("", ["pods"], ["get"]),
    rule("batch", ["jobs"], ["get"]),
]
"""To find out which TrainJob's pod, created by which Job, reports progress (feature gate TrainJobStatus)."""

QUEUES: Rules = [
    rule(names.KUEUE_GROUP, ["workloads"], ["list", "patch"]),
    rule(names.KUEUE_GROUP, ["clusterqueues", "cohorts", "localqueues"], ["list"]),
]
"""To have Kueue take back the quota of a suspended TrainJob, and to tell one that its queue can never
give it what it asks for, where queues hold JobSets."""

METRICS: Rules = [
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
]
"""To check whether a reader may read metrics."""

RETENTION: Rules = [
    rule(names.TRAINER_GROUP, [names.TRAINJOBS], ["delete"]),
]
"""To delete TrainJobs that have been finished for long enough."""

CERTIFICATE: Rules = [
    rule("", ["secrets"], ["create"]),
    rule("", ["secrets"], ["get", "update"], only=[names.WEBHOOK_CERTIFICATE]),
]
"""The certificate of webhooks and status server, in the one Secret that the replicas share."""

UPSTREAM: Rules = [
    rule("coordination.k8s.io", ["leases"], ["get"], only=[names.TRAINER_LEASE]),
]
"""Whether upstream's own controller runs: bound in its namespace, if that exists."""

PUBLIC_VERSION: Rules = [
    rule("", ["configmaps"], ["get"], only=[names.TRAINER_PUBLIC_CONFIG]),
]
"""For everybody who may use the cluster: the Trainer version that the SDK reads."""
