"""Why a cache serves nothing: one class, one exit code and one reason for each cause.

The initializer that has started the cache reads them in the pods' status, and ends
for the same reason (`trainyard_initializers.failures` has the same codes).
"""

from __future__ import annotations

from typing import ClassVar, Final

_LONGEST: Final = 1000


class Failure(Exception):  # noqa: N818 - an answer, not an accident
    """Why a process of the cache ends; its text is one line that says what to do.

    Args:
        text: What is wrong, where, and the way out.
    """

    exit_code: ClassVar[int]
    reason: ClassVar[str]
    means: ClassVar[str]
    """A line for people, in `--help` and in the guide."""

    def __init__(self, text: str) -> None:
        super().__init__("".join(c if c.isprintable() else " " for c in text)[:_LONGEST])

    def __str__(self) -> str:
        return f"{self.reason}: {super().__str__()}"


class InvalidSource(Failure):
    """Nothing that a cache can hold."""

    exit_code, reason = 10, "InvalidSource"
    means = "METADATA_LOC or another variable is missing or malformed, or the table is of an unknown kind"


class Unauthorized(Failure):
    """The store refuses the keys."""

    exit_code, reason = 11, "Unauthorized"
    means = "the store refuses the keys or the role, or requires some"


class NotFound(Failure):
    """No such table."""

    exit_code, reason = 12, "NotFound"
    means = "there is no such table, bucket, folder or file, or the table has no row"


class Unreachable(Failure):
    """No answer."""

    exit_code, reason = 16, "Unreachable"
    means = "the store gave no answer"


FAILURES: tuple[type[Failure], ...] = (InvalidSource, Unauthorized, NotFound, Unreachable)
