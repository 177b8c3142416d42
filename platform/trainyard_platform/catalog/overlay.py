"""What a stack changes in one runtime of the catalog, so that no runtime is copied for a stack.

The changes are in the pods that train: the trainer step's and, where that is
MPI's launcher, those of the job `node`. Initializers stay as they are.
"""

import copy
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from trainyard_api import names, quantity
from trainyard_api.closed import Closed, Quantity
from trainyard_api.pools import TaintEffect

from ..model import Image, PullPolicy


class TolerationOperator(StrEnum):
    """How a toleration compares a taint's value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class Toleration(Closed):
    """A taint that does not keep the pods off."""

    key: str = Field(min_length=1)
    """Key of the taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Exists takes any value of the taint, Equal the one named."""
    value: str | None = None
    """Value of the taint."""
    effect: TaintEffect | None = None
    """Effect of the taint; any if left out."""


class Placement(Closed):
    """How close to each other Kueue puts the pods: a level of the pool's topology, by its label."""

    required: str | None = Field(default=None, min_length=1)
    """All within one domain of this level; the job waits until one has room."""
    preferred: str | None = Field(default=None, min_length=1)
    """Within one domain of this level where one has room, else within as few as can be."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "Placement":
        if (self.required is None) is (self.preferred is None):
            raise ValueError("needs one of the keys 'required' and 'preferred'")
        return self


class RuntimeOverlay(Closed):
    """What a stack changes in one runtime of the catalog."""

    enabled: bool | None = None
    """Whether this stack installs it; if left out it does, unless the file calls itself optional."""
    image: Image | None = None
    """Image of the trainer's containers, taken as it is: neither pinned nor mirrored."""
    image_pull_policy: PullPolicy | None = None
    """When nodes pull that image."""
    env: dict[str, str] = Field(default={})
    """Environment variables of the trainer's containers; they win over the catalog's of the same name."""
    resources: dict[str, Quantity] = Field(default={})
    """Requests and limits of the trainer's containers, by resource name, such as nvidia.com/gpu; "0" takes
    away what the catalog asks for."""
    node_selector: dict[str, str] = Field(default={})
    """Labels that the trainer's nodes must have, beside the catalog's."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the trainer's pods tolerate, beside the catalog's."""
    topology: Placement | None = None
    """How close together Kueue puts the trainer's pods, instead of what the catalog says."""


def apply(manifest: Mapping[str, Any], overlay: RuntimeOverlay) -> dict[str, Any]:
    """A copy of the runtime with the changes made."""
    result: dict[str, Any] = copy.deepcopy(dict(manifest))
    for job in training_jobs(result):
        template = job["template"]["spec"]["template"]
        pod = template["spec"]
        if overlay.topology is not None:
            _place(template, overlay.topology)
        if overlay.node_selector:
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **overlay.node_selector}
        if overlay.tolerations:
            added = [one.model_dump(mode="json", exclude_none=True) for one in overlay.tolerations]
            pod["tolerations"] = [*pod.get("tolerations", []), *added]
        images = {container.get("image") for container in pod["containers"]}
        for container in pod["containers"]:
            _container(container, overlay)
            _image(container, overlay)
        for container in pod.get("initContainers", []):
            # An init container that prepares the trainer with the trainer's own tools.
            if container.get("image") in images:
                _image(container, overlay)
    return result


def training_jobs(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The replicated jobs of a runtime whose pods train."""
    for job in manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        if step(job) == names.ANCESTOR_TRAINER or job["name"] == names.NODE:
            yield job


def step(job: Mapping[str, Any]) -> object:
    """The step that a replicated job is, by its label; None without one."""
    metadata = job["template"].get("metadata") or {}
    return (metadata.get("labels") or {}).get(names.ANCESTOR_LABEL)


def _place(template: dict[str, Any], placement: Placement) -> None:
    metadata = template.setdefault("metadata", {})
    kept = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if key not in (names.REQUIRED_TOPOLOGY_ANNOTATION, names.PREFERRED_TOPOLOGY_ANNOTATION)
    }
    if placement.required is not None:
        kept[names.REQUIRED_TOPOLOGY_ANNOTATION] = placement.required
    if placement.preferred is not None:
        kept[names.PREFERRED_TOPOLOGY_ANNOTATION] = placement.preferred
    metadata["annotations"] = kept


def _image(container: dict[str, Any], overlay: RuntimeOverlay) -> None:
    if overlay.image is not None:
        container["image"] = overlay.image
    if overlay.image_pull_policy is not None:
        container["imagePullPolicy"] = str(overlay.image_pull_policy)


def _container(container: dict[str, Any], overlay: RuntimeOverlay) -> None:
    if overlay.env:
        kept = [entry for entry in container.get("env", []) if entry["name"] not in overlay.env]
        container["env"] = kept + [{"name": name, "value": value} for name, value in overlay.env.items()]
    if overlay.resources:
        # Extended resources must have equal requests and limits; for CPU and
        # memory that gives a training node exactly what it asked for.
        resources = container.setdefault("resources", {})
        for part in ("requests", "limits"):
            amounts = {**resources.get(part, {}), **overlay.resources}
            resources[part] = {k: v for k, v in amounts.items() if quantity.parse(v).nano != 0}
