"""The TrainJob of `kubeflow.org/v2alpha1`, before it had an API group of its own.

It named a dataset and a model where today's has initializers, and did not need
a runtime. Today the runtime fetches the dataset or the model, so such a job
needs a runtime of the catalog that has initializers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json
from trainyard_operator.core.build import templates

from . import trainjobs
from .notes import Notes
from .policy import managed
from .source import metadata, unknown_fields
from .target import PLAIN, Catalog

_SPEC: Final = FieldPath("spec")
_MODEL: Final = _SPEC.child("modelConfig")
_KNOWN: Final = (
    "runtimeRef",
    "trainingRuntimeRef",
    "trainer",
    "numNodes",
    "datasetConfig",
    "modelConfig",
    "labels",
    "annotations",
    "podSpecOverrides",
    "suspend",
    "managedBy",
)
_OF_CACHE: Final = "cache://"
_TORCH_WORDS: Final = ("torchrun", "torch.distributed")


def convert(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob of today; raises `InvalidFieldError`."""
    json_reader.require_shallow(value, FieldPath())
    spec = json_reader.mapping(value.get("spec"), _SPEC)
    unknown_fields(spec, _KNOWN, _SPEC, "a TrainJob of v2alpha1", notes)
    trainer = {**json_reader.mapping(spec.get("trainer"), _SPEC.child("trainer"))}
    if spec.get("numNodes") is not None:
        trainer.setdefault("numNodes", json_reader.integer(spec["numNodes"], _SPEC.child("numNodes")))
    resources = _with_limits(trainer, notes)
    if resources:
        trainer["resourcesPerNode"] = resources
    initializer = trainjobs.without_bad_uris(_initializer(spec, notes), notes)
    reference = _reference(spec)
    if reference is None:
        reference = _chosen(trainer, initializer, catalog, notes)
        if initializer and _initializes(catalog, reference["name"]) < initializer.keys():
            initializer = _nobody_fetches(initializer, notes)
    new: dict[str, Any] = {"runtimeRef": reference}
    new |= {key: item for key, item in (("initializer", initializer), ("trainer", trainer)) if item}
    patches = list(trainjobs.overridden(spec, notes))
    if patches:
        new["runtimePatches"] = patches
    if json_reader.boolean(spec.get("suspend"), _SPEC.child("suspend")):
        new["suspend"] = True
    manager = managed(spec.get("managedBy"), _SPEC.child("managedBy"), notes)
    if manager:
        new["managedBy"] = manager
    job = {"apiVersion": names.TRAINER_API_VERSION, "kind": names.TRAINJOB}
    made = {**job, "metadata": metadata(value, notes, named=False), "spec": new}
    return trainjobs.convert(made, {}, notes) if trainjobs.is_old(made, {}) else (made,)


def _with_limits(trainer: Json, notes: Notes) -> dict[str, Any]:
    """The resources, with limits added for devices that are only requested, which Kubernetes forbids."""
    path = _SPEC.child("trainer", "resourcesPerNode")
    resources = {**json_reader.mapping(trainer.get("resourcesPerNode"), path)}
    requests = json_reader.mapping(resources.get("requests"), path.child("requests"))
    limits = json_reader.mapping(resources.get("limits"), path.child("limits"))
    devices = {name: amount for name, amount in requests.items() if "/" in name and name not in limits}
    if devices:
        resources["limits"] = {**limits, **devices}
        notes.changed(
            path.child("requests"), f"become limits too, as Kubernetes requires: {', '.join(sorted(devices))}"
        )
    return resources


def _initializer(spec: Json, notes: Notes) -> dict[str, Any]:
    initializer = {}
    path = _SPEC.child("datasetConfig")
    dataset = _fetched(json_reader.mapping(spec.get("datasetConfig"), path), path, notes)
    if dataset:
        initializer["dataset"] = dataset
    config = json_reader.mapping(spec.get("modelConfig"), _MODEL)
    unknown_fields(config, ("input", "output"), _MODEL, "a model config", notes)
    model = _fetched(
        json_reader.mapping(config.get("input"), _MODEL.child("input")), _MODEL.child("input"), notes
    )
    if model:
        initializer["model"] = model
    if config.get("output"):
        notes.lost(_MODEL.child("output"), "nothing stores the model after training: let the script store it")
    return initializer


def _fetched(config: Json, path: FieldPath, notes: Notes) -> dict[str, Any]:
    unknown_fields(config, ("storageUri", "config", "env", "secretRef"), path, "a dataset or model", notes)
    kept = {key: config[key] for key in ("storageUri", "env", "secretRef") if config.get(key)}
    place = json_reader.text(config.get("config"), path.child("config"))
    if place and "storageUri" not in kept:
        kept["storageUri"] = place
    json_reader.text(kept.get("storageUri"), path.child("storageUri"))
    return kept


def _reference(spec: Json) -> dict[str, Any] | None:
    for key in ("runtimeRef", "trainingRuntimeRef"):
        reference = json_reader.mapping(spec.get(key), _SPEC.child(key))
        name = json_reader.text(reference.get("name"), _SPEC.child(key, "name"))
        kind = json_reader.text(reference.get("kind"), _SPEC.child(key, "kind"))
        if name:
            return {"name": name, **({"kind": kind} if kind else {})}
    return None


def _chosen(trainer: Json, initializer: Json, catalog: Catalog, notes: Notes) -> dict[str, Any]:
    """A runtime of the catalog for a job that names none."""
    words = [str(word) for key in ("command", "args") for word in _words(trainer, key)]
    torch = any(mark in word for word in words for mark in _TORCH_WORDS)
    name = "torch-distributed" if torch else PLAIN
    if initializer and torch:
        of_cache = initializer.get("dataset", {}).get("storageUri", "").lower().startswith(_OF_CACHE)
        able = [
            runtime
            for runtime in sorted(catalog)
            if _trains(catalog, runtime) and _starts_cache(catalog, runtime) == of_cache
        ]
        fetching = (runtime for runtime in able if _initializes(catalog, runtime) >= initializer.keys())
        name = next(fetching, name)
    notes.changed(_SPEC.child("runtimeRef"), f"none was named: {name} was chosen, by the trainer's command")
    return {"name": name}


def _words(trainer: Json, key: str) -> Sequence[str]:
    return json_reader.texts(trainer.get(key), _SPEC.child("trainer", key))


def _nobody_fetches(initializer: Json, notes: Notes) -> dict[str, Any]:
    where = {"dataset": _SPEC.child("datasetConfig"), "model": _MODEL}
    for key in initializer:
        uri = initializer[key].get("storageUri", "")
        message = f"no runtime of the catalog for this job fetches {uri}: name one with a {key}-initializer"
        notes.lost(where[key], message)
    return {}


def _trains(catalog: Catalog, name: str) -> bool:
    """Whether a runtime is PyTorch's, and leaves the command to the TrainJob."""
    policy = _part(catalog, name, "mlPolicy")
    jobs = _jobs(catalog, name)
    node = next((container for job in jobs if (container := templates.container(job, names.NODE))), {})
    return policy.get("torch") is not None and not node.get("command")


def _initializes(catalog: Catalog, name: str) -> frozenset[str]:
    """What a runtime fetches: `dataset`, `model`."""
    steps = {templates.ancestor(job) for job in _jobs(catalog, name)}
    initializers = {"dataset": names.DATASET_INITIALIZER, "model": names.MODEL_INITIALIZER}
    return frozenset(key for key, step in initializers.items() if step in steps)


def _starts_cache(catalog: Catalog, name: str) -> bool:
    """Whether a runtime's dataset comes out of a data cache, and out of nothing else."""
    return any(
        variable.get("name") == names.CACHE_IMAGE
        for job in _jobs(catalog, name)
        for container in templates.pod_template(job)["spec"].get("containers", ())
        for variable in container.get("env") or ()
    )


def _part(catalog: Catalog, name: str, key: str) -> Json:
    try:
        runtime = catalog[name].value if name in catalog else {}
        spec = json_reader.mapping(runtime.get("spec"), _SPEC)
        return json_reader.mapping(spec.get(key), _SPEC.child(key))
    except InvalidFieldError:
        return {}


def _jobs(catalog: Catalog, name: str) -> Sequence[Json]:
    try:
        spec = json_reader.mapping(_part(catalog, name, "template").get("spec"), templates.SPEC_PATH)
        jobs: Sequence[Json] = templates.checked(spec, templates.SPEC_PATH)["replicatedJobs"]
    except InvalidFieldError:
        return ()
    return jobs
