"""What a rule applies to, and whose levels apply to a manifest."""

from enum import StrEnum


class Subject(StrEnum):
    """What a rule applies to; the levels are set for each."""

    RUNTIMES = "runtimes"
    """ClusterTrainingRuntimes and TrainingRuntimes alike, so that a namespace cannot bypass the catalog."""
    TRAINJOBS = "trainJobs"
    STACK = "stack"
    """All manifests together."""
