"""The extension points, and the order they run in.

Called by `reconcile`, `render` and `validation`. What a TrainJob and
its runtime ask for flows through the plugins as one frozen `Info`; a plugin
takes part in a phase by having that phase's method. The phases are those of
Trainer v2.3's pipeline framework; here their order, and that of the plugins
in them, is fixed. Nothing here knows any one plugin.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from trainyard_api import fields, merge, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath, InvalidFieldError

from . import templates
from .model import Condition, Generated, JobSet, Json, Runtime, TrainJob
from .patches import what_is_said

_ML_POLICY_PATH: Final = FieldPath("spec.mlPolicy")
_POD_GROUP_PATH: Final = FieldPath("spec.podGroupPolicy")
_RESOURCES_PATH: Final = FieldPath("spec.trainer.resourcesPerNode")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator is configured with and manifests depend on."""

    feature_gates: frozenset[str] = frozenset()
    """The gates that are on."""
    operator_namespace: str = "kubeflow-system"
    service_name: str = "kubeflow-trainer-controller-manager"
    status_server_port: int = 10443
    status_server_ca: str = "CA"
    """The CA of the status server as PEM; where there is no server, a placeholder."""


DEFAULT_SETTINGS: Final = Settings()


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one ReplicatedJob."""

    name: str
    ancestor: str | None
    """Which step of the TrainJob they are: a value of the ancestor label."""
    count: int


@dataclass(frozen=True, slots=True)
class Info:
    """What is to be built, as it flows through the phases."""

    trainjob: TrainJob
    runtime: Runtime
    settings: Settings
    ml_policy: Json | None
    pod_group_policy: Json | None
    labels: Mapping[str, str]
    """Labels of the JobSet."""
    annotations: Mapping[str, str]
    """Annotations of the JobSet."""
    spec: Json
    """The JobSet spec, with runtimePatches and resourcesPerNode merged in, less its ReplicatedJobs."""
    jobs: tuple[Json, ...]
    """The ReplicatedJobs, each with the pod set of equal position."""
    pod_sets: tuple[PodSet, ...]
    subdomain: str = field(default="")
    """Name of the headless Service that the pods' addresses end in; known after `identify_network`."""

    @property
    def trainer(self) -> Json | None:
        """`spec.trainer`; None when absent, which an empty object is not."""
        return fields.optional_mapping(self.trainjob.spec.get("trainer"), FieldPath("spec.trainer"))

    def policy(self, name: str) -> Json | None:
        """The source of that name in the runtime's mlPolicy, None if it has another or none."""
        policy = self.ml_policy or {}
        return fields.optional_mapping(policy.get(name), _ML_POLICY_PATH.child(name))

    def pod_group(self, name: str) -> Json | None:
        """The gang scheduler of that name in the runtime's podGroupPolicy, None if it has another or none."""
        policy = self.pod_group_policy or {}
        return fields.optional_mapping(policy.get(name), _POD_GROUP_PATH.child(name))

    def pod_set(self, *, ancestor: str) -> PodSet | None:
        """The first pod set that is this step of the TrainJob."""
        return next((p for p in self.pod_sets if p.ancestor == ancestor), None)

    def container(self, job: str, name: str) -> Json | None:
        """The container of that name in the ReplicatedJob of that name."""
        return next((templates.container(j, name) for j in self.jobs if j["name"] == job), None)

    def endpoints(self, pod_set: PodSet) -> Iterator[str]:
        """The addresses of its pods, one at a time: there may be very many."""
        for index in range(pod_set.count):
            yield self.endpoint(pod_set, index)

    def endpoint(self, pod_set: PodSet, index: int) -> str:
        """The address of one of its pods."""
        return f"{self.trainjob.name}-{pod_set.name}-0-{index}.{self.subdomain}"

    def with_count(self, pod_set: str, count: int) -> Info:
        """With so many pods in the pod set of that name."""
        sets = tuple(replace(p, count=count) if p.name == pod_set else p for p in self.pod_sets)
        return replace(self, pod_sets=sets)

    def with_job(self, name: str, edit: templates.Edit) -> Info:
        """With `edit` applied to the ReplicatedJob of that name."""
        return self.with_jobs(frozenset({name}), edit)

    def with_jobs(self, wanted: Set[str], edit: templates.Edit) -> Info:
        """With `edit` applied to the ReplicatedJobs of these names."""
        return replace(self, jobs=tuple(edit(job) if job["name"] in wanted else job for job in self.jobs))

    def with_env(self, job: str, container: str, env: Iterable[Json]) -> Info:
        """With the variables in that container, each in the place of its namesake."""
        wanted = tuple(env)
        return self.with_job(
            job, lambda j: templates.with_container(j, container, lambda c: templates.with_env(c, wanted))
        )

    def with_port(self, job: str, container: str, port: int) -> Info:
        """With the port opened on that container."""
        return self.with_job(
            job, lambda j: templates.with_container(j, container, lambda c: templates.with_port(c, port))
        )

    def with_volumes(self, job: str, volumes: Sequence[Json]) -> Info:
        """With the volumes in the pods of that ReplicatedJob, each in the place of its namesake."""

        def edit(template: Json) -> Json:
            return {**template, "spec": templates.upserted(template["spec"], "volumes", "name", volumes)}

        return self.with_job(job, lambda j: templates.with_pod_template(j, edit))

    def with_mounts(self, job: str, container: str, mounts: Sequence[Json]) -> Info:
        """With the mounts in that container, each in the place of the one at its path."""
        return self.with_job(
            job,
            lambda j: templates.with_container(
                j, container, lambda c: templates.upserted(c, "volumeMounts", "mountPath", mounts)
            ),
        )


@dataclass(frozen=True, slots=True)
class Child:
    """A child object of a TrainJob."""

    manifest: Json
    generated: Generated | None = None
    """What in it is drawn when it is created; such an object is never updated."""


class Plugin(Protocol):
    """What every plugin has beside the methods of its phases."""

    @property
    def name(self) -> str:
        """The name that Trainer v2.3 registers it under, in lower case."""

    @property
    def implements(self) -> frozenset[str]:
        """What stays unsupported without it: `mlPolicy.<source>`, `podGroupPolicy.<source>`,
        `featureGates.<gate>`. Where none of it is asked for, such a plugin builds nothing."""


@runtime_checkable
class Validate(Protocol):
    """Admission: is what the user asks for allowed?"""

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """The errors of `info.trainjob`, `old` being what it was before an update."""


@runtime_checkable
class EnforceMLPolicy(Protocol):
    """Pod counts, and what the training framework reads: variables, ports, files."""

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the runtime's mlPolicy worked in; unchanged where it is not this plugin's."""


@runtime_checkable
class EnforcePodGroupPolicy(Protocol):
    """Labels and annotations by which a gang scheduler knows the pods."""

    def enforce_pod_group_policy(self, info: Info) -> Info:
        """`info` with the runtime's podGroupPolicy worked in; unchanged where it is not this plugin's."""


@runtime_checkable
class IdentifyNetwork(Protocol):
    """The names under which pods find each other."""

    def identify_network(self, info: Info) -> Info:
        """`info` with its subdomain known."""


@runtime_checkable
class Build(Protocol):
    """Manifests of child objects."""

    def build(self, info: Info) -> Sequence[Child]:
        """The child objects, owned by the TrainJob."""


@runtime_checkable
class Status(Protocol):
    """What the children's state means for the TrainJob; exactly one plugin has this."""

    def status(self, jobset: JobSet) -> TrainJobStatus:
        """What the JobSet says about the TrainJob that it belongs to."""


@dataclass(frozen=True, slots=True)
class TrainJobStatus:
    """What a child object says about its TrainJob."""

    terminal: Condition | None
    """The Complete or Failed condition, None while it goes on."""
    jobs_status: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class _Phases:
    """The plugins of each phase, in their order."""

    validate: tuple[Validate, ...]
    ml_policy: tuple[EnforceMLPolicy, ...]
    pod_group_policy: tuple[EnforcePodGroupPolicy, ...]
    network: tuple[IdentifyNetwork, ...]
    build: tuple[Build, ...]
    status: tuple[Status, ...]
    builds_for: frozenset[str]
    """What those that build implement."""


@lru_cache(maxsize=16)
def _phases(plugins: tuple[Plugin, ...]) -> _Phases:
    """Sorted once for each set of plugins: to ask an object for a Protocol's methods costs 20 µs."""
    return _Phases(
        validate=tuple(p for p in plugins if isinstance(p, Validate)),
        ml_policy=tuple(p for p in plugins if isinstance(p, EnforceMLPolicy)),
        pod_group_policy=tuple(p for p in plugins if isinstance(p, EnforcePodGroupPolicy)),
        network=tuple(p for p in plugins if isinstance(p, IdentifyNetwork)),
        build=tuple(p for p in plugins if isinstance(p, Build)),
        status=tuple(p for p in plugins if isinstance(p, Status)),
        builds_for=frozenset(entry for p in plugins if isinstance(p, Build) for entry in p.implements),
    )


class UnsupportedPolicyError(ValueError):
    """The runtime asks for an mlPolicy that no plugin implements."""


def build(
    trainjob: TrainJob, runtime: Runtime, plugins: Sequence[Plugin], settings: Settings
) -> tuple[Json, ...]:
    """The manifests of the `children`; raises like it."""
    return tuple(child.manifest for child in children(trainjob, runtime, plugins, settings))


def children(
    trainjob: TrainJob, runtime: Runtime, plugins: Sequence[Plugin], settings: Settings
) -> tuple[Child, ...]:
    """The child objects of a TrainJob. What is asked for is decided in this order:

    1. nothing is asked for that no plugin implements;
    2. the runtime's template, runtimePatches, resourcesPerNode and pod counts become an `Info`;
    3. each plugin enforces the ML policy;
    4. each plugin enforces the pod group policy;
    5. the network is identified;
    6. each plugin builds its children.

    Raises `UnsupportedPolicyError`, or `InvalidFieldError` for what cannot be built from.
    """
    require_implemented(runtime, plugins)
    return children_of(new_info(trainjob, runtime, settings), plugins)


def children_of(info: Info, plugins: Sequence[Plugin]) -> tuple[Child, ...]:
    """Steps 3 to 6 of `children`."""
    phases = _phases(tuple(plugins))
    for enforcer in phases.ml_policy:
        info = enforcer.enforce_ml_policy(info)
    for gang in phases.pod_group_policy:
        info = gang.enforce_pod_group_policy(info)
    for network in phases.network:
        info = network.identify_network(info)
    return tuple(child for builder in phases.build for child in builder.build(info))


def errors(
    info: Info, plugins: Sequence[Plugin], *, old: TrainJob | None, jobset: JobSet | None
) -> Iterator[FieldError]:
    """What the plugins find wrong with a TrainJob that is created, or updated from `old`."""
    for plugin in _phases(tuple(plugins)).validate:
        yield from plugin.validate(info, old, jobset)


def status(jobset: JobSet, plugins: Sequence[Plugin]) -> TrainJobStatus:
    """What the JobSet says about its TrainJob, in the words of the one plugin that reads it."""
    (reader,) = _phases(tuple(plugins)).status
    return reader.status(jobset)


def implemented(kind: str, plugins: Sequence[Plugin]) -> frozenset[str]:
    """The sources of that kind (`mlPolicy`, `podGroupPolicy`, `featureGates`) that the plugins implement."""
    entries = (entry.partition(".") for plugin in plugins for entry in plugin.implements)
    return frozenset(source for prefix, _, source in entries if prefix == kind)


def builds_beside(runtime: Runtime, plugins: Sequence[Plugin], settings: Settings) -> bool:
    """Whether a plugin builds anything but the JobSet for it: a quick answer, without building.

    Raises `InvalidFieldError` for policies that cannot be read.
    """
    asked = {f"featureGates.{gate}" for gate in settings.feature_gates}
    for kind, path in (("mlPolicy", _ML_POLICY_PATH), ("podGroupPolicy", _POD_GROUP_PATH)):
        policy = fields.mapping(runtime.spec.get(kind), path)
        asked |= {f"{kind}.{source}" for source, value in policy.items() if value is not None}
    return not asked.isdisjoint(_phases(tuple(plugins)).builds_for)


def require_implemented(runtime: Runtime, plugins: Sequence[Plugin]) -> None:
    """Refuse a runtime that asks for a policy which no plugin implements.

    Raises `UnsupportedPolicyError` for an mlPolicy, `InvalidFieldError` for a podGroupPolicy.
    """
    known = implemented("mlPolicy", plugins)
    for source, value in fields.mapping(runtime.spec.get("mlPolicy"), _ML_POLICY_PATH).items():
        if value is not None and source != "numNodes" and source not in known:
            raise UnsupportedPolicyError(f"{_ML_POLICY_PATH.child(source)} is not supported")
    known = implemented("podGroupPolicy", plugins)
    for source, value in fields.mapping(runtime.spec.get("podGroupPolicy"), _POD_GROUP_PATH).items():
        if value is not None and source not in known:
            raise InvalidFieldError(
                FieldError(
                    ErrorType.NOT_SUPPORTED, str(_POD_GROUP_PATH), source, "no such gang scheduler here"
                )
            )


def new_info(trainjob: TrainJob, runtime: Runtime, settings: Settings) -> Info:
    """What a TrainJob and its runtime ask for, before any plugin.

    Follows `NewInfo` of Trainer v2.3: runtimePatches merge into the JobSet
    template in their order, ReplicatedJobs keep the runtime's order,
    resourcesPerNode merges key by key into the container `node`.

    Raises `InvalidFieldError` for what cannot be worked with.
    """
    template = fields.mapping(runtime.spec.get("template"), FieldPath("spec.template"))
    metadata = fields.mapping(template.get("metadata"), FieldPath("spec.template.metadata"))
    labels = dict(fields.text_map(metadata.get("labels"), FieldPath("spec.template.metadata.labels")))
    annotations = dict(
        fields.text_map(metadata.get("annotations"), FieldPath("spec.template.metadata.annotations"))
    )
    spec: Json = fields.mapping(template.get("spec"), templates.SPEC_PATH)
    stages = [_Stage(templates.checked(spec, templates.SPEC_PATH), templates.SPEC_PATH)]
    order = {job["name"]: position for position, job in enumerate(stages[0].spec["replicatedJobs"])}

    patches = fields.objects(trainjob.spec.get("runtimePatches"), FieldPath("spec.runtimePatches"))
    for position, patch in enumerate(patches):
        path = FieldPath("spec.runtimePatches").index(position).child("trainingRuntimeSpec", "template")
        fields.require_shallow(patch, path)
        wanted = _child(patch, path, "trainingRuntimeSpec", "template")
        named = _child(wanted, path, "metadata")
        labels |= fields.text_map(named.get("labels"), path.child("metadata", "labels"))
        annotations |= fields.text_map(named.get("annotations"), path.child("metadata", "annotations"))
        changes = _child(wanted, path, "spec")
        if changes:
            said = what_is_said(changes)
            merged = merge.strategic_merge(stages[-1].spec, said, merge.JOBSET_SPEC, path.child("spec"))
            stages.append(_Stage(merged, path.child("spec")))
    spec = _checked(stages)

    ml_policy = fields.optional_mapping(runtime.spec.get("mlPolicy"), _ML_POLICY_PATH)
    jobs = sorted(spec["replicatedJobs"], key=lambda job: order.get(job["name"], 0))
    return Info(
        trainjob=trainjob,
        runtime=runtime,
        settings=settings,
        ml_policy=ml_policy,
        pod_group_policy=fields.optional_mapping(runtime.spec.get("podGroupPolicy"), _POD_GROUP_PATH),
        labels=labels,
        annotations=annotations,
        spec={name: value for name, value in spec.items() if name != "replicatedJobs"},
        jobs=_with_resources(jobs, trainjob, ml_policy),
        pod_sets=tuple(_pod_set(job, ml_policy) for job in jobs),
    )


class _Stage(NamedTuple):
    """A JobSet spec after the runtime's template or a patch, and the path of that."""

    spec: Json
    path: FieldPath


def _checked(stages: Sequence[_Stage]) -> Json:
    """The last stage, checked. Only if it is wrong is the patch looked for that made it so, by halving:
    to check after each patch would take as many times as long."""
    if len(stages) == 1:
        return stages[0].spec

    def is_wrong(stage: _Stage) -> bool:
        try:
            templates.checked(stage.spec, stage.path)
        except InvalidFieldError:
            return True
        return False

    try:
        return templates.checked(*stages[-1])
    except InvalidFieldError:
        return templates.checked(*stages[bisect_left(stages, True, hi=len(stages) - 1, key=is_wrong)])


def _child(value: Json, path: FieldPath, *names_: str) -> Json:
    for name in names_:
        value = fields.mapping(value.get(name), path.child(name))
    return value


def _pod_set(job: Json, ml_policy: Json | None) -> PodSet:
    ancestor = templates.ancestor(job)
    if ancestor == names.ANCESTOR_TRAINER and ml_policy is not None:
        count = fields.integer(ml_policy.get("numNodes"), _ML_POLICY_PATH.child("numNodes"))
    else:
        count = fields.integer(job["template"]["spec"].get("parallelism"), FieldPath("parallelism"))
    return PodSet(job["name"], ancestor, max(1, 1 if count is None else count))


def _with_resources(jobs: Sequence[Json], trainjob: TrainJob, ml_policy: Json | None) -> tuple[Json, ...]:
    """The ReplicatedJobs with the TrainJob's resourcesPerNode in the container `node` of those it is for."""
    trainer = fields.mapping(trainjob.spec.get("trainer"), FieldPath("spec.trainer"))
    given = fields.optional_mapping(trainer.get("resourcesPerNode"), _RESOURCES_PATH)
    if given is None or ml_policy is None or not any(_trains(job, ml_policy) for job in jobs):
        return tuple(jobs)
    amounts = templates.resources(given, _RESOURCES_PATH)

    def merged(container: Json) -> Json:
        result: dict[str, Any] = {}
        for kind in ("limits", "requests"):
            together = {**container["resources"].get(kind, {}), **amounts.get(kind, {})}
            if together:
                result[kind] = together
        return {**container, "resources": result}

    def edit(job: Json) -> Json:
        wanted = _trains(job, ml_policy) and templates.container(job, names.NODE) is not None
        return templates.with_container(job, names.NODE, merged) if wanted else job

    return tuple(edit(job) for job in jobs)


def _trains(job: Json, ml_policy: Json) -> bool:
    """Whether resourcesPerNode is meant for it: a trainer, or a worker of a launcher that trains too."""
    if templates.ancestor(job) == names.ANCESTOR_TRAINER:
        return True
    mpi = fields.mapping(ml_policy.get("mpi"), _ML_POLICY_PATH.child("mpi"))
    with_launcher = fields.boolean(
        mpi.get("runLauncherAsNode"), _ML_POLICY_PATH.child("mpi", "runLauncherAsNode")
    )
    return with_launcher and job["name"] == names.NODE
