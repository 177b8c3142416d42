"""The shapes of runtimes and TrainJobs, built from a cluster's own schemas.

`make generate SANDBOX=1` writes the copy that is checked in, from what the API
server of a sandbox has; a cluster test fails when the two differ.

Fields, their types and bounds come from the CRDs. The values of an enumeration
come from Kubernetes, for the parts of a CRD that are copies of its own types;
what its validation requires beyond any schema is in `BEYOND`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json

Schema = dict[str, Any]

_JOB: Final = "io.k8s.api.batch.v1.JobTemplateSpec"
_JOBS: Final = "template.spec.replicatedJobs[].template"
_ENV: Final = "io.k8s.api.core.v1.EnvVar"
_RESOURCES: Final = "io.k8s.api.core.v1.ResourceRequirements"
_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_IMAGE: Final = {"form": "image"}

MODELS: Final[Mapping[str, str]] = {
    "metadata": _METADATA,
    f"spec.{_JOBS}": _JOB,
    f"spec.runtimePatches[].trainingRuntimeSpec.{_JOBS}": _JOB,
    "spec.trainer.env[]": _ENV,
    "spec.initializer.dataset.env[]": _ENV,
    "spec.initializer.model.env[]": _ENV,
    "spec.trainer.resourcesPerNode": _RESOURCES,
}
"""Where a CRD has a type of Kubernetes, by the field's path."""

_NOT_NEGATIVE: Final = {"minimum": 0}
_ID: Final = {"minimum": 0, "maximum": 2**31 - 1}
_PORT: Final = {"minimum": 1, "maximum": 2**16 - 1}
_PROBE: Final = dict.fromkeys(
    ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
    _NOT_NEGATIVE,
)

BEYOND: Final[Mapping[str, Mapping[str, Schema]]] = {
    "io.k8s.api.batch.v1.JobSpec": dict.fromkeys(
        (
            *("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"),
            *("activeDeadlineSeconds", "ttlSecondsAfterFinished"),
        ),
        _NOT_NEGATIVE,
    ),
    "io.k8s.api.core.v1.PodSpec": {
        "activeDeadlineSeconds": {"minimum": 1},
        "terminationGracePeriodSeconds": _NOT_NEGATIVE,
    },
    "io.k8s.api.core.v1.Container": {"image": _IMAGE},
    "io.k8s.api.core.v1.ContainerPort": {
        "containerPort": _PORT,
        "hostPort": {**_PORT, "minimum": 0},
        "name": {"form": "port"},
    },
    "io.k8s.api.core.v1.EnvVar": {"name": {"form": "variable"}},
    "io.k8s.api.core.v1.Probe": _PROBE,
    "io.k8s.api.core.v1.PodSecurityContext": dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), _ID),
    "io.k8s.api.core.v1.SecurityContext": dict.fromkeys(("runAsUser", "runAsGroup"), _ID),
    "io.k8s.api.core.v1.TopologySpreadConstraint": {"maxSkew": {"minimum": 1}},
    "io.k8s.api.core.v1.Volume": {"name": {"form": "label"}},
}
"""What `ValidatePodTemplateSpec` and `ValidateJobSpec` of Kubernetes refuse and no schema does."""

_OF_OURS: Final[Mapping[str, Schema]] = {
    "spec.trainer.image": _IMAGE,
    "spec.initializer.dataset.image": _IMAGE,
    "spec.initializer.model.image": _IMAGE,
}
"""The same for what is not a type of Kubernetes, by path."""

_KEPT: Final = ("type", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_QUANTITY: Final = "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"
"""How the pattern of a quantity begins."""


def document(crds: Sequence[Json], batch: Json) -> Json:
    """The shapes by kind, with what occurs several times under `$defs`.

    Args:
        crds: CustomResourceDefinitions, Trainer's three among them.
        batch: The OpenAPI document of `batch/v1`.
    """
    models = batch["components"]["schemas"]
    kinds = (*sorted(names.RUNTIME_KINDS), names.TRAINJOB)
    roots = {kind: _root(_schema(crds, kind), models) for kind in kinds}
    definitions: Schema = {}
    references: dict[str, str] = {}
    often = Counter(_text(one) for root in roots.values() for one in _objects(root))

    def shared(schema: Any, name: str) -> Any:
        if not isinstance(schema, dict):
            return schema
        result = {key: _below(key, value, name, shared) for key, value in schema.items()}
        text = _text(schema)
        if "properties" not in schema or often[text] < 2:
            return result
        if text not in references:
            references[text] = _free(name, definitions)
            definitions[references[text]] = result
        return {"$ref": references[text]}

    return {**{kind: shared(root, kind) for kind, root in roots.items()}, "$defs": definitions}


def text(shapes: Json) -> str:
    """The shapes as they are checked in: one definition per line."""

    def lines(of: Json) -> str:
        return ",\n".join(f" {json.dumps(name)}: {_text(one)}" for name, one in of.items())

    kinds = {kind: one for kind, one in shapes.items() if kind != "$defs"}
    return f'{{\n{lines(kinds)},\n "$defs": {{\n{lines(shapes["$defs"])}\n}}}}\n'


def _schema(crds: Sequence[Json], kind: str) -> Json:
    of_trainer = [one["spec"] for one in crds if one["spec"]["group"] == names.TRAINER_GROUP]
    [crd] = [one for one in of_trainer if one["names"]["kind"] == kind]
    version = names.TRAINER_API_VERSION.partition("/")[2]
    [served] = [one for one in crd["versions"] if one["name"] == version]
    schema: Json = served["schema"]["openAPIV3Schema"]
    return schema


def _root(schema: Json, models: Json) -> Schema:
    result = _simple(schema, "", None, models)
    result["properties"] |= {
        "metadata": _model(_METADATA, models),
        "status": {},  # not for users to write
    }
    return result | {"required": ["spec"]}


def _simple(schema: Json, path: str, model: str | None, models: Json) -> Schema:
    """The part of a CRD's schema that a manifest must match.

    Args:
        schema: Of the field.
        path: The field's, lists as `[]`.
        model: The type of Kubernetes that it, or an item of it, is a copy of.
        models: Those types.
    """
    model = MODELS.get(path, model)
    own = models[model] if model else {}
    kept: Schema = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        kept["type"] = "int-or-string"
    if schema.get("pattern", "").startswith(_QUANTITY):
        kept = {"form": "quantity"}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": kept["type"]} if "type" in kept else {}
    if "properties" in schema:
        beyond = BEYOND.get(model or "", {})
        kept["properties"] = {
            name: _simple(field, f"{path}.{name}".lstrip("."), _field(own, name), models)
            | _enumerated(own, name)
            | beyond.get(name, {})
            | _OF_OURS.get(f"{path}.{name}", {})
            for name, field in schema["properties"].items()
        }
        kept |= {"required": schema["required"]} if "required" in schema else {}
    if isinstance(schema.get("additionalProperties"), Mapping):
        kept["values"] = _simple(schema["additionalProperties"], f"{path}{{}}", None, models)
    if "items" in schema:
        items = schema["items"]
        kept["items"] = _simple(items, f"{path}[]", model, models)
        if schema.get("x-kubernetes-list-type") == "set":
            kept["unique"] = {}
        elif keys := schema.get("x-kubernetes-list-map-keys"):
            kept["unique"] = {key: items["properties"][key].get("default") for key in keys}
    return kept


def _model(name: str, models: Json) -> Schema:
    """A type of Kubernetes as a CRD would have it."""
    return {"form": "quantity"} if name.endswith(".Quantity") else _plain(models[name], models)


def _plain(schema: Json, models: Json) -> Schema:
    if reference := _reference(schema):
        return _model(reference, models)
    result: Schema = {key: schema[key] for key in ("type", "enum") if key in schema}
    if "properties" in schema:
        result["properties"] = {name: _plain(one, models) for name, one in schema["properties"].items()}
    if "items" in schema:
        result["items"] = _plain(schema["items"], models)
    if "additionalProperties" in schema:
        result["values"] = _plain(schema["additionalProperties"], models)
    return result


def _field(model: Json, name: str) -> str | None:
    """The type of a field, or of a list's items; None if it is not one of Kubernetes."""
    field = model.get("properties", {}).get(name)
    return _reference(field) or (_reference(field.get("items")) if field else None)


def _reference(schema: Json | None) -> str | None:
    if not schema:
        return None
    choices = (schema, *schema.get("allOf", ()))
    reference = next((one["$ref"] for one in choices if "$ref" in one), None)
    return None if reference is None else str(reference).rpartition("/")[2]


def _enumerated(model: Json, name: str) -> Schema:
    values = model.get("properties", {}).get(name, {}).get("enum")
    return {"enum": values} if values else {}


def _objects(schema: Any) -> Iterator[Schema]:
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema["properties"], dict):
            yield schema
        for key, value in schema.items():
            for child in value.values() if key == "properties" else [value]:
                yield from _objects(child)


def _below(key: str, value: Any, name: str, shared: Any) -> Any:
    if key == "properties":
        return {field: shared(one, field) for field, one in value.items()}
    return shared(value, name) if key in ("items", "values") else value


def _free(name: str, taken: Json) -> str:
    number = 1
    while (candidate := name if number == 1 else f"{name}{number}") in taken:
        number += 1
    return candidate


def _text(value: Any) -> str:
    return json.dumps(value, separators=(", ", ": "), sort_keys=True)
