"""The JSON Schema of the catalog's files, made from the models of the Trainer API, for editors.

`make generate` writes the copy that is checked in; a test fails when the two
differ. The models are those of the Kubeflow SDK, which only the development
environment has.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from kubeflow_trainer_api import models  # type: ignore[import-untyped]

from trainyard_api import names

_SPEC: Final = "TrainerV1alpha1TrainingRuntimeSpec"
_POLICY: Final = "TrainerV1alpha1MLPolicy"
_NULL: Final = {"type": "null"}
_QUANTITY: Final = {"type": ["string", "number"]}
_LONGEST: Final = 160


def document() -> dict[str, Any]:
    """The schema of one file of the catalog."""
    whole = models.TrainerV1alpha1TrainingRuntimeSpec.model_json_schema(by_alias=True)
    definitions = {name: _object(definition) for name, definition in whole.pop("$defs").items()}
    definitions[_SPEC] = _object(whole) | {"required": ["mlPolicy", "template"]}
    definitions["IoK8sApimachineryPkgApiResourceQuantity"] = _QUANTITY
    # Trainyard's operator does not know Flux.
    del definitions[_POLICY]["properties"]["flux"]
    root = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A training runtime of the catalog",
        "type": "object",
        "properties": {
            "apiVersion": {"const": names.TRAINER_API_VERSION},
            "kind": {"const": names.CLUSTER_TRAINING_RUNTIME},
            "metadata": _metadata(),
            "spec": {"$ref": f"#/$defs/{_SPEC}"},
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
    }
    return {**root, "$defs": _reached(root, definitions)}


def text() -> str:
    """The schema as it is checked in."""
    return json.dumps(document(), indent=1) + "\n"


def _metadata() -> dict[str, Any]:
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    framework = {"type": "string", "description": "The framework; the name of the file's folder too."}
    support = {"const": names.SUPPORT_DEPRECATED, "description": "The runtime goes away in a later release."}
    labels = {names.FRAMEWORK_LABEL: framework, names.SUPPORT_LABEL: support}
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its name; the file's too."},
            "labels": {**texts, "properties": labels, "required": [names.FRAMEWORK_LABEL]},
            "annotations": texts,
        },
        "required": ["name", "labels"],
        "additionalProperties": False,
    }


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """A model's schema, closed, as manifests are written: a field is left out, and never null."""
    if "actual_instance" in schema.get("properties", {}):
        return {"anyOf": _without_null(schema["properties"]["actual_instance"]["anyOf"])}
    result: dict[str, Any] = _simple(schema)
    if "properties" in result:
        result["additionalProperties"] = False
    return result


def _simple(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_simple(value) for value in schema]
    if not isinstance(schema, Mapping):
        return schema
    keywords = {key: value for key, value in schema.items() if key not in ("title", "default", "description")}
    choices = _without_null(keywords.pop("anyOf", []))
    if len(choices) == 1:
        keywords |= choices[0]
    elif choices:
        keywords["anyOf"] = choices
    if isinstance(keywords.get("properties"), Mapping):
        keywords["properties"] = {name: _simple(value) for name, value in keywords["properties"].items()}
    result = {key: value if key == "properties" else _simple(value) for key, value in keywords.items()}
    if isinstance(words := schema.get("description"), str):
        result["description"] = _sentence(words)
    return result


def _without_null(choices: list[Any]) -> list[Any]:
    return [choice for choice in choices if choice != _NULL]


def _sentence(words: str) -> str:
    """The first sentence of a description, or the beginning of a long one."""
    first = " ".join(words.split()).partition(". ")[0]
    return first if len(first) <= _LONGEST else f"{first[: _LONGEST - 1]}…"


def _reached(root: dict[str, Any], definitions: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The definitions that the root leads to, by name."""
    reached: dict[str, Any] = {}
    todo = [root]
    while todo:
        for name in _references(todo.pop()):
            if name not in reached:
                reached[name] = definitions[name]
                todo.append(definitions[name])
    return dict(sorted(reached.items()))


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for item in schema for name in _references(item)}
    if not isinstance(schema, Mapping):
        return set()
    reference = schema.get("$ref")
    inner = {name for value in schema.values() for name in _references(value)}
    return inner | ({reference.removeprefix("#/$defs/")} if isinstance(reference, str) else set())
