"""The plugins, and the order in which they run.

Called by `reconcile`, `render` and `validation`. What a TrainJob and its
runtime ask for flows through the plugins as one frozen `Info`, phase by phase
(`phases`); the order of phases, and that of the plugins in them, is fixed.
Nothing here knows any one plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from trainyard_api import json_reader, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath, InvalidFieldError

from ..model import JobSet, Json, Runtime, TrainJob
from . import info as infos
from . import templates
from .info import ML_POLICY_PATH, POD_GROUP_PATH, Child, Info, Settings
from .phases import (
    Build,
    EnforceMLPolicy,
    EnforcePodGroupPolicy,
    IdentifyNetwork,
    Plugin,
    Trains,
    Validate,
    Warns,
)

Around = Callable[[str], AbstractContextManager[None]]
"""Returns what is entered while the plugin of this name takes part in building."""


class UnsupportedPolicyError(ValueError):
    """The runtime asks for an mlPolicy that no plugin implements."""


class Framework:
    """Some plugins, in their order.

    Args:
        plugins: Each takes part in the phases whose methods it has (`phases`).
        around: Entered around each plugin's part in building, such as a clock.
    """

    def __init__(self, plugins: Sequence[Plugin], around: Around = lambda name: nullcontext()) -> None:
        self.plugins = tuple(plugins)
        self._around = around
        # Sorted once: checking an object for a Protocol's methods costs 20 µs.
        self._validate = tuple(p for p in plugins if isinstance(p, Validate))
        self._warns = tuple(p for p in plugins if isinstance(p, Warns))
        self._trains = tuple(p for p in plugins if isinstance(p, Trains))
        self._ml_policy = tuple((p.name, p) for p in plugins if isinstance(p, EnforceMLPolicy))
        self._pod_group = tuple((p.name, p) for p in plugins if isinstance(p, EnforcePodGroupPolicy))
        self._network = tuple((p.name, p) for p in plugins if isinstance(p, IdentifyNetwork))
        self._build = tuple((p.name, p) for p in plugins if isinstance(p, Build))
        entries = [entry.partition(".") for p in plugins for entry in p.implements]
        self._implemented = {
            kind: frozenset(source for of, _, source in entries if of == kind) for kind, _, _ in entries
        }

    def build(self, trainjob: TrainJob, runtime: Runtime, settings: Settings) -> tuple[Json, ...]:
        """The manifests of `children`; raises what it raises."""
        return tuple(child.manifest for child in self.children(trainjob, runtime, settings))

    def children(self, trainjob: TrainJob, runtime: Runtime, settings: Settings) -> tuple[Child, ...]:
        """The child objects of a TrainJob, built in this order:

        1. what no plugin implements is refused;
        2. the runtime's template, runtimePatches, resourcesPerNode and pod counts become an `Info`;
        3. the network is identified, as addresses are made of it;
        4. each plugin enforces the ML policy;
        5. each plugin enforces the pod group policy;
        6. each plugin builds its children.

        Raises `UnsupportedPolicyError`, or `InvalidFieldError` if nothing can be built.
        """
        self.require_implemented(runtime)
        return self.children_of(self.info(trainjob, runtime, settings))

    def info(self, trainjob: TrainJob, runtime: Runtime, settings: Settings) -> Info:
        """The requests of both, before any plugin; raises `InvalidFieldError` for an invalid field."""
        return infos.with_resources(infos.new_info(trainjob, runtime, settings), self.trainers)

    def trainers(self, info: Info) -> list[Json]:
        """The ReplicatedJobs that resourcesPerNode is for: the trainer's step, and what plugins add."""
        return [
            job
            for job in info.jobs
            if templates.ancestor(job) == names.ANCESTOR_TRAINER
            or any(p.trains(info, job) for p in self._trains)
        ]

    def children_of(self, info: Info) -> tuple[Child, ...]:
        """Steps 3 to 6 of `children`."""
        for name, network in self._network:
            with self._around(name):
                info = network.identify_network(info)
        for name, enforcer in self._ml_policy:
            with self._around(name):
                info = enforcer.enforce_ml_policy(info)
        for name, gang in self._pod_group:
            with self._around(name):
                info = gang.enforce_pod_group_policy(info)
        children: list[Child] = []
        for name, builder in self._build:
            with self._around(name):
                children += builder.build(info)
        return tuple(children)

    def errors(self, info: Info, *, old: TrainJob | None, jobset: JobSet | None) -> Iterator[FieldError]:
        """The plugins' errors in a TrainJob that is created, or updated from `old`."""
        for plugin in self._validate:
            yield from plugin.validate(info, old, jobset)

    def warnings(self, info: Info) -> Iterator[str]:
        """The plugins' warnings about a new TrainJob."""
        for plugin in self._warns:
            yield from plugin.warnings(info)

    def implemented(self, kind: str) -> frozenset[str]:
        """The sources of that kind (`mlPolicy`, `podGroupPolicy`, `featureGates`) that are implemented."""
        return self._implemented.get(kind, frozenset())

    def require_implemented(self, runtime: Runtime) -> None:
        """Refuse a runtime that asks for a policy which no plugin implements.

        Raises `UnsupportedPolicyError` for an mlPolicy, `InvalidFieldError` for a podGroupPolicy.
        """
        for source in self.unimplemented(runtime, "mlPolicy"):
            raise UnsupportedPolicyError(f"{ML_POLICY_PATH.child(source)} is not supported")
        for source in self.unimplemented(runtime, "podGroupPolicy"):
            path = str(POD_GROUP_PATH)
            raise InvalidFieldError(
                FieldError(ErrorType.NOT_SUPPORTED, path, source, "no such gang scheduler here")
            )

    def unimplemented(self, runtime: Runtime, kind: str) -> Iterator[str]:
        """The sources in the runtime's policy of that kind that no plugin implements, such as Flux."""
        policy = json_reader.mapping(runtime.spec.get(kind), FieldPath("spec").child(kind))
        known = {*self.implemented(kind), *(["numNodes"] if kind == "mlPolicy" else [])}
        yield from (source for source, value in policy.items() if value is not None and source not in known)
