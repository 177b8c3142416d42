"""The variables of a pod as one machine has them.

Called by `plan`. Values are filled in as the kubelet does it; what only a
cluster has is taken from the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json
from trainyard_operator.core.build import templates

from ..offline import PLACEHOLDER_UID
from .pods import Pod

ADDRESS: Final = "127.0.0.1"
"""The address of each pod."""

_REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
"""A variable inside another one, a command or an argument; `$$` stands for `$`."""
_METADATA: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_SOURCES: Final = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}
_LISTS: Final = {"secretRef": "Secret", "configMapRef": "ConfigMap"}


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with `$(NAME)` replaced by the variable; as it is where there is no such variable."""
    return _REFERENCE.sub(lambda match: "$" if match[1] is None else variables.get(match[1], match[0]), text)


def value(pod: Pod, variable: Json, shell: Mapping[str, str]) -> str | None:
    """The value of a variable of the pod, before `expanded`; None where neither pod nor shell has one.

    Args:
        pod: Whose container has the variable.
        variable: As the container has it.
        shell: The variables of the shell, for what only a cluster has.

    Raises:
        InvalidFieldError: A field is of another type.
    """
    path = _path(pod, variable)
    source = json_reader.mapping(variable.get("valueFrom"), path.child("valueFrom"))
    if not source:
        return json_reader.text(variable.get("value"), path.child("value")) or ""
    reference = json_reader.mapping(source.get("fieldRef"), path.child("valueFrom", "fieldRef"))
    if reference:
        return _field(pod, str(reference.get("fieldPath")))
    return shell.get(variable["name"])


def missing(pod: Pod, shell: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each variable of the pod that only a cluster has, and the shell has not.

    Raises:
        InvalidFieldError: A field is of another type.
    """
    for sources in pod.container.get("envFrom") or ():
        for kind, _ in _referenced(sources, _LISTS, pod.path.child("envFrom")):
            yield f"The variables of {kind} are not here, except those that this shell sets"
    for variable in pod.container.get("env") or ():
        name, path = variable["name"], _path(pod, variable).child("valueFrom")
        sources = json_reader.mapping(variable.get("valueFrom"), path)
        if name in shell or sources.get("fieldRef"):
            continue
        for kind, reference in _referenced(sources, _SOURCES, path):
            if not reference.get("optional"):
                yield f"{name} is from {kind}, which is not here: set {name} in this shell"
        if sources.get("resourceFieldRef"):
            yield f"{name} is from the resources of a container, which is not here: set {name} in this shell"


def _referenced(sources: Json, kinds: Mapping[str, str], path: FieldPath) -> Iterator[tuple[str, Json]]:
    """The kind of the reference as text, and the reference."""
    for field, kind in kinds.items():
        reference = json_reader.mapping(sources.get(field), path.child(field))
        if reference:
            yield f"the {kind} {reference.get('name')}", reference


def _field(pod: Pod, field: str) -> str:
    """The value of a pod's field, as far as it is known without a pod."""
    labels = {
        names.JOB_COMPLETION_INDEX_LABEL: pod.index,
        names.JOBSET_NAME_LABEL: pod.jobset,
        names.JOBSET_UID_LABEL: PLACEHOLDER_UID,
        names.REPLICATED_JOB_LABEL: pod.place.job,
        names.RESTART_ATTEMPT_LABEL: "0",
    }
    if match := _METADATA.fullmatch(field):
        metadata: Mapping[str, str] = templates.pod_template(pod.job)["metadata"].get(match[1]) or {}
        return {**metadata, **labels}.get(match[2], "")
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": PLACEHOLDER_UID,
        "spec.nodeName": "localhost",
        "spec.serviceAccountName": "default",
    }
    return fields.get(field, ADDRESS if field.startswith("status.") else "")


def _path(pod: Pod, variable: Json) -> FieldPath:
    return pod.path.child("env").key(variable["name"])
