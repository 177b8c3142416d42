"""Typed readers: the value if it is of the type, absent if null, else an error with the path."""

import pytest

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath, InvalidFieldError

AT = FieldPath("spec.x")
DEEP = {}
for _ in range(5000):
    DEEP = {"a": [DEEP]}


@pytest.mark.parametrize(
    ("reader", "value", "result"),
    [
        (json_reader.mapping, {"a": 1}, {"a": 1}),
        (json_reader.mapping, None, {}),
        (json_reader.optional_mapping, None, None),
        (json_reader.optional_mapping, {}, {}),
        (json_reader.objects, [{}], [{}]),
        (json_reader.objects, None, ()),
        (json_reader.named_objects, [{"name": "a"}], [{"name": "a"}]),
        (json_reader.texts, ["a"], ["a"]),
        (json_reader.text_map, {"a": "b"}, {"a": "b"}),
        (json_reader.text, "a", "a"),
        (json_reader.text, None, None),
        (json_reader.required_text, "a", "a"),
        (json_reader.integer, 2.0, 2),
        (json_reader.integer, None, None),
        (json_reader.boolean, None, False),
        (json_reader.boolean, True, True),
    ],
)
def test_a_value_is_read(reader, value, result):
    assert reader(value, AT) == result


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        (json_reader.mapping, [], 'spec.x: Invalid value: "list": must be an object'),
        (json_reader.mapping, {1: 2}, 'spec.x: Invalid value: "object": must be an object'),
        (json_reader.objects, {}, 'spec.x: Invalid value: "object": must be a list of objects'),
        (json_reader.objects, ["a"], 'spec.x[0]: Invalid value: "a": must be an object'),
        (json_reader.objects, [None], "spec.x[0]: Required value"),
        (json_reader.named_objects, [{"name": "a"}, {}], "spec.x[1].name: Required value"),
        (json_reader.texts, [1], "spec.x[0]: Invalid value: 1: must be a string"),
        (json_reader.texts, "a", 'spec.x: Invalid value: "a": must be a list of strings'),
        (json_reader.text_map, {"a": 1}, "spec.x[a]: Invalid value: 1: must be a string"),
        (json_reader.text, 1, "spec.x: Invalid value: 1: must be a string"),
        (json_reader.required_text, "", "spec.x: Required value"),
        (json_reader.integer, 1.5, "spec.x: Invalid value: 1.5: must be an integer"),
        (json_reader.integer, True, "spec.x: Invalid value: true: must be an integer"),
        (json_reader.boolean, "yes", 'spec.x: Invalid value: "yes": must be a boolean'),
        (json_reader.boolean, 2**70, 'spec.x: Invalid value: "...": must be a boolean'),
        (json_reader.integer, "x" * 200, f'spec.x: Invalid value: "{"x" * 100}...": must be an integer'),
        (
            json_reader.require_shallow,
            DEEP,
            'spec.x: Invalid value: "...": must not be nested deeper than 100 levels',
        ),
    ],
)
def test_a_value_of_another_type_is_refused(reader, value, message):
    with pytest.raises(InvalidFieldError) as raised:
        reader(value, AT)
    assert str(raised.value) == message
