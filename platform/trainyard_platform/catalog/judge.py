"""Judges a file of the catalog, `runtimes/<framework>/<name>.yaml`: errors in its runtime.

Everything that reads the catalog calls it. The program and `render` stop at
the first finding (`files.read`); `verify` prints all; `lint` calls only
`place`, because it checks every rule itself. The rules say what a runtime must
be; those here apply on every stack, whatever its levels are.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard_api import names
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_policies import manifest
from trainyard_policies.manifest import Workload
from trainyard_policies.parameters import Parameters
from trainyard_policies.rule import Finding
from trainyard_policies.rules import framework_label, ml_policy, trainer_step
from trainyard_policies.shapes import check as shapes

from . import in_pods

_METADATA: Final = FieldPath("metadata")
_NAME: Final = _METADATA.child("name")
_SUPPORT: Final = _METADATA.child("labels").key(names.SUPPORT_LABEL)
_LAST_WORDS: Final = _METADATA.child("annotations").key(names.LAST_WORDS_ANNOTATION)
_OF_THE_CLUSTER: Final = sorted(
    names.SERVER_METADATA | {"finalizers", "generateName", "namespace", "ownerReferences"}
)
"""Fields of metadata that a file of the catalog does not have."""


def findings(path: Path, value: Mapping[str, Any], namesake: str = "") -> Iterator[Finding]:
    """Everything that prevents a stack from installing the runtime.

    Args:
        path: Where the file is, `<framework>/<name>.yaml` in the catalog.
        value: What it holds.
        namesake: Another file of the catalog that has its name; empty: none has.
    """
    problems = [*place(path, value, namesake), *shapes.check(value)]
    yield from problems or _essential(value)


def place(path: Path, value: Mapping[str, Any], namesake: str = "") -> Iterator[Finding]:
    """Where the file does not hold what its place in the catalog says; arguments as `findings` has them."""
    yield from _must_be(FieldPath("apiVersion"), names.TRAINER_API_VERSION, value.get("apiVersion"))
    yield from _must_be(FieldPath("kind"), names.CLUSTER_TRAINING_RUNTIME, value.get("kind"))
    if "status" in value:
        yield Finding(FieldPath("status"), "must be left out: the cluster sets it")
    metadata = _mapping(value.get("metadata"))
    labels, annotations = _mapping(metadata.get("labels")), _mapping(metadata.get("annotations"))
    yield from _must_be(_NAME, path.stem, metadata.get("name"), "the file's name, ")
    if namesake and metadata.get("name") == path.stem:
        yield Finding(_NAME, f"must be unique in the catalog: {namesake} has it too")
    for field in _OF_THE_CLUSTER:
        if field in metadata:
            message = "must be left out: a file of the catalog has only name, labels and annotations"
            yield Finding(_METADATA.child(field), message)
    if names.FRAMEWORK_LABEL in labels:
        framework = labels[names.FRAMEWORK_LABEL]
        yield from _must_be(framework_label.PATH, path.parent.name, framework, "the folder's name, ")
    if names.SUPPORT_LABEL in labels:
        yield from _must_be(_SUPPORT, names.SUPPORT_DEPRECATED, labels[names.SUPPORT_LABEL])
    if names.LAST_WORDS_ANNOTATION in annotations:
        yield from _must_be(_LAST_WORDS, in_pods.PYTHON, annotations[names.LAST_WORDS_ANNOTATION])
        for where in in_pods.unknown_paths(value):
            yield Finding(where, f"must be a value, because of the annotation {names.LAST_WORDS_ANNOTATION}")


def _must_be(path: FieldPath, expected: str, actual: object, description: str = "") -> Iterator[Finding]:
    if actual != expected:
        shown = (
            {None: "missing", "": "empty"}.get(actual, actual) if isinstance(actual, str | None) else actual
        )
        yield Finding(path, f"must be {description}{expected}, and is {shown}")


def _essential(value: Mapping[str, Any]) -> Iterator[Finding]:
    """What the rules say about the parts without which a runtime cannot be used."""
    try:
        runtime = manifest.read(value)
        if isinstance(runtime, Workload):
            yield from framework_label.check(runtime, Parameters())
            yield from ml_policy.missing(runtime)
            yield from trainer_step.check(runtime, Parameters())
    except InvalidFieldError as error:
        yield from map(Finding.of, error.errors)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
