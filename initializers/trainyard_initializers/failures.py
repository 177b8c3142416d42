"""Why nothing was fetched: one class, one exit code and one reason for each cause."""

from __future__ import annotations

from typing import ClassVar


class Failure(Exception):  # noqa: N818 - an answer, not an accident
    """Why an initializer ends; its text is one line that says what to do.

    Args:
        text: What happened, where, and the way out.
        retry_after: Seconds to wait before the next request, if the source asks for that.
    """

    exit_code: ClassVar[int]
    reason: ClassVar[str]
    means: ClassVar[str]
    """A line for people, in `--help` and in the guide."""
    passing: ClassVar[bool] = False
    """Whether a retry may help, of the request or of the pod."""

    def __init__(self, text: str, *, retry_after: float | None = None) -> None:
        super().__init__(" ".join(text.split()))
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.reason}: {super().__str__()}"


class InvalidSource(Failure):
    """The source is missing or malformed."""

    exit_code, reason = 10, "InvalidSource"
    means = "STORAGE_URI or another variable is missing or malformed"


class Unauthorized(Failure):
    """401 or 403."""

    exit_code, reason = 11, "Unauthorized"
    means = "the token or keys are missing, or the source refuses them"


class NotFound(Failure):
    """404, or nothing left to fetch."""

    exit_code, reason = 12, "NotFound"
    means = (
        "the repository, revision, bucket, folder or file does not exist, or the patterns exclude all files"
    )


class UnsafeSource(Failure):
    """Names that would be written outside the target."""

    exit_code, reason = 13, "UnsafeSource"
    means = "the source contains names or links that lead outside its folder"


class VolumeFull(Failure):
    """Too little space."""

    exit_code, reason = 14, "VolumeFull"
    means = "the volume has too little space"


class VolumeUnusable(Failure):
    """The volume cannot be written, or holds something else."""

    exit_code, reason = 15, "VolumeUnusable"
    means = (
        "the initializer cannot write to the volume, or the folder contains files that no initializer wrote"
    )


class Unreachable(Failure):
    """Network, time-outs, 429 and 5xx, after all attempts."""

    exit_code, reason, passing = 16, "Unreachable", True
    means = "in every attempt, the source did not answer or answered with a server error"


class Corrupt(Failure):
    """The content is not what the source says."""

    exit_code, reason, passing = 17, "Corrupt", True
    means = "the content does not match the source's checksum or size, after all attempts"


UNEXPECTED = 1
"""Exit code of a fault in this program."""

FAILURES: tuple[type[Failure], ...] = (
    InvalidSource,
    Unauthorized,
    NotFound,
    UnsafeSource,
    VolumeFull,
    VolumeUnusable,
    Unreachable,
    Corrupt,
)


def from_status(status: int, place: str, *, retry_after: str | None = None, way_out: str = "") -> Failure:
    """The failure for an HTTP status.

    Args:
        status: 400 or higher.
        place: What was requested, without credentials.
        retry_after: The Retry-After header.
        way_out: What to do if the source refuses the request.
    """
    if status in (401, 403):
        return Unauthorized(f"{place} answers {status}; {way_out}")
    if status in (404, 410):
        return NotFound(f"{place} does not exist ({status})")
    if status in (408, 425, 429) or status >= 500:
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
        return Unreachable(f"{place} answers {status}", retry_after=seconds)
    return InvalidSource(f"{place} refuses the request ({status}); {way_out or 'check STORAGE_URI'}")
