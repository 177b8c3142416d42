"""References of a job to its own pods, by the labels and names of the old controller, and to their container.

Called by the modules of the kinds, once they know which ReplicatedJob each type
of replicas becomes. Labels of the training operator, names of its pods and
Services, files that it mounted, and the old name of the container that trains:
what has exactly one successor is rewritten, the rest is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard_api import names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from .notes import Notes
from .source import Job, Role

_PREFIX: Final = "training.kubeflow.org/"
_LABEL: Final = re.compile(
    rf"(?:{re.escape(_PREFIX)}|(?:tf|pytorch|xgboost|mpi|paddle)-)?"
    "(job-name|replica-type|replica-index|job-role|operator-name|group-name|controller-name)"
)
"""Today's labels of the training operator, and those of its first versions."""
_JOB: Final = "job-name"
_TYPES: Final = frozenset({"replica-type", "job-role"})
_INDEX: Final = "replica-index"
_LABEL_PATH: Final = re.compile(r"""metadata\.labels\[['"]([^'"]+)['"]\]""")
_TEXTS: Final = frozenset({"args", "command", "host", "hostnames", "value"})
"""Fields with texts in which a job may name its pods."""
_NAMES_OF_PODS: Final = re.compile("kubectl|hostname", re.IGNORECASE)
"""Next to these words, a name may be a pod's name instead of its address."""
_GONE: Final = re.compile(r"/etc/mpi/(?:kubexec|discover_hosts)\.sh")
_SELECTORS: Final = frozenset({"selector", "podSelector", "labelSelector"})
_OF_CONTAINER: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Annotations that begin like this end with the name of a container."""
_CONTAINERS: Final = frozenset(
    {"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container"}
)
"""Annotations whose value is the name of a container."""
_LONGEST: Final = 80
"""Characters of a name in a note."""


def rewritten(job: Job, steps: Mapping[str, str], notes: Notes) -> Job:
    """The job with what it says about its pods in the words of today.

    Args:
        job: The job.
        steps: The ReplicatedJob of each type of replicas. Types that share one are numbered in their order.
        notes: Gets a note on each reference.
    """
    layout = _Layout.of(job, steps)
    return replace(job, roles={type_: _role(role, layout, notes) for type_, role in job.roles.items()})


def address(job: Job, steps: Mapping[str, str], text: str, path: FieldPath, notes: Notes) -> str:
    """The address in a field of the job, in the words of today; the other arguments as for `rewritten`."""
    role = list(job.roles.values())[-1]
    rewritten_text: str = _Rewriting(role, _Layout.of(job, steps), notes).text(text, path)
    return rewritten_text


def note_selectors(value: Json, notes: Notes) -> None:
    """Note each selector of another object that selects pods of the training operator."""
    for path, key in _selecting(value, FieldPath(), inside=False):
        message = f"selects by {key[:_LONGEST]}, which pods of TrainJobs do not have: "
        notes.lost(path, f"{message}they have {names.JOBSET_NAME_LABEL}, {names.REPLICATED_JOB_LABEL}")


@dataclass(frozen=True, slots=True)
class _Layout:
    """The new places of each type's replicas."""

    job: Job
    steps: Mapping[str, str]
    first: Mapping[str, int]
    """The number of the first replica of each type in its step."""
    host: re.Pattern[str]
    labels: frozenset[str]
    """The names of the labels that the job itself gives to its pods."""

    @classmethod
    def of(cls, job: Job, steps: Mapping[str, str]) -> _Layout:
        counted: dict[str, int] = {}
        first = {}
        steps = {type_: steps[type_] for type_ in job.roles}
        for type_, role in job.roles.items():
            first[type_] = counted.get(steps[type_], 0)
            counted[steps[type_]] = first[type_] + role.replicas
        labels = frozenset(key for role in job.roles.values() for key in role.labels)
        return cls(job, steps, first, _host(job), labels)

    @property
    def is_shared(self) -> bool:
        """Whether several types are numbered together."""
        return len(set(self.steps.values())) < len(self.steps)

    def steps_of(self, types: Iterable[str]) -> list[str] | None:
        """The steps that hold the replicas of these types (in any case) and no others; None without such."""
        lower_types = {text.lower() for text in types}
        steps = {step for type_, step in self.steps.items() if type_.lower() in lower_types}
        inside = {type_.lower() for type_, step in self.steps.items() if step in steps}
        return sorted(steps) if inside == lower_types else None

    def address(self, type_: str, index: str | None) -> str | None:
        """The DNS name of a replica; None if there is none."""
        role = next((role for role in self.job.roles.values() if role.type.lower() == type_), None)
        if role is None or (index is None and type_ != names.LAUNCHER):
            return None
        position = int(index or 0)
        if position >= role.replicas:
            return None
        return self.job.host(self.steps[role.type], self.first[role.type] + position)


def _host(job: Job) -> re.Pattern[str]:
    """Names of the job's old pods and Services, by themselves or in an address in its namespace."""
    name, types = re.escape(job.name), "|".join(type_.lower() for type_ in job.kind.types)
    namespace = re.escape(str(job.metadata.get("namespace", "default")))
    return re.compile(
        rf"(?<![\w.-])(?<!(?<!/)/){name}-({types})(?:-(?:(\d{{1,5}})|(?=[$*{{\[<%])))?"
        rf"(?:\.{name}(?:-(?:{types}))?)?(?![\w-])(?!\.(?!{namespace}\b|[a-z0-9-]{{1,63}}\.svc\b)\w)"
    )


def _role(role: Role, layout: _Layout, notes: Notes) -> Role:
    position = next(at for at, item in enumerate(role.pod["containers"]) if item is role.container)
    rewriting = _Rewriting(role, layout, notes)
    pod = rewriting.value(role.pod, role.pod_path)
    return replace(role, metadata=rewriting.metadata(), pod=pod, container=pod["containers"][position])


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """Rewrites the pods of one type."""

    role: Role
    layout: _Layout
    notes: Notes

    def metadata(self) -> Json:
        """The metadata of the pods, with annotations that name the container by the name that it gets."""
        annotations = self.role.metadata.get("annotations")
        if not annotations:
            return self.role.metadata
        path = self.role.path.child("template", "metadata", "annotations")
        pairs = [self._annotation(key, text, path.key(key[:100])) for key, text in annotations.items()]
        return {**self.role.metadata, "annotations": dict(pairs)}

    def _annotation(self, key: str, text: str, path: FieldPath) -> tuple[str, str]:
        if key.startswith(_OF_CONTAINER):
            container = key.removeprefix(_OF_CONTAINER)
            return _OF_CONTAINER + self._container(container, path), text
        return key, self._container(text, path) if key in _CONTAINERS else text

    def _container(self, name: Any, path: FieldPath) -> Any:
        """The name that the container of this name gets."""
        if name != self.role.container["name"] or name == names.NODE:
            return name
        return self._changed(path, names.NODE, name)

    def value(self, value: Any, path: FieldPath) -> Any:
        """The value with each reference in it rewritten."""
        if isinstance(value, Mapping):
            return {key: self._entry(key, item, path.child(key[:100])) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, path.index(position)) for position, item in enumerate(value)]
        return value

    def _entry(self, key: str, item: Any, path: FieldPath) -> Any:
        if key == "fieldPath" and isinstance(item, str):
            return self._field_path(item, path)
        if key == "resourceFieldRef" and isinstance(item, Mapping) and "containerName" in item:
            return {
                **item,
                "containerName": self._container(item["containerName"], path.child("containerName")),
            }
        if key == "labelSelector" and isinstance(item, Mapping):
            return self._selector(item, path)
        if key in ("matchLabelKeys", "mismatchLabelKeys") and isinstance(item, list):
            return [self._constraint(label, None, path.index(at))[0] for at, label in enumerate(item)]
        if key in _TEXTS and isinstance(item, list):
            return [self.text(text, path.index(position)) for position, text in enumerate(item)]
        if key in _TEXTS:
            return self.text(item, path)
        return self.value(item, path)

    def _field_path(self, text: str, path: FieldPath) -> str:
        match = _LABEL_PATH.fullmatch(text)
        label = None if match is None else self._label(match[1])
        if match is None or label is None:
            return text
        step = self.layout.steps[self.role.type]
        if label == _JOB:
            return self._changed(path, f"metadata.labels['{names.JOBSET_NAME_LABEL}']", match[1])
        if label in _TYPES and not self.layout.is_shared:
            field_path = f"metadata.labels['{names.REPLICATED_JOB_LABEL}']"
            was = self.role.type.lower()
            moved = "" if step == was else f", and its value {step}, where it was {was}"
            return self._changed(path, field_path, match[1] + moved)
        if label == _INDEX and not self.layout.is_shared:
            return self._changed(path, names.JOB_COMPLETION_INDEX_PATH, match[1])
        self._lost_label(path, match[1])
        return text

    def _label(self, key: str) -> str | None:
        """The label of the training operator, by today's word for it; None for one of the job's own."""
        match = _LABEL.fullmatch(key)
        is_own = key in self.layout.labels and not key.startswith(_PREFIX)
        return None if match is None or is_own else match[1]

    def _selector(self, selector: Json, path: FieldPath) -> Json:
        changed = {**selector}
        labels = selector.get("matchLabels")
        if isinstance(labels, Mapping):
            at = path.child("matchLabels")
            pairs = [self._constraint(key, [text], at.key(key[:100])) for key, text in labels.items()]
            changed["matchLabels"] = {key: values[0] for key, values in pairs}
        expressions = selector.get("matchExpressions")
        if isinstance(expressions, list):
            at = path.child("matchExpressions")
            changed["matchExpressions"] = [
                self._expression(item, at.index(position)) for position, item in enumerate(expressions)
            ]
        return changed

    def _expression(self, expression: Any, path: FieldPath) -> Any:
        if not isinstance(expression, Mapping):
            return expression
        values = expression.get("values")
        given = values if isinstance(values, list) and values else None
        key, new_values = self._constraint(expression.get("key"), given, path.child("key"))
        return {**expression, "key": key, **({} if given is None else {"values": new_values})}

    def _constraint(self, key: Any, values: Sequence[Any] | None, path: FieldPath) -> tuple[Any, Any]:
        """The label and the values of today; `values` None: whatever value it has."""
        label = self._label(key) if isinstance(key, str) else None
        if label is None:
            return key, values
        if label == _JOB:
            return self._changed(path, names.JOBSET_NAME_LABEL, key), values
        if label in _TYPES:
            types = self.layout.steps if values is None else map(str, values)
            steps = self.layout.steps_of(types)
            if steps is not None and (values is not None or not self.layout.is_shared):
                new_key = self._changed(path, names.REPLICATED_JOB_LABEL, key)
                return new_key, None if values is None else steps
        elif label == _INDEX and not self.layout.is_shared:
            return self._changed(path, names.JOB_COMPLETION_INDEX_LABEL, key), values
        self._lost_label(path, key)
        return key, values

    def text(self, text: Any, path: FieldPath) -> Any:
        """The text with each address in it rewritten."""
        if not isinstance(text, str):
            return self.value(text, path)
        for gone in sorted(set(_GONE.findall(text))):
            self.notes.lost(
                path, f"there is no {gone}: ranks start over SSH, on the hosts in /etc/mpi/hostfile"
            )
        keep = _NAMES_OF_PODS.search(text) is not None
        changed: dict[str, str] = {}
        left: dict[str, None] = {}

        def today(match: re.Match[str]) -> str:
            address = None if keep else self.layout.address(match[1], match[2])
            if address is None:
                left[match[0]] = None
                return match[0]
            changed[match[0]] = address
            return address

        result = self.layout.host.sub(today, text)
        if changed:
            pairs = [f"{new}, where it named {old}" for old, new in changed.items()]
            self.notes.changed(path, f"names {'; '.join(pairs[:3])}{' and others' if pairs[3:] else ''}")
        if left:
            step = self.layout.job.host(self.layout.steps[self.role.type])
            message = "is the name of no pod and no Service now: addresses are like"
            self.notes.lost(path, f"{next(iter(left))[:_LONGEST]} {message} {step}")
        return result

    def _changed(self, path: FieldPath, new: str, old: str) -> str:
        self.notes.changed(path, f"is {new}, where it was {old[: 2 * _LONGEST]}")
        return new

    def _lost_label(self, path: FieldPath, label: str) -> None:
        step = self.layout.steps[self.role.type]
        message = f"{label[:_LONGEST]} has no exact successor: pods have {names.REPLICATED_JOB_LABEL}, "
        self.notes.lost(path, f"{message}here {step}, and {names.JOB_COMPLETION_INDEX_LABEL}")


def _selecting(value: Any, path: FieldPath, *, inside: bool) -> Iterator[tuple[FieldPath, str]]:
    """The labels of the training operator in selectors, each with its place."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _selecting(item, path.index(position), inside=inside)
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        here = path.child(str(key)[:100])
        if inside and str(key).startswith(_PREFIX):
            yield path.key(str(key)[:100]), str(key)
        elif inside and key == "key" and str(item).startswith(_PREFIX):
            yield here, str(item)
        else:
            yield from _selecting(item, here, inside=inside or key in _SELECTORS)
