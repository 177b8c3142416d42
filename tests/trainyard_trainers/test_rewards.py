"""Functions that reward, of files and of packages."""

from pathlib import Path

import pytest

from trainyard_trainers import rewards
from trainyard_trainers.failures import InvalidReward

FILE = """
raise_later = print
from math import sqrt as root


import math as mathematics

try:
    def tried(completions, **_):
        return []
except ImportError:
    pass

if True:
    annotated: object = print
    first, (second, *_) = print, (print, print)
    with open(__file__):
        class Reward:
            pass


def digits(completions, **_):
    return [float(text.isdigit()) for text in completions]
"""
STAR = "from math import *\n"
LAZY = "def __getattr__(name):\n    return print\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rewards_of_a_test.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    "function",
    ["digits", "root", "raise_later", "mathematics", "tried", "annotated", "first", "second", "Reward"],
)
def test_a_function_of_a_file_is_there_without_running_it(file: Path, function: str) -> None:
    rewards.check(f"{file}:{function}")


@pytest.mark.parametrize("text", [STAR, LAZY])
def test_a_file_that_may_have_any_function_is_asked_when_it_runs(file: Path, text: str) -> None:
    file.write_text(text)
    rewards.check(f"{file}:sqrt")
    assert callable(rewards.load(f"{file}:sqrt"))


def test_it_is_loaded_and_rewards(file: Path) -> None:
    assert rewards.load(f"{file}:digits")(completions=["4", "four"]) == [1.0, 0.0]


def test_a_function_of_a_package_is_loaded() -> None:
    rewards.check("heapq:nlargest")
    assert rewards.load("heapq:nlargest")(2, [0.5, 0.0, 1.0]) == [1.0, 0.5]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("digits", "write it as FILE.py:FUNCTION or MODULE:FUNCTION"),
        ("{file}:", "write it as FILE.py:FUNCTION or MODULE:FUNCTION"),
        ("{file}:digit", "{file} has no such function; did you mean digits?"),
        ("/no/such.py:digits", "/no/such.py: No such file or directory"),
    ],
)
def test_one_that_is_not_there_is_told_before_it_trains(file: Path, name: str, says: str) -> None:
    with pytest.raises(InvalidReward) as caught:
        rewards.check(name.format(file=file))
    named = name.format(file=file)
    assert str(caught.value) == f"InvalidReward: reward={named}: {says.format(file=file)}"


def test_a_file_that_is_no_python_is_told_with_the_line(file: Path) -> None:
    file.write_text("def digits(:\n")
    with pytest.raises(InvalidReward, match=r"invalid syntax \(rewards_of_a_test.py, line 1\)"):
        rewards.check(f"{file}:digits")


def test_a_module_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidReward, match="No module named 'no_such_module'"):
        rewards.load("no_such_module:digits")
    with pytest.raises(InvalidReward, match="math has no function digits"):
        rewards.load("math:digits")
