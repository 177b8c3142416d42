"""Values and lists, in no more room than there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_api import shown

REGISTRY = "registry.example.com/team/trainer"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("1", "3", ("1", "3")),
        ("", "nothing", ("", "nothing")),
        (f"{REGISTRY}:1", f"{REGISTRY}:2", ("...eam/trainer:1", "...eam/trainer:2")),
        (REGISTRY, f"{REGISTRY}-cuda", (".../trainer", ".../trainer-cuda")),
        (f"a{REGISTRY}", f"b{REGISTRY}", ("aregistry.exa...", "bregistry.exa...")),
        (f"{REGISTRY}a{REGISTRY}", f"{REGISTRY}b{REGISTRY}", ("...ineraregis...", "...inerbregis...")),
    ],
)
def test_what_differs_is_in_sight(before: str, after: str, expected: tuple[str, str]) -> None:
    assert shown.apart(before, after, 16) == expected


@given(st.text("ab", max_size=60), st.text("ab", max_size=60), st.integers(16, 40))
def test_different_texts_never_look_alike_and_none_is_too_long(before: str, after: str, most: int) -> None:
    left, right = shown.apart(before, after, most)
    assert (left == right) is (before == after)
    assert max(len(left), len(right)) <= most


@pytest.mark.parametrize(
    ("items", "total", "expected"),
    [
        ([], None, ""),
        (["a", 1], None, "a, 1"),
        (["a", "b", "c", "d"], None, "a, b and 2 more"),
        (["a", "b"], 7, "a, b and 5 more"),
        ([], 2, "2 more"),
    ],
)
def test_a_list_says_how_much_of_it_is_left_out(
    items: list[object], total: int | None, expected: str
) -> None:
    assert shown.listed(items, 2, total) == expected


@pytest.mark.parametrize(
    ("lines", "expected"), [([], []), (["a", "b"], ["a", "b"]), (["a", "b", "c"], ["a", "b", "and 1 more"])]
)
def test_lines_say_how_many_of_them_are_left_out(lines: list[str], expected: list[str]) -> None:
    assert shown.capped(lines, 2) == expected
