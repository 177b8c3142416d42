"""Where our answer is not the reference's: quirks of Kubeflow Trainer v2.3.0 that nothing depends on.

Each entry names the number of the quirk, the paths that differ, which have to
differ (an exception that no case needs fails its test), and why it is right.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """That our answer differs from the reference's."""

    quirk: int
    why: str
    paths: tuple[str, ...] = ()


WAITS = "a launcher that waits for its workers is no part of their gang, or the gang waits for ever"
LAUNCHER = "spec.replicatedJobs[1].template.spec.template.metadata"

BUILDS = {
    case: Allowed(13, WAITS, (f"JobSet {case}.{LAUNCHER}.{mark}", f"PodGroup {case}.spec.minMember"))
    for case, mark in {"gang-coscheduling": "labels", "gang-volcano": "annotations"}.items()
}
"""By case, what may be built otherwise."""

KNOWS = "nodes know of each other without `spec.trainer` too; upstream mends this (kubeflow/trainer#4076)"
OPEN_MPI_5 = (
    "Open MPI 5 reads other variables, and without them starts all on one node; Trainer 2.4 sets both"
)
COUNTED = (
    "the GPUs of the runtime count, though the TrainJob names other resources: the pod has both; the "
    "reference starts one rank on them all (kubeflow/trainer#3974); and a limit is a request of the gang, as "
    "it is one of the pod"
)
OF_OPEN_MPI_5 = "PRTE_MCA_"
"""How the variables begin that Trainer v2.3 does not set."""
GOLDEN = {
    **{
        case: Allowed(33, OPEN_MPI_5)
        for case in ("05-deepspeed-1node", "06-deepspeed-3node-gpu", "17-mpi-three")
    },
    "01-torch-no-trainer": Allowed(
        1,
        KNOWS,
        tuple(
            f"JobSet tj.spec.replicatedJobs[0].template.spec.template.spec.containers[0].{field}"
            for field in ("env", "ports")
        ),
    ),
    "04-torch-ports-envinjection": Allowed(
        68,
        COUNTED,
        tuple(
            f"JobSet tj.spec.replicatedJobs[0].template.spec.template.spec.{container}.env[{variable}].value"
            for container, variable in (("containers[0]", 1), ("containers[1]", 2), ("initContainers[0]", 1))
        )
        + tuple(f"PodGroup tj.spec.minResources.{name}" for name in ("cpu", "nvidia.com/gpu")),
    ),
}
"""By case of the corpus, what may be built otherwise; 33: what begins with `OF_OPEN_MPI_5` is left out."""
LIVES = {
    "its JobSet goes after it has failed": Allowed(
        8, "a finished TrainJob never starts again; the reference makes a new JobSet and runs it once more"
    ),
    "its runtime is of a kind that there is not": Allowed(
        20, "the condition is written; the reference stops at a nil pointer before it writes it"
    ),
}
"""By life of a TrainJob, what may be said otherwise."""

ADMISSION = {
    "tj-15-cache": Allowed(
        6, "the reference's own runtime with a cache has no volume, and its webhook asks for one"
    ),
    "19-deadruntime-update": Allowed(
        9, "a job keeps the runtime that it started with; the reference asks for the live one at every change"
    ),
    "trainingruntime-update": Allowed(
        15, "a TrainingRuntime is looked at when it changes too, as a ClusterTrainingRuntime is"
    ),
}
"""By case, where admission answers otherwise."""

LIMITS = {
    "command item of the greatest length": "may not be more than 262144 bytes as JSON",
    "args item of the greatest length": "may not be more than 262144 bytes as JSON",
    "name of 63 characters": "must be no more than 48 characters with this runtime",
}
"""By case: no quirks, but limits of our own (`trainyard_operator.core.admit.limits`), with their words.

The reference lets these in, and they fail later: pods whose names are too
long, objects that are too large for etcd or a watch.
"""
