"""The merged request of a TrainJob and its runtime: one frozen value that flows through the phases.

Made by `framework` from both, changed by plugins (`with_...`), and read by
those that build. Nothing here knows any one plugin.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from trainyard_api import json_reader, merge, names
from trainyard_api.errors import FieldPath, InvalidFieldError, invalid

from ..model import Generated, Json, Runtime, TrainJob
from . import patches, templates

ML_POLICY_PATH: Final = FieldPath("spec.mlPolicy")
POD_GROUP_PATH: Final = FieldPath("spec.podGroupPolicy")
DNS_PATH: Final = templates.SPEC_PATH.child("network", "enableDNSHostnames")
_TRAINER_PATH: Final = FieldPath("spec.trainer")
_RESOURCES_PATH: Final = _TRAINER_PATH.child("resourcesPerNode")


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of the operator's configuration that manifests and statuses depend on."""

    feature_gates: frozenset[str] = frozenset()
    """The gates that are on."""
    operator_namespace: str = names.KUBEFLOW_NAMESPACE
    service_name: str = "kubeflow-trainer-controller-manager"
    status_server_port: int = names.STATUS_PORT
    status_server_ca: str = "CA"
    """The CA of the status server as PEM; where there is no server, a placeholder."""
    queue_holds_jobset: bool = False
    """Whether Kueue queues JobSets in place of TrainJobs (see `queueing`)."""
    keeps_resumed: bool = False
    """Whether a TrainJob of a queue keeps `Suspended=False` once it is resumed, as with Trainer (ADR 30)."""
    built_as: int = 3
    """How pods are built; lower for a JobSet that was made so (see `child_annotations`, ADR 32). 1: they get
    only what Trainer v2.3 gives them. 2: as version 0.1.0 builds them."""

    @property
    def as_trainer_builds(self) -> bool:
        """Whether pods get only what Trainer v2.3 gives them."""
        return self.built_as == 1

    @property
    def as_first_release_builds(self) -> bool:
        """Whether the TrainJob's own resources hide the runtime's from who counts processes, and limits are
        no requests of a gang."""
        return self.built_as < 3

    @property
    def keeps_emptied_words(self) -> bool:
        """Whether an empty command or list of arguments leaves the runtime's; not so with Trainer."""
        return self.built_as == 2


DEFAULT_SETTINGS: Final = Settings()


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one ReplicatedJob."""

    name: str
    ancestor: str | None
    """Step of the TrainJob: a value of the ancestor label."""
    count: int


@dataclass(frozen=True, slots=True)
class Info:
    """The object under construction, as it flows through the phases."""

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
    """Name of the headless Service that the pods' addresses end in, known after `identify_network`; empty
    where the runtime has switched them off."""

    @property
    def trainer(self) -> Json | None:
        """`spec.trainer`; None only if absent, not if empty."""
        return json_reader.optional_mapping(self.trainjob.spec.get("trainer"), _TRAINER_PATH)

    @property
    def nodes(self) -> int | None:
        """`spec.trainer.numNodes`."""
        return json_reader.integer((self.trainer or {}).get("numNodes"), _TRAINER_PATH.child("numNodes"))

    @property
    def processes(self) -> int | None:
        """`spec.trainer.numProcPerNode`."""
        path = _TRAINER_PATH.child("numProcPerNode")
        return json_reader.integer((self.trainer or {}).get("numProcPerNode"), path)

    @property
    def env(self) -> tuple[Json, ...]:
        """The variables in `spec.trainer.env`, as they are copied into a container."""
        return templates.environment((self.trainer or {}).get("env"), _TRAINER_PATH.child("env"))

    def policy(self, name: str) -> Json | None:
        """The source of that name in the runtime's mlPolicy, None if it has another or none."""
        policy = self.ml_policy or {}
        return json_reader.optional_mapping(policy.get(name), ML_POLICY_PATH.child(name))

    def pod_group(self, name: str) -> Json | None:
        """The gang scheduler of that name in the runtime's podGroupPolicy, None if it has another or none."""
        policy = self.pod_group_policy or {}
        return json_reader.optional_mapping(policy.get(name), POD_GROUP_PATH.child(name))

    def pod_set(self, *, ancestor: str) -> PodSet | None:
        """The first pod set that is this step of the TrainJob."""
        return next((p for p in self.pod_sets if p.ancestor == ancestor), None)

    def counted(self, pod_set: PodSet) -> PodSet:
        """The pod set with as many pods as the TrainJob asks for, if it does."""
        return pod_set if self.nodes is None else replace(pod_set, count=self.nodes)

    @property
    def injects_nothing(self) -> bool:
        """Whether the framework's variables are left out, as Trainer v2.3 does without `spec.trainer`."""
        return self.settings.as_trainer_builds and self.trainer is None

    def container(self, job: str) -> Json | None:
        """The container `node`, in which training processes run, of the ReplicatedJob of that name."""
        return next((templates.container(j, names.NODE) for j in self.jobs if j["name"] == job), None)

    def endpoints(self, pod_set: PodSet) -> Iterator[str]:
        """The addresses of its pods, one at a time: there may be very many."""
        for index in range(pod_set.count):
            yield self.endpoint(pod_set, index)

    def endpoint(self, pod_set: PodSet, index: int) -> str:
        """The address of one of its pods; raises `InvalidFieldError` where pods have none."""
        if not self.subdomain:
            raise invalid(
                DNS_PATH,
                False,
                "must not be false: with the runtime's mlPolicy, pods find each other by their DNS names",
            )
        return f"{self.trainjob.name}-{pod_set.name}-0-{index}.{self.subdomain}"

    def rendezvous(self, pod_set: PodSet) -> str:
        """The address at which its pods meet: that of the first, which a single pod need not look up."""
        if self.settings.as_trainer_builds:
            return f"{self.trainjob.name}-{names.NODE}-0-0.{self.trainjob.name}"
        alone = pod_set.count == 1 and not self.subdomain
        return "localhost" if alone else self.endpoint(pod_set, 0)

    def with_count(self, pod_set: str, count: int) -> Info:
        """With this many pods in the pod set of that name."""
        sets = tuple(replace(p, count=count) if p.name == pod_set else p for p in self.pod_sets)
        return replace(self, pod_sets=sets)

    def with_job(self, name: str, edit: templates.Edit) -> Info:
        """With `edit` applied to the ReplicatedJob of that name."""
        return self.with_jobs(frozenset({name}), edit)

    def with_jobs(self, targets: Set[str], edit: templates.Edit) -> Info:
        """With `edit` applied to the ReplicatedJobs of these names."""
        return replace(self, jobs=tuple(edit(job) if job["name"] in targets else job for job in self.jobs))

    def with_container(self, job: str, edit: templates.Edit) -> Info:
        """With `edit` applied to the container `node` of that ReplicatedJob."""
        return self.with_job(job, lambda j: templates.with_container(j, names.NODE, edit))

    def with_env(self, job: str, env: Iterable[Json]) -> Info:
        """With the variables in the container `node`, each replacing the one of its name."""
        variables = tuple(env)
        return self.with_container(job, lambda container: templates.with_env(container, variables))

    def with_port(self, job: str) -> Info:
        """With the port at which trainers meet opened on the container `node`."""
        return self.with_container(job, lambda container: templates.with_port(container, names.TRAINER_PORT))

    def with_volumes(self, job: str, volumes: Sequence[Json]) -> Info:
        """With the volumes in the pods of that ReplicatedJob, each replacing the one of its name."""

        def edit(template: Json) -> Json:
            return {**template, "spec": templates.upserted(template["spec"], "volumes", "name", volumes)}

        return self.with_job(job, lambda j: templates.with_pod_template(j, edit))

    def with_mounts(self, job: str, mounts: Sequence[Json]) -> Info:
        """With the mounts in the container `node`, each replacing the one at its path."""
        return self.with_container(
            job, lambda container: templates.upserted(container, "volumeMounts", "mountPath", mounts)
        )


@dataclass(frozen=True, slots=True)
class Child:
    """A child object of a TrainJob."""

    manifest: Json
    generated: Generated | None = None
    """Fields that are generated at creation; such an object is never updated."""


def new_info(trainjob: TrainJob, runtime: Runtime, settings: Settings) -> Info:
    """The request of a TrainJob and its runtime, before any plugin.

    Follows `NewInfo` of Trainer v2.3: runtimePatches merge into the JobSet
    template in their order, ReplicatedJobs keep the runtime's order.

    Raises `InvalidFieldError` for an invalid field.
    """
    template, path = json_reader.below(runtime.spec, FieldPath("spec"), "template")
    metadata, at = json_reader.below(template, path, "metadata")
    labels = dict(json_reader.text_map(metadata.get("labels"), at.child("labels")))
    annotations = dict(json_reader.text_map(metadata.get("annotations"), at.child("annotations")))
    spec: Json = json_reader.mapping(template.get("spec"), templates.SPEC_PATH)
    stages = [_Stage(templates.checked(spec, templates.SPEC_PATH), templates.SPEC_PATH)]
    order = {job["name"]: position for position, job in enumerate(stages[0].spec["replicatedJobs"])}

    for patch, path in patches.parts(trainjob.spec):
        json_reader.require_shallow(patch, path)
        named, at = json_reader.below(patch, path, "metadata")
        labels |= json_reader.text_map(named.get("labels"), at.child("labels"))
        annotations |= json_reader.text_map(named.get("annotations"), at.child("annotations"))
        changes, at = json_reader.below(patch, path, "spec")
        if changes:
            changes = patches.what_is_said(changes)
            merged = merge.strategic_merge(stages[-1].spec, changes, merge.JOBSET_SPEC, at)
            stages.append(_Stage(merged, at))
    spec = _checked(stages)

    ml_policy = json_reader.optional_mapping(runtime.spec.get("mlPolicy"), ML_POLICY_PATH)
    jobs = sorted(spec["replicatedJobs"], key=lambda job: order.get(job["name"], 0))
    return Info(
        trainjob=trainjob,
        runtime=runtime,
        settings=settings,
        ml_policy=ml_policy,
        pod_group_policy=json_reader.optional_mapping(runtime.spec.get("podGroupPolicy"), POD_GROUP_PATH),
        labels=labels,
        annotations=annotations,
        spec={name: value for name, value in spec.items() if name != "replicatedJobs"},
        jobs=tuple(jobs),
        pod_sets=tuple(_pod_set(job, ml_policy) for job in jobs),
    )


class _Stage(NamedTuple):
    """A JobSet spec after the runtime's template or a patch, and the path of that."""

    spec: Json
    path: FieldPath


def _checked(stages: Sequence[_Stage]) -> Json:
    """The last stage, checked. If it is wrong, a binary search finds the patch that made it so:
    checking after each patch would take many times as long."""
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


def _pod_set(job: Json, ml_policy: Json | None) -> PodSet:
    ancestor = templates.ancestor(job)
    if ancestor == names.ANCESTOR_TRAINER and ml_policy is not None:
        count = json_reader.integer(ml_policy.get("numNodes"), ML_POLICY_PATH.child("numNodes"))
    else:
        count = json_reader.integer(job["template"]["spec"].get("parallelism"), FieldPath("parallelism"))
    return PodSet(job["name"], ancestor, max(1, 1 if count is None else count))


def with_resources(info: Info, trainers: Callable[[Info], Sequence[Json]]) -> Info:
    """With the TrainJob's resourcesPerNode, key by key, in the container `node` of those that train.

    Args:
        info: The requested job.
        trainers: Returns the ReplicatedJobs that train.
    """
    given = json_reader.optional_mapping((info.trainer or {}).get("resourcesPerNode"), _RESOURCES_PATH)
    if given is None or info.ml_policy is None:
        return info
    to_change = trainers(info)
    if not to_change:
        return info
    amounts = templates.resources(given, _RESOURCES_PATH)

    def merged(container: Json) -> Json:
        result: dict[str, Any] = {}
        for kind in ("limits", "requests"):
            together = {**container["resources"].get(kind, {}), **amounts.get(kind, {})}
            if together:
                result[kind] = together
        return {**container, "resources": result}

    with_node = frozenset(
        job["name"] for job in to_change if templates.container(job, names.NODE) is not None
    )
    return info.with_jobs(with_node, lambda job: templates.with_container(job, names.NODE, merged))
