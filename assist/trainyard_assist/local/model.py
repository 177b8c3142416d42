"""A TrainJob on one machine, and the machine's resources. Values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainyard_api.errors import UserError

from ..logs import Place

MOST: Final = 128
"""Processes on one machine; what needs more is tried in a cluster."""


class LocalError(UserError, ValueError):
    """The TrainJob does not run on one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the machine has."""

    environment: Mapping[str, str]
    """The variables of the shell."""
    ports: Sequence[int]
    """Free ports, one for each pod."""
    gpus: Sequence[str] = ()
    """Its GPUs, as CUDA_VISIBLE_DEVICES names them."""
    hosts: str = ""
    """Path of the file in which `mpirun` will find the hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The process in place of a pod."""

    place: Place
    label: str
    """The mark before its lines."""
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(hash=False)
    """Its variables besides those of the shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The processes in place of a TrainJob."""

    processes: tuple[Process, ...]
    hosts: str
    """The hosts for `mpirun`, as Open MPI reads them; empty without MPI."""
    missing: tuple[str, ...]
    """A sentence for each thing that a cluster has and the machine has not."""
    targets: frozenset[str]
    """The ReplicatedJobs that complete the TrainJob."""
    any_target: bool = False
    """Whether the first of them completes it."""

    def is_complete(self, succeeded: Collection[Place]) -> bool:
        """Whether the TrainJob is complete when these have ended without an error."""
        ended = [
            all(process.place in succeeded for process in self.processes if process.place.job == job)
            for job in self.targets
        ]
        return any(ended) if self.any_target else all(ended)
