"""The JSON Schema of stack files, made from the settings' models, for completion in editors.

`make generate` writes the copy that is checked in; a test fails when the two differ.
"""

import json
from typing import Any

from trainyard_api import descriptions

from .settings import CONFIG_KEY, StackSettings


def document() -> dict[str, Any]:
    """The schema of a whole stack file."""
    settings = StackSettings.model_json_schema(by_alias=True, schema_generator=descriptions.Schema)
    definitions = settings.pop("$defs")
    # `artifacts.images` can take its place, which `settings` checks.
    settings["required"].remove("operator")
    definitions["Operator"]["required"].remove("image")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Trainyard stack",
        "type": "object",
        "properties": {
            "config": {
                "type": "object",
                "properties": {CONFIG_KEY: {"$ref": "#/$defs/StackSettings"}},
                "required": [CONFIG_KEY],
            }
        },
        "required": ["config"],
        "$defs": {**definitions, "StackSettings": settings},
    }


def text() -> str:
    """The schema as it is checked in."""
    return json.dumps(document(), indent=2) + "\n"
