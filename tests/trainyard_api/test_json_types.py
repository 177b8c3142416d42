"""Unchecked JSON."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainyard_api.json_types import copied

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_a_copy_is_the_same(value):
    assert copied(value) == value


def test_a_change_to_a_copy_leaves_the_value_as_it_was():
    value: dict[str, list[Any]] = {"a": [{"b": 1}]}
    copy = copied(value)
    copy["a"][0]["b"] = 2
    copy["a"].append(3)
    assert (value, copy) == ({"a": [{"b": 1}]}, {"a": [{"b": 2}, 3]})
