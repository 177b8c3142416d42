"""Whether a job starts now or waits: quota, what is used of it, and Kueue's own arithmetic.

Called by `trainyard queue`, and before a job is sent. Pure: `read` makes a `State` of Kueue's objects, as
many as the
user may see, and `forecast` says of a job what Kueue 0.19 does with it.
"""

from .forecast import forecast
from .lines import Line, lines
from .model import Answer, Job, PodSet, Short, State, Verdict
from .read import closed, pod_sets_of, state

__all__ = [
    "Answer",
    "Job",
    "Line",
    "PodSet",
    "Short",
    "State",
    "Verdict",
    "closed",
    "forecast",
    "lines",
    "pod_sets_of",
    "state",
]
