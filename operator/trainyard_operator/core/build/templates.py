"""Reading, checking and editing the JobSet template of a runtime.

Called by the framework and the plugins. `checked` turns an arbitrary spec
into a canonical one of its own: after it every list and object is of the type
that the edits below rely on, so that a malformed runtime is refused in one
place and with a field path. Edits return new values and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final

from trainyard_api import json_reader, names, quantity
from trainyard_api.errors import ErrorType, FieldError, FieldPath, InvalidFieldError, invalid, required

from ..model import Json

Edit = Callable[[Json], Json]

SPEC_PATH: Final = FieldPath("spec.template.spec")
"""Path of a runtime's JobSet spec."""


def checked(spec: Json, path: FieldPath) -> dict[str, Any]:
    """A canonical copy of a JobSet spec, in the form in which Kubernetes' own types print it.

    Quantities are canonical, and the objects that are always printed
    (`resources`, the metadata of templates, the status of volume claims) exist.

    Raises `InvalidFieldError` if nothing can be built from it.
    """
    json_reader.require_shallow(spec, path)
    jobs = json_reader.named_objects(spec.get("replicatedJobs"), path.child("replicatedJobs"))
    if not jobs:
        raise required(path.child("replicatedJobs"), "a runtime needs at least one ReplicatedJob")
    _require_unique(jobs, path.child("replicatedJobs"))
    copy = {**spec}
    copy["replicatedJobs"] = [
        _replicated_job(job, path.child("replicatedJobs").index(position))
        for position, job in enumerate(jobs)
    ]
    if spec.get("volumeClaimPolicies") is not None:
        copy["volumeClaimPolicies"] = _claim_policies(
            spec["volumeClaimPolicies"], path.child("volumeClaimPolicies")
        )
    if spec.get("network") is not None:
        network = json_reader.mapping(spec["network"], path.child("network"))
        json_reader.text(network.get("subdomain"), path.child("network", "subdomain"))
    return copy


def pod_template(job: Json) -> Json:
    """The pod template of a checked ReplicatedJob."""
    template: Json = job["template"]["spec"]["template"]
    return template


def ancestor(job: Json) -> str | None:
    """Step of a checked ReplicatedJob, by the label of its job template."""
    label: str | None = job["template"]["metadata"].get("labels", {}).get(names.ANCESTOR_LABEL)
    return label


def container(job: Json, name: str) -> Json | None:
    """The container of that name in a checked ReplicatedJob, None if there is none."""
    return next((c for c in pod_template(job)["spec"].get("containers", ()) if c["name"] == name), None)


def with_pod_template(job: Json, edit: Edit) -> Json:
    """The ReplicatedJob with `edit` applied to its pod template."""
    return with_job_spec(job, lambda spec: {**spec, "template": edit(spec["template"])})


def with_job_spec(job: Json, edit: Edit) -> Json:
    """The ReplicatedJob with `edit` applied to the spec of its job template."""
    return {**job, "template": {**job["template"], "spec": edit(job["template"]["spec"])}}


def with_pod_metadata(job: Json, kind: str, entries: Json) -> Json:
    """The ReplicatedJob with these labels or annotations (`kind`) on its pods."""

    def edit(template: Json) -> Json:
        metadata = template["metadata"]
        return {**template, "metadata": {**metadata, kind: {**(metadata.get(kind) or {}), **entries}}}

    return with_pod_template(job, edit)


def with_container(job: Json, name: str, edit: Edit) -> Json:
    """The ReplicatedJob with `edit` applied to the containers and init containers of that name."""
    return with_containers(job, frozenset({name}), edit)


def with_containers(job: Json, targets: Set[str], edit: Edit) -> Json:
    """The ReplicatedJob with `edit` applied to the containers and init containers of these names."""

    def pods(template: Json) -> Json:
        spec = dict(template["spec"])
        for kind in ("initContainers", "containers"):
            if kind in spec:
                spec[kind] = [edit(c) if c["name"] in targets else c for c in spec[kind]]
        return {**template, "spec": spec}

    return with_pod_template(job, pods)


def with_env(target: Json, env: Iterable[Json]) -> Json:
    """The container with each variable replacing the one of its name, else at the end."""
    return upserted(target, "env", "name", env)


def rank(variable: str) -> Json:
    """A variable with the number of the pod."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": names.JOB_COMPLETION_INDEX_PATH}}}


def with_port(target: Json, port: int) -> Json:
    """The container with this port.

    As in Trainer v2.3 it takes the place of the same port, else that of the
    first port without a name, since two ports without one count as namesakes.
    """
    container_port = {"containerPort": port}
    ports = list(target.get("ports") or ())
    same = [i for i, item in enumerate(ports) if item.get("containerPort") == port]
    namesakes = [i for i, item in enumerate(ports) if not item.get("name")]
    place = next(iter(same + namesakes), None)
    if place is None:
        ports.append(container_port)
    else:
        ports[place] = container_port
    return {**target, "ports": ports}


def upserted(target: Json, field: str, key: str, items: Iterable[Json]) -> Json:
    """The object with each item in its list `field`: replacing its equal by `key`, else at the end."""
    result = list(target.get(field) or ())
    places: dict[Any, int] = {}
    for position, other in enumerate(result):
        places.setdefault(other.get(key), position)
    for item in items:
        place = places.setdefault(item[key], len(result))
        if place == len(result):
            result.append(item)
        else:
            result[place] = item
    return {**target, field: result} if result else target


def environment(value: Any, path: FieldPath) -> tuple[Json, ...]:
    """Variables as a TrainJob gives them, in the form that Trainer v2.3 copies them in.

    The apiVersion of a fieldRef is left out: only the default exists.
    """
    return tuple(
        item if item.get("valueFrom") is None else _variable(item, path.index(i))
        for i, item in enumerate(json_reader.named_objects(value, path))
    )


def quantities(value: Any, path: FieldPath) -> dict[str, str]:
    """A resource list with canonical quantities; empty when absent."""
    return {
        name: _quantity(amount, path.key(name))
        for name, amount in json_reader.mapping(value, path).items()
        if amount is not None
    }


def resources(value: Any, path: FieldPath) -> dict[str, Any]:
    """Resource requirements with canonical quantities."""
    result = {name: item for name, item in json_reader.mapping(value, path).items() if item is not None}
    for kind in ("limits", "requests"):
        if kind in result:
            result[kind] = quantities(result[kind], path.child(kind))
    return result


def _require_unique(items: Sequence[Json], path: FieldPath) -> None:
    seen: set[str] = set()
    for position, item in enumerate(items):
        if item["name"] in seen:
            where = str(path.index(position).child("name"))
            raise InvalidFieldError(FieldError(ErrorType.DUPLICATE, where, item["name"]))
        seen.add(item["name"])


def _replicated_job(job: Json, path: FieldPath) -> Json:
    at = path.child("template")
    template = json_reader.mapping(job.get("template"), at)
    spec = json_reader.mapping(template.get("spec"), at.child("spec"))
    json_reader.integer(spec.get("parallelism"), at.child("spec", "parallelism"))
    pods = at.child("spec", "template")
    pod = json_reader.mapping(spec.get("template"), pods)
    return {
        **job,
        "template": {
            **template,
            "metadata": _metadata(template.get("metadata"), at.child("metadata")),
            "spec": {
                **spec,
                "template": {
                    **pod,
                    "metadata": _metadata(pod.get("metadata"), pods.child("metadata")),
                    "spec": _pod_spec(pod.get("spec"), pods.child("spec")),
                },
            },
        },
    }


def _metadata(value: Any, path: FieldPath) -> Json:
    metadata = json_reader.mapping(value, path)
    for kind in ("labels", "annotations"):
        json_reader.text_map(metadata.get(kind), path.child(kind))
    return {name: item for name, item in metadata.items() if item is not None}


def _pod_spec(value: Any, path: FieldPath) -> Json:
    spec = dict(json_reader.mapping(value, path))
    for kind in ("containers", "initContainers"):
        at = path.child(kind)
        items = json_reader.named_objects(spec.pop(kind, None), at)
        if items:
            spec[kind] = [_container(item, at.index(i)) for i, item in enumerate(items)]
    if spec.get("volumes") is not None:
        at = path.child("volumes")
        volumes = json_reader.named_objects(spec["volumes"], at)
        spec["volumes"] = [
            _volume(item, at.index(i)) if "emptyDir" in item or "ephemeral" in item else item
            for i, item in enumerate(volumes)
        ]
    if spec.get("overhead") is not None:
        spec["overhead"] = quantities(spec["overhead"], path.child("overhead"))
    if spec.get("resources") is not None:
        spec["resources"] = resources(spec["resources"], path.child("resources"))
    return spec


def _container(item: Json, path: FieldPath) -> Json:
    copy = {**item, "resources": resources(item.get("resources"), path.child("resources"))}
    if item.get("env") is not None:
        at = path.child("env")
        variables = json_reader.named_objects(item["env"], at)
        copy["env"] = [
            item if item.get("valueFrom") is None else _with_divisor(item, at.index(i))
            for i, item in enumerate(variables)
        ]
    json_reader.objects(item.get("envFrom"), path.child("envFrom"))
    json_reader.objects(item.get("ports"), path.child("ports"))
    json_reader.named_objects(item.get("volumeMounts"), path.child("volumeMounts"), key="mountPath")
    json_reader.texts(item.get("command"), path.child("command"))
    json_reader.texts(item.get("args"), path.child("args"))
    return copy


def _variable(item: Json, path: FieldPath) -> Json:
    source = json_reader.mapping(item.get("valueFrom"), path.child("valueFrom"))
    if source.get("fieldRef") is None:
        return _with_divisor(item, path)
    reference = json_reader.mapping(source["fieldRef"], path.child("valueFrom", "fieldRef"))
    kept = {name: value for name, value in reference.items() if name != "apiVersion"}
    return {**item, "valueFrom": {**source, "fieldRef": kept}}


def _with_divisor(variable: Json, path: FieldPath) -> Json:
    at = path.child("valueFrom")
    source = json_reader.mapping(variable.get("valueFrom"), at)
    if source.get("resourceFieldRef") is None:
        return variable
    at = at.child("resourceFieldRef")
    reference = json_reader.mapping(source["resourceFieldRef"], at)
    divisor = _quantity(reference.get("divisor", 0), at.child("divisor"))
    return {**variable, "valueFrom": {**source, "resourceFieldRef": {**reference, "divisor": divisor}}}


def _volume(volume: Json, path: FieldPath) -> Json:
    empty = json_reader.mapping(volume.get("emptyDir"), path.child("emptyDir"))
    if empty.get("sizeLimit") is not None:
        limit = _quantity(empty["sizeLimit"], path.child("emptyDir", "sizeLimit"))
        return {**volume, "emptyDir": {**empty, "sizeLimit": limit}}
    ephemeral = json_reader.mapping(volume.get("ephemeral"), path.child("ephemeral"))
    if ephemeral.get("volumeClaimTemplate") is not None:
        at = path.child("ephemeral", "volumeClaimTemplate")
        claim = _claim(json_reader.mapping(ephemeral["volumeClaimTemplate"], at), at)
        return {**volume, "ephemeral": {**ephemeral, "volumeClaimTemplate": claim}}
    return volume


def _claim_policies(value: Any, path: FieldPath) -> list[Json]:
    policies: list[Json] = []
    for position, policy in enumerate(json_reader.objects(value, path)):
        at = path.index(position).child("templates")
        claims = json_reader.objects(policy.get("templates"), at)
        policies.append(
            {**policy, "templates": [{**_claim(c, at.index(i)), "status": {}} for i, c in enumerate(claims)]}
        )
    return policies


def _claim(claim: Json, path: FieldPath) -> dict[str, Any]:
    spec = json_reader.mapping(claim.get("spec"), path.child("spec"))
    amounts = resources(spec.get("resources"), path.child("spec", "resources"))
    metadata = _metadata(claim.get("metadata"), path.child("metadata"))
    return {**claim, "metadata": metadata, "spec": {**spec, "resources": amounts}}


def _quantity(value: Any, path: FieldPath) -> str:
    try:
        return quantity.canonical(value)
    except ValueError:
        shown = (
            "object" if isinstance(value, Mapping | list) else value if value is None else str(value)[:100]
        )
        raise invalid(path, shown, "must be a quantity, such as 500m or 4Gi") from None
