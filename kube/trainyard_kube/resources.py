"""The kinds that we read or write, each as the API server's paths spell it."""

from __future__ import annotations

from typing import Final

from trainyard_api import names

from .client import Resource

# Kubernetes' own
CONFIGMAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS: Final = Resource("", "v1", "events", "Event")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
WEBHOOK_CONFIGURATIONS: Final = (
    (MUTATING_WEBHOOKS, names.MUTATING_WEBHOOKS),
    (VALIDATING_WEBHOOKS, names.VALIDATING_WEBHOOKS),
)
"""Resource and name of each that has Trainer's webhooks, upstream's names."""
ADMISSION_POLICY_BINDINGS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
RULES_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
SELF_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")

# Kubeflow Trainer's
TRAINJOBS: Final = Resource(names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINJOBS, names.TRAINJOB)
TRAINING_RUNTIMES: Final = Resource(
    names.TRAINER_GROUP, names.TRAINER_VERSION, names.TRAINING_RUNTIMES, names.TRAINING_RUNTIME
)
CLUSTER_TRAINING_RUNTIMES: Final = Resource(
    names.TRAINER_GROUP,
    names.TRAINER_VERSION,
    names.CLUSTER_TRAINING_RUNTIMES,
    names.CLUSTER_TRAINING_RUNTIME,
    namespaced=False,
)
RUNTIMES: Final = {resource.kind: resource for resource in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)}
"""The two kinds of runtimes, by kind."""

# Of those who measure
POD_METRICS: Final = Resource(names.METRICS_GROUP, "v1beta1", "pods", "PodMetrics")

# Of the controllers that work with it
JOBSETS: Final = Resource(names.JOBSET_GROUP, "v1alpha2", names.JOBSETS, names.JOBSET)
WORKLOADS: Final = Resource(names.KUEUE_GROUP, "v1beta2", "workloads", "Workload")
LOCAL_QUEUES: Final = Resource(names.KUEUE_GROUP, "v1beta2", "localqueues", "LocalQueue")
CLUSTER_QUEUES: Final = Resource(
    names.KUEUE_GROUP, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False
)
COHORTS: Final = Resource(names.KUEUE_GROUP, "v1beta2", "cohorts", "Cohort", namespaced=False)
RESOURCE_FLAVORS: Final = Resource(
    names.KUEUE_GROUP, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False
)
PRIORITY_CLASSES: Final = Resource(
    names.KUEUE_GROUP, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)
VISIBLE_QUEUES: Final = Resource(f"visibility.{names.KUEUE_GROUP}", "v1beta2", "localqueues", "LocalQueue")
"""Pending Workloads of a LocalQueue, in order."""
