"""The strings below the fields of a model are their descriptions, in the docs and in schemas for editors."""

from pydantic import Field

from trainyard_api import descriptions
from trainyard_api.strict import StrictModel


class Base(StrictModel):
    inherited: int = 1
    """From the base,
    in two lines."""


class Model(Base):
    """A model."""

    some_nodes: int = 2
    """How many."""
    bare: str = ""
    other: Base = Base()
    """What `other` is."""
    given: str = Field(default="", description="As given.")
    """Not this."""


def test_a_field_is_described_by_the_string_below_it_unless_it_has_a_description():
    assert descriptions.of(Model) == {
        "inherited": "From the base,\nin two lines.",
        "some_nodes": "How many.",
        "other": "What `other` is.",
        "given": "As given.",
    }


def test_a_schema_has_the_descriptions_of_all_its_models():
    schema = Model.model_json_schema(by_alias=True, schema_generator=descriptions.Schema)
    texts = {name: field.get("description") for name, field in schema["properties"].items()}
    assert texts == {
        "inherited": "From the base,\nin two lines.",
        "someNodes": "How many.",
        "bare": None,
        "other": "What `other` is.",
        "given": "As given.",
    }
    assert (
        schema["$defs"]["Base"]["properties"]["inherited"]["description"] == "From the base,\nin two lines."
    )
