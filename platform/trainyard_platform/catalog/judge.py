"""The one judge of a file of the catalog, `runtimes/<framework>/<name>.yaml`: what is wrong with its runtime.

Whoever reads the catalog asks here. The program and `render` stop at the first
finding (`files.read`); `verify` prints all; `lint` asks about the place only,
because it asks every rule beside it. What a runtime must be is said by the
rules; those here hold on every stack, whatever its levels are.
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
_ANNOTATION: Final = _METADATA.child("annotations").key(names.LAST_WORDS_ANNOTATION)


def findings(path: Path, value: Mapping[str, Any], namesake: str = "") -> Iterator[Finding]:
    """All that keeps a stack from installing the runtime.

    Args:
        path: Where the file is, `<framework>/<name>.yaml` in the catalog.
        value: What it holds.
        namesake: Another file of the catalog that has its name; empty: none has.
    """
    found = [*place(path, value, namesake), *shapes.check(value)]
    yield from found or _essential(value)


def place(path: Path, value: Mapping[str, Any], namesake: str = "") -> Iterator[Finding]:
    """Where the file does not hold what its place in the catalog says; arguments as `findings` has them."""
    for field, wanted in (
        ("apiVersion", names.TRAINER_API_VERSION),
        ("kind", names.CLUSTER_TRAINING_RUNTIME),
    ):
        if value.get(field) != wanted:
            yield Finding(FieldPath(field), f"must be {wanted}, and is {value.get(field)}")
    if "status" in value:
        yield Finding(FieldPath("status"), "must be left out: it is not a file's to say")
    metadata = _mapping(value.get("metadata"))
    if metadata.get("name") != path.stem:
        yield Finding(_NAME, f"must be the file's name, {path.stem}, and is {metadata.get('name')}")
    elif namesake:
        yield Finding(_NAME, f"must be of one file of the catalog: {namesake} has it too")
    if "namespace" in metadata:
        said = f"must be left out: a {names.CLUSTER_TRAINING_RUNTIME} has no namespace"
        yield Finding(_METADATA.child("namespace"), said)
    framework = _mapping(metadata.get("labels")).get(names.FRAMEWORK_LABEL)
    if framework is not None and framework != path.parent.name:
        said = f"must be the folder's name, {path.parent.name}, and is {framework}"
        yield Finding(framework_label.PATH, said)
    asked = _mapping(metadata.get("annotations")).get(names.LAST_WORDS_ANNOTATION)
    if asked not in (None, in_pods.PYTHON):
        yield Finding(_ANNOTATION, f"must be {in_pods.PYTHON}, and is {asked}")


def _essential(value: Mapping[str, Any]) -> Iterator[Finding]:
    """What the rules say, that nothing could be made of the runtime without."""
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
