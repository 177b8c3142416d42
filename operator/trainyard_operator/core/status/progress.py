"""What a training process reports: the body of its request, and the words of the answers.

Wire format of Trainer v2.3's status server (KEP-2779), as the Kubeflow SDK
and transformers' callback speak it. Called by the `status_server`. Pure.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from trainyard_api import names

from ..model import Json

_AUDIENCE: Final = f"{names.TRAINER_API_VERSION}/namespaces/{{namespace}}/trainjobs/{{name}}/status"
_INT32: Final = 2**31 - 1
_Short = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class InvalidReportError(ValueError):
    """A body that is not a report; the message says where and why."""


class _Metric(msgspec.Struct):
    name: _Short
    value: _Short


class _TrainerStatus(msgspec.Struct, rename="camel"):
    last_updated_time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    progress_percentage: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    estimated_remaining_seconds: Annotated[int, msgspec.Meta(ge=0, le=_INT32)] | None = None
    metrics: Annotated[list[_Metric], msgspec.Meta(max_length=256)] | None = None


class _Report(msgspec.Struct, rename="camel"):
    trainer_status: _TrainerStatus | None = None


class _Claims(msgspec.Struct):
    """The one claim of a JWT that is read here (RFC 7519, section 4.1.3)."""

    aud: str | list[str]


_decoder = msgspec.json.Decoder(_Report)
_claims_decoder = msgspec.json.Decoder(_Claims)


def audience(namespace: str, name: str) -> str:
    """Whom a token must be meant for to report on this TrainJob; also the path that it is sent to."""
    return _AUDIENCE.format(namespace=namespace, name=name)


def claimed_audiences(token: str) -> tuple[str, ...]:
    """The audiences that a token claims, not yet verified; empty for what is not a JWT."""
    try:
        payload = token.split(".")[1]
        audiences = _claims_decoder.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).aud
    except (IndexError, ValueError, msgspec.DecodeError, RecursionError):
        return ()
    return (audiences,) if isinstance(audiences, str) else tuple(audiences)


def is_trainjob_audience(text: str) -> bool:
    """Whether it is the audience of some TrainJob's status."""
    prefix, _, _ = _AUDIENCE.partition("{")
    return text.startswith(prefix) and text.endswith("/status")


def read(body: bytes) -> Json | None:
    """The `trainerStatus` to write, whole: a field that was not reported is null. None: nothing to write.

    Times are as the API server keeps them, to the second. Raises `InvalidReportError`.
    """
    try:
        status = _decoder.decode(body).trainer_status
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        raise InvalidReportError(f"status.{where.rstrip('`')}: {problem}" if where else problem) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidReportError("Invalid payload") from None
    if status is None:
        return None
    if status.last_updated_time is None:
        raise InvalidReportError(
            "status.trainerStatus: lastUpdatedTime is required when trainerStatus is present"
        )
    try:
        at = status.last_updated_time.astimezone(UTC)
    except OverflowError:
        raise InvalidReportError("status.trainerStatus.lastUpdatedTime: out of range") from None
    return {
        **msgspec.to_builtins(status),
        "lastUpdatedTime": f"{at.replace(tzinfo=None).isoformat(timespec='seconds')}Z",
    }


def answer(code: int, reason: str, message: str) -> Json:
    """A refusal as Kubernetes words it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def echo(status: Json | None) -> Json:
    """The answer to a report that is accepted."""
    reported: dict[str, Any] = {name: value for name, value in (status or {}).items() if value is not None}
    return {"trainerStatus": reported} if status is not None else {}
