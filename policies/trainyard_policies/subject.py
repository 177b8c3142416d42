"""Subjects of rules, and the subject of a manifest."""

from enum import StrEnum


class Subject(StrEnum):
    """A subject of rules; levels are set per subject."""

    RUNTIMES = "runtimes"
    """ClusterTrainingRuntimes and TrainingRuntimes alike, so that a namespace cannot bypass the catalog."""
    TRAINJOBS = "trainJobs"
    STACK = "stack"
    """All manifests together."""
