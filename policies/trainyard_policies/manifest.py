"""A manifest, parsed as far as rules need it.

`read` gives a `Manifest`, or a `Workload` for a runtime or a TrainJob: its
ReplicatedJobs with their pod specs and containers, each with its path. For a
TrainJob these are the parts in its runtimePatches, and its trainer and
initializers as containers. Shapes that cannot be read raise
`InvalidFieldError`, so that no rule has to handle them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from .subject import Subject

_METADATA: Final = FieldPath("metadata")
_SPEC: Final = FieldPath("spec")
_LISTS: Final = ("initContainers", "containers")
_REFERENCE: Final = "$("
"""How a value begins to name another variable, which Kubernetes puts in its place."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container requests and is limited to, or a pod for all its containers."""

    value: Json
    path: FieldPath

    def amounts(self, part: str) -> tuple[Json, FieldPath]:
        """Its `requests` or `limits`, and where they are; a null counts as left out, as in the cluster."""
        path = self.path.child(part)
        amounts = json_reader.mapping(self.value.get(part), path)
        return {name: amount for name, amount in amounts.items() if amount is not None}, path


@dataclass(frozen=True, slots=True)
class Container:
    """A container, or its equivalent in a TrainJob."""

    name: str
    path: FieldPath
    value: Json
    resources: Resources

    @property
    def image(self) -> str | None:
        """Its image; None if it is set elsewhere."""
        return json_reader.text(self.value.get("image"), self.path.child("image"))

    @property
    def env(self) -> Sequence[Json]:
        """Its environment, each entry with a name."""
        return json_reader.named_objects(self.value.get("env"), self.path.child("env"))

    @property
    def mounts(self) -> Sequence[Json]:
        """Its volumeMounts, each with the name of a volume."""
        return json_reader.named_objects(self.value.get("volumeMounts"), self.path.child("volumeMounts"))

    def cache_images(self) -> Iterator[tuple[str, FieldPath]]:
        """The image of the cache that it starts, if it is an initializer that starts one, with its place."""
        for entry, path in self._caches():
            image = json_reader.text(entry.get("value"), path.child("value"))
            if image and _REFERENCE not in image:
                yield image, path.child("value")

    def hidden_cache_images(self) -> Iterator[FieldPath]:
        """Where the image of the cache is only a reference, to what the pod gets when it starts."""
        for entry, path in self._caches():
            if _REFERENCE in (json_reader.text(entry.get("value"), path.child("value")) or ""):
                yield path.child("value")
            if entry.get("valueFrom") is not None:
                yield path.child("valueFrom")

    def _caches(self) -> Iterator[tuple[Json, FieldPath]]:
        if self.name not in names.INITIALIZERS:
            return
        for position, entry in enumerate(self.env):
            if entry["name"] == names.CACHE_IMAGE:
                yield entry, self.path.child("env").index(position)

    @property
    def security(self) -> tuple[Json, FieldPath]:
        """Its securityContext, and where it is."""
        path = self.path.child("securityContext")
        return json_reader.mapping(self.value.get("securityContext"), path), path


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """A ReplicatedJob, or the patch of one, down to its pods."""

    name: str
    path: FieldPath
    value: Json
    step: str | None
    """What its ancestor label says."""
    pod: Json
    pod_path: FieldPath
    resources: Resources
    """Its pods' own, beside those of their containers."""
    lists: Mapping[str, Sequence[Container]]
    """The containers of its pods, by the list that they are in."""

    @property
    def pods(self) -> int:
        """The pods that it runs at once."""
        replicas = json_reader.integer(self.value.get("replicas"), self.path.child("replicas"))
        template, path = json_reader.below(self.value, self.path, "template", "spec")
        parallelism = json_reader.integer(template.get("parallelism"), path.child("parallelism"))
        return (1 if replicas is None else replicas) * (1 if parallelism is None else parallelism)

    @property
    def volumes(self) -> Sequence[Json]:
        """The volumes of its pods, each with a name."""
        return json_reader.named_objects(self.pod.get("volumes"), self.pod_path.child("volumes"))

    @property
    def dependencies(self) -> Sequence[Json]:
        """What it waits for, each with the name of a ReplicatedJob."""
        return json_reader.named_objects(self.value.get("dependsOn"), self.path.child("dependsOn"))

    def templates(self) -> Iterator[tuple[Json, FieldPath]]:
        """The template of its Jobs and that of their pods, each with its place."""
        template, path = json_reader.below(self.value, self.path, "template")
        yield template, path
        yield json_reader.below(template, path, "spec", "template")

    def containers(self, *lists: str) -> Iterator[Container]:
        """The containers of its pods; init containers too, unless other lists are named."""
        for key in lists or _LISTS:
            yield from self.lists[key]

    def container(self, name: str) -> Container | None:
        """The container of that name."""
        return next((c for c in self.containers("containers") if c.name == name), None)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Any object: its identity and its content."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    labels: Json
    annotations: Json
    value: Json
    generated: bool
    """Whether the name is only a prefix (`generateName`)."""

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"


@dataclass(frozen=True)  # without slots: it keeps what many rules ask for
class Workload(Manifest):
    """A runtime or a TrainJob."""

    spec: Json
    templates: Sequence[tuple[Json, FieldPath]]
    """The JobSet template, or in a TrainJob the patch of it in each of its runtimePatches, with its place."""
    jobs: Sequence[ReplicatedJob]

    @property
    def subject(self) -> Subject:
        """Whose levels apply."""
        return Subject.TRAINJOBS if self.kind == names.TRAINJOB else Subject.RUNTIMES

    @property
    def ml_policy(self) -> tuple[Json, FieldPath]:
        """Its mlPolicy, empty if it has none, and where it is."""
        return json_reader.below(self.spec, _SPEC, "mlPolicy")

    def containers(self) -> Iterator[Container]:
        """Every container in it, and in a TrainJob its trainer and initializers."""
        for job in self.jobs:
            yield from job.containers()
        if self.subject is Subject.TRAINJOBS:
            yield from self._own_containers

    def resources(self) -> Iterator[Resources]:
        """Those of every container, and of the pods themselves."""
        yield from (container.resources for container in self.containers())
        yield from (job.resources for job in self.jobs)

    def images(self) -> Iterator[tuple[str, FieldPath]]:
        """Every image of its containers, of volumes of its pods, and of the cache that an initializer starts.

        Each with its place.
        """
        for container in self.containers():
            if container.image is not None:
                yield container.image, container.path.child("image")
            yield from container.cache_images()
        for job in self.jobs:
            path = job.pod_path.child("volumes")
            for position, volume in enumerate(job.volumes):
                source, at = json_reader.below(volume, path.index(position), "image")
                reference = json_reader.text(source.get("reference"), at.child("reference"))
                if reference is not None:
                    yield reference, at.child("reference")

    def claims(self) -> Iterator[tuple[Json, FieldPath]]:
        """The claims that a runtime's JobSet creates for each job, each with its place."""
        jobset, path = json_reader.below(self.spec, _SPEC, "template", "spec")
        path = path.child("volumeClaimPolicies")
        for position, policy in enumerate(json_reader.objects(jobset.get("volumeClaimPolicies"), path)):
            at = path.index(position).child("templates")
            for index, claim in enumerate(json_reader.objects(policy.get("templates"), at)):
                yield claim, at.index(index)

    def trainers(self) -> Sequence[ReplicatedJob]:
        """The ReplicatedJobs whose step is the trainer's: one, if the runtime is valid."""
        return [job for job in self.jobs if job.step == names.ANCESTOR_TRAINER]

    def training_containers(self) -> Iterator[Container]:
        """The containers that train: `node` of the trainer's step, or a TrainJob's trainer."""
        if self.subject is Subject.TRAINJOBS:
            yield from (c for c in self._own_containers if c.name == names.NODE)
            return
        for job in self.trainers():
            container = job.container(names.NODE)
            if container is not None:
                yield container

    @cached_property
    def _own_containers(self) -> Sequence[Container]:
        """What stands for containers in a TrainJob: its trainer and its initializers."""
        return tuple(_own_containers(self.spec))


def _own_containers(spec: Json) -> Iterator[Container]:
    path = _SPEC.child("trainer")
    trainer = json_reader.optional_mapping(spec.get("trainer"), path)
    if trainer is not None:
        resources = Resources(*json_reader.below(trainer, path, "resourcesPerNode"))
        yield Container(names.NODE, path, trainer, resources)
    above = _SPEC.child("initializer")
    initializer = json_reader.mapping(spec.get("initializer"), above)
    for key, name in (("dataset", names.DATASET_INITIALIZER), ("model", names.MODEL_INITIALIZER)):
        value = json_reader.optional_mapping(initializer.get(key), above.child(key))
        if value is not None:
            yield Container(name, above.child(key), value, Resources({}, above.child(key)))


def is_workload(value: Json) -> bool:
    """Whether it is a runtime or a TrainJob, which most rules are about."""
    return value.get("apiVersion") == names.TRAINER_API_VERSION and (
        value.get("kind") in names.RUNTIME_KINDS or value.get("kind") == names.TRAINJOB
    )


def read(value: Json) -> Manifest:
    """The manifest, a `Workload` if it is one; raises `InvalidFieldError` for invalid shapes."""
    json_reader.require_shallow(value, FieldPath())
    metadata = json_reader.mapping(value.get("metadata"), _METADATA)
    name = json_reader.text(metadata.get("name"), _METADATA.child("name"))
    prefix = json_reader.text(metadata.get("generateName"), _METADATA.child("generateName"))
    identity: dict[str, Any] = {
        "api_version": json_reader.required_text(value.get("apiVersion"), FieldPath("apiVersion")),
        "kind": json_reader.required_text(value.get("kind"), FieldPath("kind")),
        "name": json_reader.required_text(name or prefix, _METADATA.child("name")),
        "namespace": json_reader.text(metadata.get("namespace"), _METADATA.child("namespace")),
        "labels": json_reader.text_map(metadata.get("labels"), _METADATA.child("labels")),
        "annotations": json_reader.text_map(metadata.get("annotations"), _METADATA.child("annotations")),
        "value": value,
        "generated": not name,
    }
    if not is_workload(value):
        return Manifest(**identity)
    spec = json_reader.mapping(value.get("spec"), _SPEC)
    is_trainjob = value["kind"] == names.TRAINJOB
    templates = tuple(_patched(spec)) if is_trainjob else (json_reader.below(spec, _SPEC, "template"),)
    jobs = tuple(job for template in templates for job in _replicated(*template))
    return Workload(**identity, spec=spec, templates=templates, jobs=jobs)


def _patched(spec: Json) -> Iterator[tuple[Json, FieldPath]]:
    path = _SPEC.child("runtimePatches")
    for position, patch in enumerate(json_reader.objects(spec.get("runtimePatches"), path)):
        yield json_reader.below(patch, path.index(position), "trainingRuntimeSpec", "template")


def _replicated(template: Json, path: FieldPath) -> Iterator[ReplicatedJob]:
    jobset, above = json_reader.below(template, path, "spec")
    above = above.child("replicatedJobs")
    for position, job in enumerate(json_reader.named_objects(jobset.get("replicatedJobs"), above)):
        at = above.index(position)
        template, template_path = json_reader.below(job, at, "template")
        labels, labels_path = json_reader.below(template, template_path, "metadata", "labels")
        pod, pod_path = json_reader.below(template, template_path, "spec", "template", "spec")
        step = json_reader.text(labels.get(names.ANCESTOR_LABEL), labels_path.key(names.ANCESTOR_LABEL))
        lists = {key: tuple(_containers(pod.get(key), pod_path.child(key))) for key in _LISTS}
        resources = Resources(*json_reader.below(pod, pod_path, "resources"))
        yield ReplicatedJob(job["name"], at, job, step, pod, pod_path, resources, lists)


def _containers(value: Any, path: FieldPath) -> Iterator[Container]:
    for position, container in enumerate(json_reader.named_objects(value, path)):
        at = path.index(position)
        resources = Resources(*json_reader.below(container, at, "resources"))
        yield Container(container["name"], at, container, resources)
