"""The nearest name is found in what a message can show, however much somebody sent."""

from pathlib import Path

import pytest

from tests.support import cost
from trainyard_api.similar import hint, nearest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("api", "assist", "cli", "delivery", "initializers", "operator", "platform", "policies", "sandbox")


@pytest.mark.parametrize(
    ("name", "allowed", "said"),
    [
        ("trch", ["torch", "jax"], "; did you mean torch?"),
        ("tensor", ["torch", "jax"], ""),
        ("torch", [], ""),
        ("", ["torch"], ""),
        (f"{'x' * 64}y", [f"{'x' * 64}z"], f"; did you mean {'x' * 64}z?"),
    ],
)
def test_a_message_names_the_nearest(name: str, allowed: list[str], said: str) -> None:
    assert hint(name, allowed) == said


def test_names_beyond_the_first_hundred_are_not_compared() -> None:
    assert nearest("torch", [*map(str, range(100)), "torch"]) is None


def test_it_costs_little_whatever_is_compared() -> None:
    worst = "ab" * 64_000
    assert cost.cpu(lambda: nearest(worst, [f"{n}{worst}" for n in range(1000)])) < cost.SECONDS


def test_there_is_no_other_comparison_of_names() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py") if "difflib" in file.read_text()]
    assert files == [ROOT / "api/trainyard_api/similar.py"]


def test_a_message_says_it_in_one_form() -> None:
    """`explain` only looks whether the operator has said it."""
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    spelling = {file.relative_to(ROOT).as_posix() for file in files if "; did you mean " in file.read_text()}
    assert spelling == {"api/trainyard_api/similar.py", "assist/trainyard_assist/explain/rules/trainjob.py"}
