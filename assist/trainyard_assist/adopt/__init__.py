"""Plans how to take a cluster over from Kubeflow Trainer's own controller, and how to give it back.

Called by `trainyard adopt`, which observes the cluster and carries out the
steps. Pure: an `Observed` goes in, a `Plan` comes out. A new plan can continue
after any step, so an interrupted takeover is simply started again.
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
from .plan import adopt, give_back, without_snapshot

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
    "without_snapshot",
]
