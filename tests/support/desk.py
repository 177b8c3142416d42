"""An API server with a TrainJob whose first rank prints what a test says, and runs commands."""

from pathlib import Path

from .containers import Containers
from .pod_logs import TRAINJOB, PodLogs


class Desk(Containers, PodLogs):
    """The TrainJob `team/tj`, whose first rank prints what a test says, and runs commands in `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, nodes=0)

    @property
    def is_there(self) -> bool:
        """Whether nobody has deleted the TrainJob."""
        return TRAINJOB in self.objects
