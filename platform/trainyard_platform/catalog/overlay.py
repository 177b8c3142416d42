"""What a stack changes in one runtime of the catalog, so that no runtime is copied for a stack.

Where pods go changes for those that train: the trainer step's and, where that is
MPI's launcher, those of the job `node`. Resources change in their containers
`node`. The image and the variables change there and in each other container with
the image of one of these, such as a parameter server or what prepares the trainer.
Sidecars with an image of their own, and initializers, stay as they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard_api import names, quantity
from trainyard_api.json_types import copied

from ..stack.runtimes import Placement, RuntimeOverlay

_JOBS: Final = ("spec", "template", "spec", "replicatedJobs")
_POD: Final = ("template", "spec", "template", "spec")


def apply(manifest: Mapping[str, Any], overlay: RuntimeOverlay) -> dict[str, Any]:
    """A copy of the runtime with the changes made."""
    result: dict[str, Any] = copied(dict(manifest))
    for job in training_jobs(result):
        template = job["template"]["spec"]["template"]
        pod = template["spec"]
        if overlay.topology is not None:
            _place(template, overlay.topology)
        if overlay.node_selector:
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **overlay.node_selector}
        if overlay.tolerations:
            added = [
                toleration.model_dump(mode="json", exclude_none=True) for toleration in overlay.tolerations
            ]
            pod["tolerations"] = [*pod.get("tolerations", []), *added]
    for container in training_containers(result):
        _resources(container, overlay)
    for _, container in of_trainers_image(result):
        _env(container, overlay)
        _image(container, overlay)
    return result


def training_jobs(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The replicated jobs of a runtime whose pods train."""
    for job in manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        if step(job) == names.ANCESTOR_TRAINER or job["name"] == names.NODE:
            yield job


def training_containers(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The containers of a runtime that train. Their pods can also have sidecars."""
    for job in training_jobs(manifest):
        yield from (container for container in _pod(job)["containers"] if container["name"] == names.NODE)


def of_trainers_image(manifest: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """The containers with an image of those that train, themselves among them, each after the path to it.

    An initializer is none of them, whatever its image is.
    """
    images = {container.get("image") for container in training_containers(manifest)}
    for position, job in enumerate(manifest["spec"]["template"]["spec"]["replicatedJobs"]):
        if step(job) not in (None, names.ANCESTOR_TRAINER):
            continue
        path = (*_JOBS, position, *_POD)
        for part in ("initContainers", "containers"):
            for index, container in enumerate(_pod(job).get(part, [])):
                if container.get("image") in images:
                    yield (*path, part, index), container


def step(job: Mapping[str, Any]) -> object:
    """The step that a replicated job is, by its label; None without one."""
    metadata = job["template"].get("metadata") or {}
    return (metadata.get("labels") or {}).get(names.ANCESTOR_LABEL)


def _pod(job: Mapping[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["template"]["spec"]["template"]["spec"]
    return pod


def _place(template: dict[str, Any], placement: Placement) -> None:
    metadata = template.setdefault("metadata", {})
    annotations = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if key not in (names.REQUIRED_TOPOLOGY_ANNOTATION, names.PREFERRED_TOPOLOGY_ANNOTATION)
    }
    if placement.required is not None:
        annotations[names.REQUIRED_TOPOLOGY_ANNOTATION] = placement.required
    if placement.preferred is not None:
        annotations[names.PREFERRED_TOPOLOGY_ANNOTATION] = placement.preferred
    metadata["annotations"] = annotations


def _image(container: dict[str, Any], overlay: RuntimeOverlay) -> None:
    if overlay.image is not None:
        container["image"] = overlay.image
    if overlay.image_pull_policy is not None:
        container["imagePullPolicy"] = str(overlay.image_pull_policy)


def _env(container: dict[str, Any], overlay: RuntimeOverlay) -> None:
    if overlay.env:
        inherited = [entry for entry in container.get("env", []) if entry["name"] not in overlay.env]
        container["env"] = inherited + [{"name": name, "value": value} for name, value in overlay.env.items()]


def _resources(container: dict[str, Any], overlay: RuntimeOverlay) -> None:
    if overlay.resources:
        # A limit is a request too. A request of the runtime's would stay when a TrainJob lowers the limit,
        # and Kubernetes refuses a pod that requests more than its limit.
        before = container.setdefault("resources", {})
        requests = {k: v for k, v in before.get("requests", {}).items() if k not in overlay.resources}
        amounts = {**before.get("limits", {}), **overlay.resources}
        limits = {k: v for k, v in amounts.items() if quantity.parse(v).nano != 0}
        changed = {**before, "requests": requests, "limits": limits}
        # Clients that find empty limits look for a device in them, and fail.
        container["resources"] = {part: entries for part, entries in changed.items() if entries}
