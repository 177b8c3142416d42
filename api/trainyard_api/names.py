"""Groups, kinds, label keys and other constants of the wire.

Used wherever a name crosses a package boundary. Each name is here once, so
that two packages can never spell it differently; nothing here computes
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

# Kubeflow Trainer v2.3
TRAINER_GROUP: Final = "trainer.kubeflow.org"
TRAINER_VERSION: Final = "v1alpha1"
TRAINER_API_VERSION: Final = f"{TRAINER_GROUP}/{TRAINER_VERSION}"
TRAINJOB: Final = "TrainJob"
TRAINJOBS: Final = "trainjobs"
TRAINING_RUNTIME: Final = "TrainingRuntime"
TRAINING_RUNTIMES: Final = "trainingruntimes"
CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"
CLUSTER_TRAINING_RUNTIMES: Final = "clustertrainingruntimes"
RUNTIME_KINDS: Final = frozenset({TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME})

KUBEFLOW_NAMESPACE: Final = "kubeflow-system"
"""Namespace in which Kubeflow's tools look for the Trainer, and Trainer's own controller would run."""
TRAINER_LEASE: Final = "trainer.kubeflow.org"
"""The Lease of Trainer's own controller."""
TRAINER_PUBLIC_CONFIG: Final = "kubeflow-trainer-public"
"""The ConfigMap in which the SDK reads the version of Trainer's API."""
TRAINER_PUBLIC_VERSION: Final = "kubeflow_trainer_version"
MANAGED_BY_TRAINER: Final = "trainer.kubeflow.org/trainjob-controller"
"""`spec.managedBy` of the operator's TrainJobs; absent means the same."""
MANAGED_BY_MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""`spec.managedBy` of the TrainJobs that MultiKueue has another cluster run."""

ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of a job template: which step of a TrainJob the ReplicatedJob is."""
ANCESTOR_TRAINER: Final = "trainer"
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
INITIALIZERS: Final = frozenset({DATASET_INITIALIZER, MODEL_INITIALIZER})
CACHE_IMAGE: Final = "CACHE_IMAGE"
"""Variable of an initializer that starts a cache in the cluster instead of loading into a volume."""
NODE: Final = "node"
"""Name of the training container, and of the ReplicatedJob in the pods' addresses."""
LAUNCHER: Final = "launcher"
"""The ReplicatedJob that starts the processes of an MPI job."""
MPI_KEY_VOLUME: Final = "mpi-ssh-auth"
MPI_HOSTS_VOLUME: Final = "mpi-hostfile"
"""Volumes that the operator adds to an MPI job: the SSH key in each pod, the hosts in the launcher's."""
INITIALIZER_VOLUME: Final = "initializer"
"""The volume into which the initializers load."""

FRAMEWORK_LABEL: Final = "trainer.kubeflow.org/framework"
"""Label of a runtime: which framework it is for; the SDK lists runtimes by it."""
FRAMEWORKS_BY_LABEL: Final = frozenset({"lightgbm", "paddle", "tensorflow"})
"""Frameworks for which Trainer has no ML policy: their pods' environment depends on that label."""
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"
"""Label of a runtime: `deprecated` if a later release removes it."""
SUPPORT_DEPRECATED: Final = "deprecated"
WEBHOOK_VALIDATION_LABEL: Final = "trainer.kubeflow.org/webhook-validation"
"""`disabled` on a ClusterTrainingRuntime exempts it from the webhooks."""
EXEMPTING_RIGHT: Final = ("trainyard.dev", "runtimes", "exempt")
"""API group, resource and verb of the right to write that label, which a roll-out needs."""
HAS_RUNTIME_PATCHES: Final = (
    "object.?spec.?runtimePatches.hasValue() "
    "|| (oldObject != null && oldObject.?spec.?runtimePatches.hasValue())"
)
"""CEL about a TrainJob: whether the defaulter would change it; otherwise the API server need not call it."""

TRAINER_PORT: Final = 29500
RESERVED_ENV: Final[Mapping[str, frozenset[str]]] = {
    "mpi": frozenset(
        {
            "OMPI_MCA_orte_default_hostfile",
            "OMPI_MCA_orte_keep_fqdn_hostnames",
            "OMPI_MCA_orte_set_default_slots",
            "OMPI_MCA_plm_rsh_args",
            "PRTE_MCA_plm_ssh_args",
            "PRTE_MCA_prte_default_hostfile",
            "PRTE_MCA_prte_keep_fqdn_hostnames",
            "PRTE_MCA_prte_set_default_slots",
        }
    ),
    "torch": frozenset(
        {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
    ),
    "xgboost": frozenset({"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"}),
}
"""Variables that the operator sets in training containers, overriding those of the runtime, by ML policy."""
JOB_COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""On the pods of a Job, as a label and as an annotation: the completion index."""
JOB_COMPLETION_INDEX_PATH: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

# Conditions of a TrainJob
SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
BLOCKED: Final = "Blocked"

# JobSet v1alpha2
JOBSET_GROUP: Final = "jobset.x-k8s.io"
JOBSET_API_VERSION: Final = f"{JOBSET_GROUP}/v1alpha2"
JOBSET: Final = "JobSet"
JOBSETS: Final = "jobsets"
JOBSET_NAMESPACE: Final = "jobset-system"
"""Namespace of JobSet's controller."""
JOBSET_CONTROLLER: Final = "jobset-controller"
"""The Deployment of JobSet's controller, by upstream's chart."""
JOBSET_NAME_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""On a Job and a pod: the JobSet that it belongs to."""
REPLICATED_JOB_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
"""On a pod: the ReplicatedJob that it belongs to."""
RESTART_ATTEMPT_LABEL: Final = "jobset.sigs.k8s.io/restart-attempt"
"""On a pod: how often its JobSet had restarted before."""
JOBSET_UID_LABEL: Final = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_COMPLETED: Final = "Completed"
JOBSET_FAILED: Final = "Failed"

# Gang schedulers
POD_GROUP: Final = "PodGroup"
COSCHEDULING_API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"
COSCHEDULING_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
SCHEDULER_PLUGINS: Final = "scheduler-plugins"
"""Upstream's project that coscheduling is a part of: its artifact, and the release and namespace of it."""
COSCHEDULING_SCHEDULER: Final = "scheduler-plugins-scheduler"
"""Its second scheduler: the Deployment, and what pods name as their schedulerName."""
VOLCANO_API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
VOLCANO_NAMESPACE: Final = "volcano-system"
VOLCANO_GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
VOLCANO_QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"

# Metrics of pods, where a cluster has metrics-server or its like
METRICS_GROUP: Final = "metrics.k8s.io"

# LeaderWorkerSet
LWS_NAMESPACE: Final = "lws-system"
"""Namespace of LeaderWorkerSet's controller."""

# Helm
HELM_RESOURCE_POLICY: Final = "helm.sh/resource-policy"
HELM_KEEP: Final = "keep"
"""An object with this annotation stays when its chart is removed."""
HELM_HOOK: Final = "helm.sh/hook"

# Trainyard's own
OWN_PREFIX: Final = "trainyard.dev/"
"""Prefix of our own annotations."""
CATALOG_IMAGES: Final = "docker.io/trainyard"
"""Repository of Trainyard's own images in the files of the catalog."""
OPERATOR_IMAGE: Final = "operator"
RELEASE_IMAGES: Final = ("data-cache", "initializers", "lightgbm", OPERATOR_IMAGE, "trainers")
"""The images that a release publishes. The last part of an image's name is the same in every repository."""
SYSTEM_NAMESPACE: Final = "trainyard-system"
"""Namespace of the operator and its objects."""
OPERATOR: Final = "trainyard-operator"
"""The operator's Deployment, Service, ServiceAccount and Lease."""
WEBHOOK_CERTIFICATE: Final = "trainyard-operator-webhook"
"""The Secret with the certificate that the operator creates itself."""
MUTATING_WEBHOOKS: Final = "defaulter.trainer.kubeflow.org"
VALIDATING_WEBHOOKS: Final = "validator.trainer.kubeflow.org"
"""The two configurations of its webhooks, as Trainer names them."""
METRICS_PORT: Final = 8080
"""Port of probes, and of metrics without authentication."""
SECURE_METRICS_PORT: Final = 8443
"""Port of metrics with authentication."""
WEBHOOK_PORT: Final = 9443
STATUS_PORT: Final = 10443
"""Port of the status server; the same as Trainer's."""
POLICY_DOMAIN: Final = "policy.trainyard.dev"
"""Suffix of the names of our own admission policies and their bindings."""
PLATFORM_MANAGER: Final = "trainyard-platform"
"""Field manager of `pulumi up` for objects that may exist before or after the stack."""
RUNTIME_REVISION_ANNOTATION: Final = "trainyard.dev/runtime-revision"
"""On a JobSet: the ControllerRevision of the runtime that it was built from."""
RENDERED_ANNOTATION: Final = "trainyard.dev/rendered"
"""On a child of a TrainJob: digest of the manifest that the operator wrote last."""
FEATURE_GATES_ANNOTATION: Final = "trainyard.dev/feature-gates"
"""On a JobSet: the operator's feature gates that were on when it was created, separated by commas."""
BUILT_AS_ANNOTATION: Final = "trainyard.dev/built-as"
"""On a JobSet: `3` if it has all that Trainer v2.3 leaves out of one. Its pods cannot get that later."""
RAN_AS_ANNOTATION: Final = "trainyard.dev/ran-as"
"""On a suspended JobSet that has run: digest of the manifest that it last ran as."""
PLACEMENT_ANNOTATION: Final = "trainyard.dev/placement"
"""On pods of a JobSet that was suspended after it ran: digest of what they were built from."""
TRAINJOB_UID_LABEL: Final = "trainyard.dev/trainjob-uid"
"""On each child except the JobSet: uid of its TrainJob. A watch selects children by it."""
RUNTIME_UID_LABEL: Final = "trainyard.dev/runtime-uid"
"""On a ControllerRevision: uid of the runtime that it keeps."""
IN_FORCE_SINCE_ANNOTATION: Final = "trainyard.dev/in-force-since"
"""On a ControllerRevision: when the runtime got the content that it keeps."""
UNREFERENCED_SINCE_ANNOTATION: Final = "trainyard.dev/unreferenced-since"
"""On a ControllerRevision: since when no JobSet has named it."""
OPTIONAL_ANNOTATION: Final = "trainyard.dev/optional"
"""On a runtime of the catalog: `true` where only stacks that ask for it install it."""
LAST_WORDS_ANNOTATION: Final = "trainyard.dev/last-words"
"""On a runtime of the catalog: `python` where its pods note how a Python program ended."""
MODULE_ANNOTATION: Final = f"{OWN_PREFIX}sitecustomize.py"
"""On the pods of such a runtime: the module that every Python there reads."""
MODULE_FOLDER: Final = "/etc/trainyard/python"
"""The folder of these pods in which the module is, first in their PYTHONPATH."""
RETENTION_ANNOTATION: Final = "trainyard.dev/retention"
"""On a TrainJob: `keep`, or how long it stays after it has finished (`24h`)."""
MAX_RESTARTS_ANNOTATION: Final = "trainyard.dev/max-restarts"
"""On a TrainJob: how often it is retried after a failure. On its JobSet: the number at its creation."""
FOLDER_LABEL: Final = "trainyard.dev/folder"
"""On a TrainJob that `trainyard run` has sent: the folder that it was run from."""
LAST_LINES_SUFFIX: Final = "-last-lines"
"""Suffix of the name of the ConfigMap with the last lines of a TrainJob's failed attempt."""
WORKSPACE: Final = "trainyard.dev/workspace"
"""On a TrainJob that was sent with a folder, an annotation: digest of the folder. The manager of the patch
that brings the folder into its pods, and the type of the Secret that holds it, have the same name."""
GIT_COMMIT_ANNOTATION: Final = "trainyard.dev/git-commit"
GIT_BRANCH_ANNOTATION: Final = "trainyard.dev/git-branch"
GIT_DIRTY_ANNOTATION: Final = "trainyard.dev/git-dirty"
"""On such a TrainJob: what the folder was a copy of; `true` if it had changes that no commit has."""
REQUIREMENTS_ANNOTATION: Final = "trainyard.dev/requirements"
"""On such a TrainJob: the file of the folder whose requirements are installed before its command starts."""
WORKSPACE_VOLUME_ANNOTATION: Final = "trainyard.dev/workspace-volume"
"""On such a TrainJob: the PersistentVolumeClaim on which the folder is, if it is in no Secret."""
STACK_ANNOTATION: Final = "trainyard.dev/stack"
"""On the operator's Deployment: the stack whose platform it belongs to."""
STATUS_FIELD: Final = "trainyard"
"""In a TrainJob's status: Trainyard's fields beyond Trainer's API (docs/adr/0020)."""
TENANT_LABEL: Final = "trainyard.dev/tenant"
"""On a namespace: the tenant that it belongs to. Kueue manages namespaces with this label."""
STORAGE_ANNOTATION: Final = "trainyard.dev/storage"
"""On a claim of a runtime: its storage role; the stack has a StorageClass for it."""


class StorageRole(StrEnum):
    """Role of a volume, which determines its required access mode."""

    SHARED = "shared"
    SCRATCH = "scratch"


# Kubernetes
UNANSWERED: Final = "failed calling webhook"
"""The API server's words for a webhook that does not answer. One that refuses has others."""
ORPHAN_FINALIZER: Final = "orphan"
"""On what is deleted without what it owns."""
DELETION_FINALIZERS: Final = frozenset({"foregroundDeletion", ORPHAN_FINALIZER})
"""Those that the API server puts on what is being deleted, for the garbage collector."""
SERVER_METADATA: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Fields of `metadata` that the API server writes."""

# Kueue
KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_API_VERSION: Final = f"{KUEUE_GROUP}/v1beta2"
KUEUE_NAMESPACE: Final = "kueue-system"
"""Namespace of the Kueue that a stack installs."""
KUEUE_CONTROLLER: Final = "kueue-controller-manager"
"""The Deployment and the ServiceAccount of Kueue's controller, by upstream's chart."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""On a TrainJob: the LocalQueue that it waits in."""
DEFAULT_QUEUE: Final = "default"
"""The LocalQueue for jobs that name none, if their namespace has it."""
QUEUE_GATES_ANNOTATION: Final = "kueue.x-k8s.io/admission-gated-by"
"""On a TrainJob, from its creation: gates that keep Kueue from admitting it, separated by commas."""
SENT_SUSPENDED: Final = "trainyard.dev/sent-suspended"
"""In the annotation above: it was created with `spec.suspend`, and waits until that becomes false."""
RESUMES: Final = """--type=merge -p '{"spec":{"suspend":false}}'"""
"""Arguments of `kubectl patch trainjob NAME` that resume it."""
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""On a TrainJob that MultiKueue has copied from another cluster: an annotation, before Kueue 0.18 a label."""
MULTIKUEUE_ORIGIN_LABEL: Final = "kueue.x-k8s.io/multikueue-origin"
"""On the same: who has copied it."""
PRIORITY_CLASS_LABEL: Final = "kueue.x-k8s.io/priority-class"
"""On a TrainJob: its WorkloadPriorityClass."""
MAX_EXECUTION_TIME_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
"""On a TrainJob: how long Kueue lets it run."""
JOB_UID_LABEL: Final = "kueue.x-k8s.io/job-uid"
"""On a Workload: uid of its job."""
POD_SET_LABEL: Final = "kueue.x-k8s.io/podset"
"""On the pod templates of jobs that Kueue has resumed."""
ELASTIC_JOB_ANNOTATION: Final = "kueue.x-k8s.io/elastic-job"
"""On jobs whose quota may grow and shrink; Kueue does not support it for TrainJobs and JobSets."""
PROVISIONING_PREFIX: Final = "provreq.kueue.x-k8s.io/"
"""Prefix of a job's annotations that become parameters of its ProvisioningRequest."""
KUEUES_PATCHES: Final = "kueue.x-k8s.io/manager"
"""The manager of Kueue's entry in `spec.runtimePatches`, added as the TrainJob is created."""
REQUIRED_TOPOLOGY_ANNOTATION: Final = "kueue.x-k8s.io/podset-required-topology"
"""On a pod template: topology level; all pods must be within one domain of it."""
PREFERRED_TOPOLOGY_ANNOTATION: Final = "kueue.x-k8s.io/podset-preferred-topology"
"""On a pod template: topology level; all pods should be within one domain of it."""

# Labels of nodes
POOL_LABEL: Final = "trainyard.dev/pool"
"""On a node: its pool."""
ACCELERATOR_LABEL: Final = "trainyard.dev/accelerator"
"""On a node: type of its accelerator."""
CAPACITY_TYPE_LABEL: Final = "trainyard.dev/capacity-type"
"""On a node: how it is paid for."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""Label that the API server gives each namespace: its name."""
