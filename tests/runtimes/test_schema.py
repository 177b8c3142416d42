"""The JSON Schema that editors take: current, met by every file, and closed to what no runtime has."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checked_in import hold
from trainyard_platform.catalog import schema as catalog_schema

FOLDER = Path(__file__).parents[2] / "runtimes"
SCHEMA = json.loads((FOLDER / "schema.json").read_text())
TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}
KNOWN = {
    *("$schema", "$defs", "$ref", "title", "description", "type", "const", "anyOf"),
    *("properties", "required", "additionalProperties", "items"),
}


def mistakes(schema: Any, value: Any, path: str = "") -> Iterator[str]:
    """Where a value is not as the schema says, in the part of JSON Schema that this one uses."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        yield from mistakes(SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, path)
    if "const" in schema and value != schema["const"]:
        yield f"{path}: not {schema['const']}"
    if "anyOf" in schema and all(any(mistakes(one, value)) for one in schema["anyOf"]):
        yield f"{path}: none of the choices"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        yield f"{path}: not {kinds}"
    elif isinstance(value, dict):
        yield from (f"{path}.{key}: missing" for key in schema.get("required", ()) if key not in value)
        for key, inner in value.items():
            rest = schema.get("additionalProperties", True)
            found = schema.get("properties", {}).get(key, rest)
            if found is False:
                yield f"{path}.{key}: no such field"
            elif found is not True:
                yield from mistakes(found, inner, f"{path}.{key}")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from mistakes(schema.get("items", {}), inner, f"{path}[{position}]")


def test_the_schema_that_is_checked_in_is_current() -> None:
    hold(FOLDER / "schema.json", catalog_schema.text())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_a_file_of_the_catalog_meets_the_schema(path: Path) -> None:
    assert list(mistakes(SCHEMA, yaml.safe_load(path.read_text()))) == []


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("torch: {}", "torhc: {}", ".spec.mlPolicy.torhc: no such field"),
        ("numNodes: 1", "numNodes: one", ".spec.mlPolicy.numNodes: not ['integer']"),
        (
            "trainer.kubeflow.org/framework: torch",
            "app: torch",
            ".metadata.labels.trainer.kubeflow.org/framework: missing",
        ),
        ("kind: ClusterTrainingRuntime", "kind: TrainingRuntime", ".kind: not ClusterTrainingRuntime"),
        ("image:", "images:", ".spec.template.spec.replicatedJobs[0].template.spec."),
    ],
)
def test_a_mistake_is_marked(old: str, new: str, mistake: str) -> None:
    text = (FOLDER / "torch/torch-distributed.yaml").read_text()
    body = text[text.index("\napiVersion") :]
    [found] = mistakes(SCHEMA, yaml.safe_load(body.replace(old, new)))
    assert found.startswith(mistake)
