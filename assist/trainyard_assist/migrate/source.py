"""A job of Kubeflow's training operator (kubeflow.org/v1), taken apart.

Called by the modules of the kinds. The kinds differ in the names of their
fields, in their containers and ports: see `Kind`. Replicas, pod templates and
the run policy are the same in all. Reads, and decides nothing.

Raises `InvalidFieldError` for what the training operator could not have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath, invalid, required
from trainyard_api.json_types import Json
from trainyard_operator.core.admit import limits

from .notes import Notes

_OF_JOBS: Final = frozenset(
    {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}
)
"""Labels that Kubernetes gives to the pods of a Job, and refuses with another value than its own."""
_METADATA: Final = FieldPath("metadata")
_SPEC: Final = FieldPath("spec")


@dataclass(frozen=True, slots=True)
class Kind:
    """The differences between kinds of jobs."""

    name: str
    replicas: str
    """The field of the spec that holds the replica specs."""
    types: tuple[str, ...]
    """The types of replicas."""
    container: str | None
    """The container that trains; None: the first."""
    port_name: str
    port: int
    """Port of the first replica unless its container sets another."""
    restart_policy: str
    """Restart policy of replicas that set none."""
    never_is_final: bool = True
    """Whether one failed pod with the restart policy Never ended the job."""
    others: frozenset[str] = frozenset()
    """Further fields of the spec."""
    former_container: str | None = None
    """Name of the training container in the first versions."""


@dataclass(frozen=True, slots=True)
class Role:
    """The replicas of one type."""

    type: str
    path: FieldPath
    replicas: int
    restart_policy: str | None
    """As written; None without one."""
    metadata: Json
    """Labels and annotations of the pods, those that are not empty."""
    labels: frozenset[str]
    """The names of the pods' labels, as written."""
    pod: Json
    """The pod spec as written."""
    container: Json
    """The container that trains."""
    container_path: FieldPath
    port: int

    @property
    def pod_path(self) -> FieldPath:
        """Path of the pod spec."""
        return self.path.child("template", "spec")

    @property
    def words(self) -> tuple[str, ...]:
        """Command and arguments."""
        return tuple(
            word
            for key in ("command", "args")
            for word in json_reader.texts(self.container.get(key), self.container_path.child(key))
        )

    @property
    def sidecars(self) -> list[FieldPath]:
        """Paths of the containers that do not train."""
        path = self.pod_path.child("containers")
        containers = enumerate(self.pod["containers"])
        return [path.index(position) for position, other in containers if other is not self.container]

    def with_container(self, container: Json) -> Role:
        """The role with its training container replaced."""
        containers = [container if other is self.container else other for other in self.pod["containers"]]
        return replace(self, container=container, pod={**self.pod, "containers": containers})

    def same_pods(self, other: Role) -> bool:
        """Whether both make the same pods."""
        return _text((self.metadata, self.pod, self.restart_policy)) == _text(
            (other.metadata, other.pod, other.restart_policy)
        )


@dataclass(frozen=True, slots=True)
class Job:
    """A job with its replicas; types without any are left out."""

    kind: Kind
    name: str
    metadata: Json
    """Metadata of the TrainJob: name, namespace, labels and annotations."""
    spec: Json
    run_policy: Json
    roles: Mapping[str, Role]

    @property
    def total(self) -> int:
        """The number of replicas of all types."""
        return sum(role.replicas for role in self.roles.values())

    def host(self, step: str, position: int = 0) -> str:
        """The DNS name of a pod of a ReplicatedJob."""
        return f"{self.name}-{step}-0-{position}.{self.name}"

    def hosts(self, step: str, count: int) -> list[str]:
        """The DNS names of the first `count` pods."""
        return [self.host(step, position) for position in range(count)]


def read(value: Json, kind: Kind, notes: Notes) -> Job:
    """The job in a manifest; raises `InvalidFieldError`."""
    json_reader.require_shallow(value, FieldPath())
    spec = json_reader.mapping(value.get("spec"), _SPEC)
    unknown_fields(spec, {"runPolicy", kind.replicas, *kind.others}, _SPEC, f"a {kind.name}", notes)
    own = metadata(value, notes)
    path = _SPEC.child(kind.replicas)
    roles = {}
    for key, item in json_reader.mapping(spec.get(kind.replicas), path).items():
        type_ = next((name for name in kind.types if name.lower() == key.lower()), None)
        if type_ is None:
            allowed = ", ".join(kind.types)
            raise invalid(path.child(key[:100]), key[:100], f"must be one of {allowed} in a {kind.name}")
        role = _role(kind, type_, item, path.child(key), notes)
        if role is not None:
            roles[type_] = role
    if not roles:
        raise required(path, f"a {kind.name} without replicas runs nothing")
    policy = json_reader.mapping(spec.get("runPolicy"), _SPEC.child("runPolicy"))
    ordered = {name: roles[name] for name in kind.types if name in roles}
    return Job(kind, own["name"], own, spec, policy, ordered)


def metadata(value: Json, notes: Notes, *, named: bool = True) -> dict[str, Any]:
    """The kept metadata of an object: name, namespace, labels and annotations.

    `named`: the result has a name, though the API server was to generate one.
    """
    original = json_reader.mapping(value.get("metadata"), _METADATA)
    name = json_reader.text(original.get("name"), _METADATA.child("name"))
    generated = json_reader.text(original.get("generateName"), _METADATA.child("generateName"))
    if not name and generated and named:
        name = generated.rstrip("-.")
        message = f"the TrainJob is called {name}: its pods find each other by that name"
        notes.lost(_METADATA.child("generateName"), message)
    if not name and generated:
        kept: dict[str, Any] = {"generateName": generated}
    else:
        kept = {"name": json_reader.required_text(name, _METADATA.child("name"))}
    namespace = json_reader.text(original.get("namespace"), _METADATA.child("namespace"))
    if namespace:
        kept["namespace"] = namespace
    for key in ("labels", "annotations"):
        entries = json_reader.text_map(original.get(key), _METADATA.child(key))
        if entries:
            kept[key] = entries
    for key in ("ownerReferences", "finalizers"):
        if original.get(key):
            notes.lost(_METADATA.child(key), "belongs to the old object; its owner must make the TrainJob")
    return kept


def unknown_fields(value: Json, allowed: Iterable[str], path: FieldPath, whose: str, notes: Notes) -> None:
    """Note the fields that are not among the allowed ones."""
    names = frozenset(allowed)
    for key, item in value.items():
        if key not in names and item is not None:
            notes.lost(path.child(key[:100]), f"is not a field of {whose}")


def _role(kind: Kind, type_: str, value: Any, path: FieldPath, notes: Notes) -> Role | None:
    spec = json_reader.mapping(value, path)
    unknown_fields(spec, ("replicas", "template", "restartPolicy"), path, "a replica spec", notes)
    replicas = count(spec.get("replicas"), path.child("replicas"), least=0)
    if replicas == 0:
        return None
    at = path.child("template")
    template = json_reader.mapping(spec.get("template"), at)
    pod = json_reader.mapping(template.get("spec"), at.child("spec"))
    pod_metadata = _pod_metadata(template, at.child("metadata"), notes)
    container, container_path = _container(kind, pod, at.child("spec", "containers"))
    json_reader.required_text(container.get("image"), container_path.child("image"))
    return Role(
        type=type_,
        path=path,
        replicas=1 if replicas is None else replicas,
        restart_policy=json_reader.text(spec.get("restartPolicy"), path.child("restartPolicy")),
        metadata=_without_labels_of_jobs(pod_metadata, at.child("metadata", "labels"), notes),
        labels=frozenset(pod_metadata.get("labels", ())),
        pod=pod,
        container=container,
        container_path=container_path,
        port=_port(kind, container, container_path),
    )


def count(value: Any, path: FieldPath, *, least: int = 1) -> int | None:
    """A number of pods or processes, no more than the platform runs; None when absent."""
    number = json_reader.integer(value, path)
    if number is not None and not least <= number <= limits.DEFAULT.pods:
        raise invalid(path, number, f"must be between {least} and {limits.DEFAULT.pods}")
    return number


def _container(kind: Kind, pod: Json, path: FieldPath) -> tuple[Json, FieldPath]:
    containers: Sequence[Json] = json_reader.named_objects(pod.get("containers"), path)
    for position, container in enumerate(containers):
        if kind.container is None or container["name"] in (kind.container, kind.former_container):
            return container, path.index(position)
    requirement = "a container" if kind.container is None else f"a container {kind.container!r}, which trains"
    raise required(path, f"must have {requirement}")


def _port(kind: Kind, container: Json, path: FieldPath) -> int:
    for position, port in enumerate(json_reader.objects(container.get("ports"), path.child("ports"))):
        if port.get("name") == kind.port_name:
            at = path.child("ports").index(position).child("containerPort")
            return json_reader.integer(port.get("containerPort"), at) or kind.port
    return kind.port


def _pod_metadata(template: Json, path: FieldPath, notes: Notes) -> Json:
    pod_metadata = json_reader.mapping(template.get("metadata"), path)
    unknown_fields(
        pod_metadata,
        ("labels", "annotations", "creationTimestamp", "name", "namespace"),
        path,
        "a pod template",
        notes,
    )
    entries = {
        key: json_reader.text_map(pod_metadata.get(key), path.child(key)) for key in ("labels", "annotations")
    }
    return {key: value for key, value in entries.items() if value}


def _without_labels_of_jobs(pod_metadata: Json, path: FieldPath, notes: Notes) -> Json:
    """The metadata without the labels with which Kubernetes refuses a Job."""
    labels = pod_metadata.get("labels", {})
    refused = sorted(_OF_JOBS & labels.keys())
    for key in refused:
        message = (
            "Kubernetes sets this label on the pods of a Job: give yours another name, also in selectors"
        )
        notes.lost(path.key(key), message)
    kept = {key: text for key, text in labels.items() if key not in refused}
    return {key: item for key, item in {**pod_metadata, "labels": kept}.items() if item}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=dict)
