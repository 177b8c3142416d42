"""Why a TrainJob does not run: from what was seen of it to the first cause and the next step.

Called by `trainyard explain`, which looks into the cluster with the rights of
whoever asks. Pure: an `Observation` goes in, a `Diagnosis` comes out; what
else to look at before is `follow_ups`' answer.
"""

from .diagnose import explain
from .follow_ups import FollowUps, follow_ups
from .model import Diagnosis, Finding, Observation, QueuePlace, Ref, State, Subject

__all__ = [
    "Diagnosis",
    "Finding",
    "FollowUps",
    "Observation",
    "QueuePlace",
    "Ref",
    "State",
    "Subject",
    "explain",
    "follow_ups",
]
