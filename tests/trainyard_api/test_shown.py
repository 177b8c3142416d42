"""Two values that differ, side by side and no longer than there is room."""

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
