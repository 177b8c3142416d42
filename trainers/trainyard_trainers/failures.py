"""Why nothing is trained: one class, one exit code and one reason for each cause."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

_LONGEST = 1000


class Failure(Exception):  # noqa: N818 - an answer, not an accident
    """Why the launcher ends; its text is one line that says what to do.

    Args:
        text: What is wrong, where, and the way out.
    """

    exit_code: ClassVar[int] = 42
    """By which runtimes know that it is of no use to try again."""
    reason: ClassVar[str]
    means: ClassVar[str]
    """A line for people, in `--help` and in the guide."""

    def __init__(self, text: str) -> None:
        super().__init__("".join(c if c.isprintable() else " " for c in text)[:_LONGEST])

    def __str__(self) -> str:
        return f"{self.reason}: {super().__str__()}"


class InvalidArgument(Failure):
    """An argument that cannot be meant."""

    exit_code, reason = 2, "InvalidArgument"
    means = "an argument is unknown, malformed or out of bounds; 42 if a process of torchrun finds it"


class InvalidDataset(Failure):
    """Nothing that this method can train on."""

    reason = "InvalidDataset"
    means = "the dataset is missing, too small, or lacks the columns that the method needs"


class InvalidModel(Failure):
    """Nothing that can be trained."""

    reason = "InvalidModel"
    means = "the model is missing or damaged, or has no modules of the names for LoRA"


class InvalidReward(Failure):
    """No function that rewards."""

    reason = "InvalidReward"
    means = "there is no such reward function"


class TooLarge(Failure):
    """Memory that is not there."""

    reason = "TooLarge"
    means = "model, gradients and optimizer need more memory than the container or its GPU has"


class Unshared(Failure):
    """Nodes that see different files."""

    reason = "Unshared"
    means = "the nodes do not see the same output_dir: its volume has to be shared"


FAILURES: tuple[type[Failure], ...] = (
    InvalidArgument,
    InvalidDataset,
    InvalidModel,
    InvalidReward,
    TooLarge,
    Unshared,
)


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that is meant, as a question behind a message; else all that there are.

    Args:
        name: What was given.
        names: What there is.
    """
    names = sorted(set(names))
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(names) or 'none'}"
