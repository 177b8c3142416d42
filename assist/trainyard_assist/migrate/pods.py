"""The parts of a pod template that a TrainJob can express, and those that need a runtime.

Called by `target`. A TrainJob has fields of its own for image, command,
arguments, environment and resources, and patches for what is listed here
(Trainer v2.3, `PodSpecPatch` and `ContainerPatch`); everything else needs a
runtime that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, invalid
from trainyard_api.json_types import Json

from .notes import Notes
from .source import Role

MANAGER: Final = "trainyard.dev/migrate"
"""The manager of the patches."""

_TRAINER: Final = ("image", "command", "args", "env")
_PATCHABLE_CONTAINER: Final = ("volumeMounts", "securityContext")
_PATCHABLE_POD: Final = (
    "serviceAccountName",
    "volumes",
    "imagePullSecrets",
    "securityContext",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulingGates",
    "terminationGracePeriodSeconds",
)
_POD_DEFAULTS: Final = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "hostIPC": False,
    "hostNetwork": False,
    "hostPID": False,
    "schedulerName": "default-scheduler",
}
_DEFAULT_ACCOUNT: Final = "default"
"""The service account of pods that name none. A program that needs a token has an account of its own."""
_CONTAINER_DEFAULTS: Final = {
    "stdin": False,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "tty": False,
}


def beyond_a_trainjob(role: Role, port_name: str) -> Iterator[FieldPath]:
    """The fields of its pods that a TrainJob cannot express."""
    pod, path = _pod(role), role.pod_path
    for key in pod:
        if key not in (*_PATCHABLE_POD, "containers", "restartPolicy"):
            yield path.child(key)
    yield from role.sidecars
    yield from _beyond_container(role, port_name)


def _beyond_container(role: Role, port_name: str) -> Iterator[FieldPath]:
    path = role.container_path
    for key, value in _container(role.container).items():
        if key in (*_TRAINER, "name", "securityContext"):
            continue
        if key == "resources":
            claims = json_reader.mapping(value, path.child(key)).get("claims")
            if not claims:
                continue
        if key == "ports" and all(
            port.get("name") == port_name for port in json_reader.objects(value, path.child(key))
        ):
            continue
        if key == "volumeMounts":
            mounts = [mount["name"] for mount in json_reader.named_objects(value, path.child(key))]
            if len(set(mounts)) == len(mounts):
                continue
        yield path.child(key)


def has_token(role: Role) -> bool:
    """Whether its pods have a token that a program may need: that of a service account of its own."""
    pod = _pod(role)
    path = role.pod_path.child("serviceAccountName")
    account = json_reader.text(pod.get("serviceAccountName"), path)
    return account not in (None, _DEFAULT_ACCOUNT) and pod.get("automountServiceAccountToken") is not False


def trainer(role: Role) -> dict[str, Any]:
    """The container's fields for the TrainJob's trainer, without the environment."""
    container = role.container
    trainer_spec: dict[str, Any] = {}
    image = json_reader.text(container.get("image"), role.container_path.child("image"))
    if image:
        trainer_spec["image"] = image
    trainer_spec |= commands(role)
    path = role.container_path.child("resources")
    resources = json_reader.mapping(container.get("resources"), path)
    amounts = {
        key: {**json_reader.mapping(resources[key], path.child(key))}
        for key in ("limits", "requests")
        if resources.get(key)
    }
    if amounts:
        trainer_spec["resourcesPerNode"] = amounts
    return trainer_spec


def commands(role: Role) -> dict[str, list[str]]:
    """Command and arguments of the container, as far as it has them."""
    path = role.container_path
    texts = {
        key: list(json_reader.texts(role.container.get(key), path.child(key))) for key in ("command", "args")
    }
    return {key: words for key, words in texts.items() if words}


def env(role: Role, contract: Sequence[Json], reserved: frozenset[str], notes: Notes) -> list[Json]:
    """The variables of the container, then those of the contract, which take precedence.

    Those that the platform sets by itself (`reserved`) are left out.
    """
    path = role.container_path.child("env")
    variables = json_reader.named_objects(role.container.get("env"), path)
    own = {str(variable["name"]): variable for variable in variables}
    for name in sorted(own.keys() & reserved):
        notes.lost(path, f"{name} is set by the platform, and left out")
    return _with([own[name] for name in own if name not in reserved], contract)


def _with(variables: Sequence[Json], contract: Sequence[Json]) -> list[Json]:
    names_of_contract = {str(variable["name"]) for variable in contract}
    return [*(own for own in variables if own["name"] not in names_of_contract), *contract]


def patch(roles: Mapping[str, Role]) -> Json | None:
    """The patch that gives a runtime's pods, by ReplicatedJob, what the trainer has no field for.

    None if there is nothing.
    """
    templates = {step: template for step, role in roles.items() if (template := _template(role))}
    return patched(templates) if templates else None


def _template(role: Role) -> Json:
    pod = _pod(role)
    spec: dict[str, Any] = {key: pod[key] for key in _PATCHABLE_POD if key in pod}
    container = _container(role.container)
    mounted = {key: container[key] for key in _PATCHABLE_CONTAINER if key in container}
    if mounted:
        spec["containers"] = [{"name": names.NODE, **mounted}]
    return {key: value for key, value in (("metadata", role.metadata), ("spec", spec)) if value}


def patched(templates: Mapping[str, Json], metadata: Json | None = None) -> Json:
    """A runtime patch with these pod templates, by ReplicatedJob, and this metadata of the JobSet."""
    jobs = [{"name": name, "template": {"spec": {"template": pods}}} for name, pods in templates.items()]
    template: dict[str, Any] = {}
    if metadata:
        template["metadata"] = metadata
    if jobs:
        template["spec"] = {"replicatedJobs": jobs}
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": template}}


def whole(
    role: Role, own: Json, restart_policy: str | None, further: Json, shared: Sequence[Json]
) -> dict[str, Any]:
    """The whole pod template for a runtime, with the container that trains renamed to `node`.

    `own` are the fields that replace the container's command, arguments and
    environment; `further` are additional fields of the pod spec; `shared` are
    variables that the training operator set in the other containers too.
    """
    path = role.pod_path
    containers = []
    pod = _pod(role)
    for key in ("initContainers", "containers"):
        for position, container in enumerate(json_reader.named_objects(pod.get(key), path.child(key))):
            if container["name"] == names.NODE and container is not role.container:
                at = path.child(key).index(position).child("name")
                raise invalid(at, names.NODE, "the training container gets this name: rename this container")
    for position, container in enumerate(pod["containers"]):
        if container is role.container:
            kept = {k: v for k, v in _container(container).items() if k not in ("command", "args", "env")}
            container = {**kept, **{k: v for k, v in own.items() if v}, "name": names.NODE}  # noqa: PLW2901
        elif shared:
            at = path.child("containers").index(position).child("env")
            variables = json_reader.named_objects(container.get("env"), at)
            container = {**container, "env": _with(variables, shared)}  # noqa: PLW2901
        containers.append(container)
    spec = {key: value for key, value in pod.items() if key != "restartPolicy"}
    spec |= {**further, "containers": containers}
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    return {**({"metadata": role.metadata} if role.metadata else {}), "spec": spec}


def _pod(role: Role) -> dict[str, Any]:
    """The pod spec without what is empty or equal to the default."""
    pod = _without_defaults(role.pod, _POD_DEFAULTS)
    account = pod.pop("serviceAccount", None)
    if account is not None:
        pod.setdefault("serviceAccountName", account)
    return pod


def _container(container: Json) -> dict[str, Any]:
    kept = _without_defaults(container, _CONTAINER_DEFAULTS)
    if kept.get("imagePullPolicy") == _pull_policy(container.get("image")):
        del kept["imagePullPolicy"]
    return kept


def _without_defaults(value: Json, defaults: Json) -> dict[str, Any]:
    def says_nothing(key: str, item: Any) -> bool:
        return item is None or item in ([], {}, "") or (key in defaults and item == defaults[key])

    return {key: item for key, item in value.items() if not says_nothing(key, item)}


def _pull_policy(image: Any) -> str:
    """The pull policy that Kubernetes gives an image by default."""
    last = str(image).rpartition("/")[2]
    if "@" in last:
        return "IfNotPresent"
    _, _, tag = last.partition(":")
    return "Always" if tag in ("", "latest") else "IfNotPresent"
