"""Why a TrainJob does not run: from what was observed to the first cause and the next step.

Called by `trainyard explain`, which reads the cluster with the rights of its
user. Pure: an `Observation` goes in, a `Diagnosis` comes out. `follow_ups`
says what else to observe before that.
"""

from .diagnose import because, explain
from .follow_ups import FollowUps, follow_ups
from .model import Diagnosis, Finding, Observation, Ref, State, Subject

__all__ = [
    "Diagnosis",
    "Finding",
    "FollowUps",
    "Observation",
    "Ref",
    "State",
    "Subject",
    "because",
    "explain",
    "follow_ups",
]
