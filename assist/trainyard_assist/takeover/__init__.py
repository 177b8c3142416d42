"""Taking a cluster over from Kubeflow Trainer's own controller, and giving it back.

Called by `trainyard adopt`, which looks at the cluster and carries the steps
out. Pure: an `Observed` goes in, a `Plan` comes out. Every step leaves a
state from which the next plan leads on, so what broke off is asked for again.
"""

from .model import (
    Check,
    Delete,
    Fate,
    ForeignJob,
    HandOver,
    Keep,
    LetPass,
    Level,
    Observed,
    Plan,
    Put,
    Scale,
    State,
    Step,
)
from .plan import adopt, give_back

__all__ = [
    "Check",
    "Delete",
    "Fate",
    "ForeignJob",
    "HandOver",
    "Keep",
    "LetPass",
    "Level",
    "Observed",
    "Plan",
    "Put",
    "Scale",
    "State",
    "Step",
    "adopt",
    "give_back",
]
