"""Typed readers: the value if it is of the type, absent if null, else an error with the path."""

import pytest

from trainyard_api import fields
from trainyard_api.errors import FieldPath, InvalidFieldError

AT = FieldPath("spec.x")
DEEP = {}
for _ in range(5000):
    DEEP = {"a": [DEEP]}


@pytest.mark.parametrize(
    ("reader", "value", "result"),
    [
        (fields.mapping, {"a": 1}, {"a": 1}),
        (fields.mapping, None, {}),
        (fields.optional_mapping, None, None),
        (fields.optional_mapping, {}, {}),
        (fields.objects, [{}], [{}]),
        (fields.objects, None, ()),
        (fields.named_objects, [{"name": "a"}], [{"name": "a"}]),
        (fields.texts, ["a"], ["a"]),
        (fields.text_map, {"a": "b"}, {"a": "b"}),
        (fields.text, "a", "a"),
        (fields.text, None, None),
        (fields.required_text, "a", "a"),
        (fields.integer, 2.0, 2),
        (fields.integer, None, None),
        (fields.boolean, None, False),
        (fields.boolean, True, True),
    ],
)
def test_a_value_is_read(reader, value, result):
    assert reader(value, AT) == result


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        (fields.mapping, [], 'spec.x: Invalid value: "list": must be an object'),
        (fields.mapping, {1: 2}, 'spec.x: Invalid value: "object": must be an object'),
        (fields.objects, {}, 'spec.x: Invalid value: "object": must be a list of objects'),
        (fields.objects, ["a"], 'spec.x[0]: Invalid value: "a": must be an object'),
        (fields.objects, [None], "spec.x[0]: Required value"),
        (fields.named_objects, [{"name": "a"}, {}], "spec.x[1].name: Required value"),
        (fields.texts, [1], "spec.x[0]: Invalid value: 1: must be a string"),
        (fields.texts, "a", 'spec.x: Invalid value: "a": must be a list of strings'),
        (fields.text_map, {"a": 1}, "spec.x[a]: Invalid value: 1: must be a string"),
        (fields.text, 1, "spec.x: Invalid value: 1: must be a string"),
        (fields.required_text, "", "spec.x: Required value"),
        (fields.integer, 1.5, "spec.x: Invalid value: 1.5: must be an integer"),
        (fields.integer, True, "spec.x: Invalid value: true: must be an integer"),
        (fields.boolean, "yes", 'spec.x: Invalid value: "yes": must be a boolean'),
        (fields.boolean, 2**70, 'spec.x: Invalid value: "...": must be a boolean'),
        (fields.integer, "x" * 200, f'spec.x: Invalid value: "{"x" * 100}...": must be an integer'),
        (
            fields.require_shallow,
            DEEP,
            'spec.x: Invalid value: "...": must not be nested deeper than 100 levels',
        ),
    ],
)
def test_a_value_of_another_type_is_refused(reader, value, message):
    with pytest.raises(InvalidFieldError) as raised:
        reader(value, AT)
    assert str(raised.value) == message
