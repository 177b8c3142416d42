"""The extension points: what a plugin takes part in, in the order in which it happens.

A plugin takes part in a phase by having its method. The phases are those of
Trainer v2.3's pipeline framework; `framework` runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from trainyard_api.errors import FieldError

from ..model import JobSet, Json, TrainJob
from .info import Child, Info


class Plugin(Protocol):
    """What every plugin declares."""

    @property
    def name(self) -> str:
        """The name that Trainer v2.3 registers it under, in lower case."""

    @property
    def implements(self) -> frozenset[str]:
        """Policies and gates that are unsupported without it: `mlPolicy.<source>`, `podGroupPolicy.<source>`,
        `featureGates.<gate>`. If the job requests none of it, the plugin builds nothing."""


@runtime_checkable
class Defaults(Protocol):
    """A policy whose defaults the CRD's schema knows."""

    @property
    def defaults(self) -> tuple[tuple[str, Json], ...]:
        """Paths of objects in a runtime's spec, each with the defaults of its fields."""


@runtime_checkable
class Trains(Protocol):
    """A framework whose processes run in more than the trainer's step."""

    def trains(self, info: Info, job: Json) -> bool:
        """Whether `resourcesPerNode` is for that ReplicatedJob too."""


@runtime_checkable
class Validate(Protocol):
    """Admission: is what the user asks for allowed?"""

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """The errors of `info.trainjob`, `old` being what it was before an update."""


@runtime_checkable
class Warns(Protocol):
    """Admission: does the user get less than the TrainJob seems to say?"""

    def warnings(self, info: Info) -> Sequence[str]:
        """Warnings when `info.trainjob` is created."""


@runtime_checkable
class EnforceMLPolicy(Protocol):
    """Pod counts, and what the training framework reads: variables, ports, files."""

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the runtime's mlPolicy applied; unchanged where it is not this plugin's."""


@runtime_checkable
class EnforcePodGroupPolicy(Protocol):
    """Labels and annotations by which a gang scheduler recognizes the pods."""

    def enforce_pod_group_policy(self, info: Info) -> Info:
        """`info` with the runtime's podGroupPolicy applied; unchanged where it is not this plugin's."""


@runtime_checkable
class IdentifyNetwork(Protocol):
    """The names under which pods find each other; before any of them is written down."""

    def identify_network(self, info: Info) -> Info:
        """`info` with its subdomain known."""


@runtime_checkable
class Build(Protocol):
    """Manifests of child objects."""

    def build(self, info: Info) -> Sequence[Child]:
        """The child objects, owned by the TrainJob."""
