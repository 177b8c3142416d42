"""Documents in; TrainJobs, runtimes and notes out.

Called by `trainyard migrate`. Dispatches each kind to its own module. Validates
the results as admission would, and drops what admission would refuse. Passes
unrelated objects through unchanged, and TrainJobs and runtimes of Trainer v2.3
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.documents import Document
from trainyard_api.errors import FieldError, FieldPath, InvalidFieldError, UserError
from trainyard_api.json_types import Json
from trainyard_operator.core.admit import validation

from .. import offline
from ..offline import DEFAULT_NAMESPACE, Runtimes, is_of
from . import alpha, jax, live, mpi, paddle, pytorch, references, runtimes, tensorflow, trainjobs, xgboost
from .notes import Level, Note, Notes
from .target import Catalog

_V1: Final = "kubeflow.org/v1"
_V2_MPI: Final = "kubeflow.org/v2beta1"
_ALPHA: Final = "kubeflow.org/v2alpha1"
_GROUP: Final = "kubeflow.org/"

Convert = Callable[[Json, Catalog, Notes], tuple[Json, ...]]

_CONVERTERS: Final[Mapping[tuple[str, str], Convert]] = {
    (_V1, "JAXJob"): jax.convert,
    (_V1, "MPIJob"): mpi.convert_v1,
    (_V2_MPI, "MPIJob"): mpi.convert_v2,
    (_V1, "PaddleJob"): paddle.convert,
    (_V1, "PyTorchJob"): pytorch.convert,
    (_V1, "TFJob"): tensorflow.convert,
    (_V1, "XGBoostJob"): xgboost.convert,
    (_ALPHA, names.TRAINJOB): alpha.convert,
}
_TRAINJOBS: Final = frozenset({names.TRAINJOB})
_WITHOUT_SUCCESSOR: Final = frozenset({"MXJob", *names.RUNTIME_KINDS})
_KINDS: Final = frozenset({kind for _, kind in _CONVERTERS}) | _WITHOUT_SUCCESSOR

_TRAINER: Final = FieldPath("spec.trainer")
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME: Final = 63
_LISTS: Final[Mapping[str, Callable[[Any, FieldPath], Sequence[Any]]]] = {
    "env": json_reader.named_objects,
    "command": json_reader.texts,
    "args": json_reader.texts,
}
_MOST_ITEMS: Final = 128
"""Of the trainer's lists (CRD schema of Trainer v2.3)."""
_LONGEST_IMAGE: Final = 500


class NothingToMigrateError(UserError, ValueError):
    """The documents hold no job and no runtime of a known API."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one object."""

    source: str
    """The file that it is from."""
    objects: tuple[Json, ...]
    notes: tuple[Note, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything is carried over."""
        return all(note.level in (Level.CHANGED, Level.NOTE) for note in self.notes)


def migrate(
    given: Sequence[Document],
    catalog: Sequence[Document] = (),
    namespace: str = DEFAULT_NAMESPACE,
    *,
    ended: bool = False,
) -> tuple[Outcome, ...]:
    """The outcomes for the objects in `given`, in their order; items of lists one by one.

    What a cluster has put into jobs and runtimes is left out.

    Args:
        given: What to migrate.
        catalog: The ClusterTrainingRuntimes that TrainJobs may refer to.
        namespace: The namespace of objects that name none.
        ended: Whether jobs that have ended become something, too.

    Raises:
        NothingToMigrateError: No object is of a known API.
    """
    items = [item for document in given for item in _items(document)]
    if not any(_is_known(value) for value, _ in items):
        reasons = ("no job and no runtime to migrate in the files", *offline.inside_others(given, _is_known))
        raise NothingToMigrateError("; ".join(reasons))
    catalog_runtimes = _by_name(catalog)
    moved = {
        trainjobs.runtime_key(value): number
        for value, _ in items
        if is_of(value, names.RUNTIME_KINDS) and (number := runtimes.processes_of(value)) is not None
    }
    beside = [Document(n.document.source, n.line, value) for value, n in items if _is_runtime(value)]
    # What stays as it is keeps its name, also from what comes before it.
    taken = {_place(document.value, namespace): document.place for document in beside}
    taken |= {
        _place(value, namespace): notes.place
        for value, notes in items
        if is_of(value, _TRAINJOBS)
        and not trainjobs.is_old(value, moved)
        and (ended or live.ended(value) is None)
    }
    there = offline.runtime_documents([*catalog_runtimes.values(), *beside], namespace)
    outcomes = []
    for value, notes in items:
        manifest = live.manifest(value) if _is_known(value) else value
        is_over = _is_over(value, notes, kept=ended)
        objects = () if is_over else _successors(manifest, catalog_runtimes, moved, notes)
        if objects != (manifest,):
            objects = tuple(_not_suspended(result, value, notes) for result in objects)
            objects = _accepted(objects, there, namespace, notes)
            objects = objects if _is_runtime(value) else _unlike(objects, taken, namespace, notes)
        taken |= {_place(result, namespace): notes.place for result in objects if _is_known(result)}
        outcomes.append(Outcome(notes.document.source, objects, notes.sorted()))
    return tuple(outcomes)


def _items(document: Document) -> Iterator[tuple[Json, Notes]]:
    """The object in a document, or the items of a list if one of them has to be migrated."""
    listed = document.value.get("items")
    if str(document.value.get("kind")).endswith("List") and isinstance(listed, list):
        objects = [item for item in listed if isinstance(item, Mapping)]
        if len(objects) == len(listed) and any(_is_known(item) for item in objects):
            for position, item in enumerate(objects):
                yield item, Notes(document, FieldPath("items").index(position))
            return
    yield document.value, Notes(document)


def _is_over(value: Json, notes: Notes, *, kept: bool) -> bool:
    """Whether it is a job to leave out, since it has ended; notes what a job does in its cluster."""
    if not _is_known(value) or str(value.get("kind")) in names.RUNTIME_KINDS:
        return False
    end, verb = live.ended(value), live.doing(value)
    if end is not None and not kept:
        notes.note("status", f"has ended ({end}) and is left out; --finished keeps such jobs")
        return True
    if end is None and verb is not None and not is_of(value, _TRAINJOBS):
        message = "delete it before you apply what it became, or both do its work"
        notes.note("metadata.uid", f"still {verb} in the cluster: {message}")
    return False


def _not_suspended(made: Json, value: Json, notes: Notes) -> Json:
    """The migrated object; without `suspend: true`, with which a queued job would wait forever."""
    spec, given = live.mapping(made.get("spec")), live.mapping(value.get("spec"))
    queue = live.mapping(live.mapping(made.get("metadata")).get("labels")).get(names.QUEUE_LABEL)
    if not queue or not is_of(made, _TRAINJOBS) or not spec.get("suspend"):
        return made
    was = "spec.suspend" if "suspend" in given else "spec.runPolicy.suspend"
    notes.changed(was, f"is left out: queue {queue} holds the job until there is room, and needs none")
    return {**made, "spec": {key: item for key, item in spec.items() if key != "suspend"}}


def _is_known(value: Json) -> bool:
    version, kind = str(value.get("apiVersion")), str(value.get("kind"))
    return is_of(value, _TRAINJOBS | names.RUNTIME_KINDS) or (version.startswith(_GROUP) and kind in _KINDS)


def _successors(value: Json, catalog: Catalog, moved: Mapping[str, int], notes: Notes) -> tuple[Json, ...]:
    if not _is_known(value):
        references.note_selectors(value, notes)
        if sentence := offline.inside(value, _is_known):
            notes.lost("", sentence)
        return (value,)
    version, kind = str(value["apiVersion"]), str(value["kind"])
    try:
        if is_of(value, _TRAINJOBS):
            return trainjobs.convert(value, moved, notes) if trainjobs.is_old(value, moved) else (value,)
        if is_of(value, names.RUNTIME_KINDS):
            return runtimes.convert(value, notes) if runtimes.is_old(value) else (value,)
        convert = _CONVERTERS.get((version, kind))
        if convert is not None:
            return convert(value, catalog, notes)
    except InvalidFieldError as error:
        for field_error in error.errors:
            notes.refused(field_error.path, _reason(field_error))
        return ()
    if kind in _WITHOUT_SUCCESSOR:
        notes.refused("kind", f"{kind} of {version} has no successor")
    else:
        versions = ", ".join(old_version for old_version, name in _CONVERTERS if name == kind)
        notes.refused("apiVersion", f"{kind} is migrated from {versions}, not from {version}")
    return ()


def _reason(error: FieldError) -> str:
    return str(error).removeprefix(f"{error.path}: ")


def _by_name(catalog: Sequence[Document]) -> Catalog:
    return {
        value["metadata"]["name"]: document
        for document in catalog
        if _is_runtime(value := document.value) and value["kind"] == names.CLUSTER_TRAINING_RUNTIME
    }


def _unlike(
    objects: tuple[Json, ...], taken: Mapping[tuple[str, ...], str], namespace: str, notes: Notes
) -> tuple[Json, ...]:
    """The objects, unless one of them has a name that is already taken."""
    for value in objects:
        place = taken.get(_place(value, namespace))
        if place is not None and value["metadata"].get("name"):
            notes.refused("metadata.name", f"is the name of the {value['kind']} from {place} too: rename one")
            return ()
    return objects


def _place(value: Json, namespace: str) -> tuple[str, ...]:
    """Kind, namespace and name."""
    metadata = live.mapping(value.get("metadata"))
    return str(value.get("kind")), str(metadata.get("namespace") or namespace), str(metadata.get("name"))


def _is_runtime(value: Json) -> bool:
    """Whether it is a runtime that somebody can refer to."""
    name = live.mapping(value.get("metadata")).get("name")
    return is_of(value, names.RUNTIME_KINDS) and isinstance(name, str)


def _accepted(objects: tuple[Json, ...], there: Runtimes, namespace: str, notes: Notes) -> tuple[Json, ...]:
    """The objects, if the API server would accept them."""
    own = [Document(notes.document.source, notes.line, value) for value in objects]
    runtimes_there = {**there, **offline.runtime_documents(own, namespace)}
    refusals = [message for document in own for message in _refusals(document, runtimes_there, namespace)]
    for path, reason in refusals:
        notes.refused("", f"admission would refuse the result: {path}: {reason}")
    return () if refusals else objects


def _refusals(document: Document, there: Runtimes, namespace: str) -> Iterator[tuple[str, str]]:
    """Errors of admission, and of the schema as far as a conversion can violate it."""
    value = document.value
    name = str(offline.name_of(value["metadata"]))
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        yield "metadata.name", "must be a DNS label of at most 63 characters that begins with a letter"
        return
    try:
        if is_of(value, names.RUNTIME_KINDS):
            errors: Any = validation.validate_runtime(offline.runtime(document, namespace)).errors
        else:
            job = offline.trainjob(document, namespace)
            runtime = offline.runtime_document(job, there)
            yield from _too_long(json_reader.mapping(job.spec.get("trainer"), _TRAINER))
            if runtime is None:
                return
            errors = validation.validate(job, None, offline.runtime(runtime, namespace)).errors
    except InvalidFieldError as error:
        errors = error.errors
    except offline.UnreadableError as error:
        yield "spec", str(error)
        return
    for field_error in errors:
        yield field_error.path, _reason(field_error)


def _too_long(trainer: Json) -> Iterator[tuple[str, str]]:
    """What is too long for the schema; raises `InvalidFieldError` for what is not even of its type."""
    for key, read in _LISTS.items():
        path = _TRAINER.child(key)
        if len(read(trainer.get(key), path)) > _MOST_ITEMS:
            yield str(path), f"must have at most {_MOST_ITEMS} items"
    path = _TRAINER.child("image")
    if len(json_reader.text(trainer.get("image"), path) or "") > _LONGEST_IMAGE:
        yield str(path), f"must be no longer than {_LONGEST_IMAGE} characters"
