"""Reads AdmissionReviews and builds their answers. Values in, values out.

Called by `admission`, which serves them. `validation` decides what is allowed;
here is how the API server asks and expects its answer, and the one thing that
Trainer's mutating webhook does: it notes when a runtime patch was made.
Whatever an object holds, functions here raise only `MalformedError` or
`InvalidFieldError`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldError, FieldPath

from ..model import Json, Runtime, TrainJob
from ..status.conditions import moment, timestamp

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
LONGEST_MESSAGE: Final = 32 * 1024
"""Characters of a denial; upstream repeats whole lists in its errors, and a user may send megabytes."""
ADVICE: Final = "advice"
"""The audit log shows it behind the webhook's name: `trainjob.policy.trainyard.dev/advice`."""

MOST_VALUES: Final = 200_000
"""Values in a review. Two TrainJobs at the limit of their size, with all that Kubernetes notes in them,
have fewer, and a body of nothing but empty lists, which takes 30 times its size in memory, has more."""
BYTES_OF_A_VALUE: Final = 125
"""Memory of a value once it is read, on average in a body that is made of the dearest."""
BYTES_OF_A_CHARACTER: Final = 4
"""Memory of each character of a text that has one outside of ASCII."""

_METADATA: Final = FieldPath("metadata")
_PATCHES: Final = "runtimePatches"


class MalformedError(ValueError):
    """The body is not an AdmissionReview that can be answered; the message is one line."""


@dataclass(frozen=True, slots=True)
class Request:
    """The API server's request."""

    uid: str
    kind: str
    operation: str
    namespace: str
    name: str
    manifest: Json
    old: Json | None
    subresource: str
    user: str
    """Who asks."""
    size: int
    """Bytes of the review."""


def read(body: bytes | bytearray) -> Request:
    """The request in an AdmissionReview as JSON. Raises `MalformedError`."""
    if number_of_values(body) > MOST_VALUES:
        raise MalformedError(f"the body has more than {MOST_VALUES} values")
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedError("the body is not JSON") from None
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise MalformedError(f"the body is not an {KIND} of {API_VERSION}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise MalformedError("the review has no request")
    kind, user = request.get("kind"), request.get("userInfo")
    texts = {
        "uid": request.get("uid"),
        "kind": kind.get("kind") if isinstance(kind, dict) else None,
        "operation": request.get("operation"),
        "namespace": request.get("namespace", ""),
        "name": request.get("name", ""),
        "subresource": request.get("subResource", ""),
        "user": user.get("username", "") if isinstance(user, dict) else "",
    }
    for field, value in texts.items():
        if not isinstance(value, str):
            raise MalformedError(f"request.{field} is not a string")
    if not texts["uid"]:
        raise MalformedError("request.uid is empty")
    object_fields = {CREATE: ("object",), UPDATE: ("object", "oldObject")}.get(str(texts["operation"]), ())
    for field in object_fields:
        if not isinstance(request.get(field), dict):
            raise MalformedError(f"request.{field} is not an object")
    return Request(
        **texts,
        manifest=request.get("object") or {},
        old=request.get("oldObject") if texts["operation"] == UPDATE else None,
        size=len(body),
    )


def number_of_values(body: bytes | bytearray) -> int:
    """How many values JSON has, at most, without reading it."""
    return sum(map(body.count, (b"[", b"{", b",")))


def memory(body: bytes | bytearray) -> int:
    """The bytes that a body takes once it is read, at most."""
    plain = body.isascii() and b"\\u" not in body
    text = len(body) * (1 if plain else BYTES_OF_A_CHARACTER)
    return text + number_of_values(body) * BYTES_OF_A_VALUE


def concerns(request: Request) -> bool:
    """Whether there is anything to decide: deletes and subresources are not checked here."""
    return request.operation in {CREATE, UPDATE} and not request.subresource


def trainjob(request: Request, manifest: Json, now: datetime) -> TrainJob:
    """A TrainJob of the request, as far as one exists before it is stored.

    On a create it may have no uid yet, nor a time of creation: that is now.
    Raises `InvalidFieldError` for what is not one.
    """
    metadata = json_reader.mapping(manifest.get("metadata"), _METADATA)
    return TrainJob(
        namespace=json_reader.text(metadata.get("namespace"), _METADATA.child("namespace"))
        or request.namespace,
        name=json_reader.text(metadata.get("name"), _METADATA.child("name")) or request.name,
        uid=json_reader.text(metadata.get("uid"), _METADATA.child("uid")) or "",
        resource_version="",
        created=_time(metadata.get("creationTimestamp")) or now,
        spec=json_reader.mapping(manifest.get("spec"), FieldPath("spec")),
        labels=json_reader.text_map(metadata.get("labels"), _METADATA.child("labels")),
        annotations=json_reader.text_map(metadata.get("annotations"), _METADATA.child("annotations")),
        held_by_kueue=any(_manager(patch) == names.KUEUES_PATCHES for patch in _patches(manifest)),
    )


def runtime(request: Request, manifest: Json, kind: str) -> Runtime:
    """A runtime of the request; raises `InvalidFieldError` for what is not one."""
    metadata = json_reader.mapping(manifest.get("metadata"), _METADATA)
    return Runtime(
        kind=kind,
        name=json_reader.text(metadata.get("name"), _METADATA.child("name")) or request.name,
        namespace=request.namespace if kind == names.TRAINING_RUNTIME else None,
        uid=json_reader.text(metadata.get("uid"), _METADATA.child("uid")) or "",
        spec=json_reader.mapping(manifest.get("spec"), FieldPath("spec")),
        labels=json_reader.text_map(metadata.get("labels"), _METADATA.child("labels")),
    )


def defaults(manifest: Json, old: Json | None, now: datetime) -> tuple[Json, ...]:
    """The JSON patch that notes in a TrainJob's runtimePatches when each was made.

    A patch that is new and has no time, or that has changed, gets the present
    time; an unchanged one keeps its time, whatever the request says. Kueue's
    own patch, which a client-side `kubectl apply` removes, is put back: Kueue
    can neither start nor stop the TrainJob without it. What is
    not a list of objects is left for the schema to refuse. Raises
    `InvalidFieldError` for what is nested too deep to be compared.
    """
    for version in (manifest, old or {}):
        json_reader.require_shallow(version.get("spec"), FieldPath("spec"))
    before = {patch["manager"]: patch for patch in _patches(old) if _manager(patch) is not None}
    operations = []
    for position, patch in enumerate(_patches(manifest)):
        given = patch.get("time")
        earlier = None if (manager := _manager(patch)) is None else before.get(manager)
        if earlier is None:
            time = timestamp(now) if given is None else given
        elif _timeless(earlier) == _timeless(patch):
            time = earlier.get("time")
        else:
            time = timestamp(now)
        if time == given:
            continue
        path = f"/spec/{_PATCHES}/{position}/time"
        operations.append(
            {"op": "remove", "path": path} if time is None else {"op": "add", "path": path, "value": time}
        )
    kueues = before.get(names.KUEUES_PATCHES)
    return (*operations, *(() if kueues is None else _with(manifest, kueues)))


def allowed(
    request: Request, patch: Sequence[Json] = (), warnings: Sequence[str] = (), *, advice: Sequence[str] = ()
) -> Json:
    """The review that lets the request pass, changed by `patch`; the audit log shows `advice` too."""
    answer: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if advice:
        answer["auditAnnotations"] = {ADVICE: "\n".join(advice)[:LONGEST_MESSAGE]}
    if patch:
        encoded = base64.b64encode(msgspec.json.encode(list(patch))).decode()
        answer |= {"patchType": "JSONPatch", "patch": encoded}
    return _review(answer, (*warnings, *advice))


def denied(request: Request, errors: Sequence[FieldError], warnings: Sequence[str] = ()) -> Json:
    """The review that refuses the request, in the words of the errors."""
    return refused(request, 403, "Forbidden", joined(errors), warnings)


def refused(request: Request, code: int, reason: str, message: str, warnings: Sequence[str] = ()) -> Json:
    """The review that refuses the request with a code and reason of its own."""
    if len(message) > LONGEST_MESSAGE:
        message = message[:LONGEST_MESSAGE] + "..."
    status = {"code": code, "reason": reason, "message": message}
    return _review({"uid": request.uid, "allowed": False, "status": status}, warnings)


def joined(errors: Sequence[FieldError]) -> str:
    """Errors as Kubernetes puts them together: each once, in brackets if there are several.

    The text ends with the error that makes it longer than `LONGEST_MESSAGE`:
    there may be thousands, each of which repeats a long list.
    """
    distinct = {(error.type, error.path, id(error.value), error.detail): error for error in errors}
    texts: dict[str, None] = {}
    length = 0
    for error in distinct.values():
        text = str(error)
        if text not in texts:
            texts[text] = None
            length += len(text)
        if length > LONGEST_MESSAGE:
            break
    return ", ".join(texts) if len(texts) == 1 else f"[{', '.join(texts)}]"


def _review(answer: dict[str, Any], warnings: Sequence[str]) -> Json:
    if warnings:
        answer["warnings"] = list(warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": answer}


def _patches(manifest: Json | None) -> Sequence[Json]:
    spec = (manifest or {}).get("spec")
    patches = spec.get(_PATCHES) if isinstance(spec, Mapping) else None
    if not isinstance(patches, list) or not all(isinstance(patch, Mapping) for patch in patches):
        return ()
    return patches


def _manager(patch: Json) -> str | None:
    manager = patch.get("manager")
    return manager if isinstance(manager, str) else None


def _with(manifest: Json, patch: Json) -> tuple[Json, ...]:
    """The operation that adds a patch; none if there is one of its manager, or nothing can be added."""
    path, spec = f"/spec/{_PATCHES}", manifest.get("spec")
    if not isinstance(spec, Mapping):
        return ()
    if spec.get(_PATCHES) is None:
        return ({"op": "add", "path": path, "value": [patch]},)
    patches = _patches(manifest)
    if len(patches) != len(spec[_PATCHES]) or any(_manager(other) == _manager(patch) for other in patches):
        return ()
    return ({"op": "add", "path": f"{path}/-", "value": patch},)


def _timeless(patch: Json) -> Json:
    return {name: value for name, value in patch.items() if name != "time"}


def _time(text: Any) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        time = moment(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
