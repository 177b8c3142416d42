"""TorchTune: the recipe and configuration that a TrainJob's settings stand for (Trainer v2.3, `Torch`).

Runs after `Torch`, for TrainJobs whose command is `tune run` and nothing more.
The pretrained model is read from the runtime's name, as Trainer does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trainyard_api import json_reader, names, runtime_ref
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ...model import JobSet, Json, TrainJob
from .. import resources, templates
from ..info import Info, PodSet
from .torch import AUTO, processes, runs_torchtune

_TRAINER: Final = FieldPath("spec.trainer")
_RUNTIME_NAME: Final = "spec.runtimeRef.name"

_LLAMA_3_2: Final = ("llama3_2/1B", "llama3_2/3B")
_MULTI_NODE: Final = "llama3_3/70B"
_WITHOUT_QLORA: Final = "qwen2_5/1.5B"
_SUPPORTED: Final = frozenset({*_LLAMA_3_2, _MULTI_NODE, _WITHOUT_QLORA})

_IMMUTABLE: Final = frozenset(
    {"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"}
)
"""Settings that are the runtime's: they say where its volumes are."""

_FULL, _LORA, _QLORA = "full", "lora", "qlora"


class _Recipe(NamedTuple):
    name: str
    config_suffix: str


_SINGLE_DEVICE: Final = {
    _FULL: _Recipe("full_finetune_single_device", "_full_single_device"),
    _LORA: _Recipe("lora_finetune_single_device", "_lora_single_device"),
    _QLORA: _Recipe("lora_finetune_single_device", "_qlora_single_device"),
}
_DISTRIBUTED: Final = {
    _FULL: _Recipe("full_finetune_distributed", "_full"),
    _LORA: _Recipe("lora_finetune_distributed", "_lora"),
    _QLORA: _Recipe("lora_finetune_distributed", "_qlora"),
}
_MULTI_NODE_RECIPE: Final = _Recipe("full_finetune_distributed", "_full_multinode")


class TorchTune:
    """Completes the command `tune run`."""

    name = "torchtune"
    implements: frozenset[str] = frozenset()

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """Errors about models without a recipe in TorchTune, and about the runtime's settings."""
        trainer = info.trainer
        if info.policy("torch") is None or trainer is None or not runs_torchtune(trainer):
            return ()
        return tuple(_errors(info, trainer))

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the trainer's command completed: rendezvous, recipe, configuration, the runtime's
        settings; the TrainJob's own stay its arguments."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        trainer = info.trainer
        if info.policy("torch") is None or pods is None or trainer is None or not runs_torchtune(trainer):
            return info
        per_node = processes(info)
        gpus = resources.gpu_count(resources.per_node(info))
        recipe = _recipe(pods.count, per_node, gpus, _arguments(trainer))
        command = [
            *json_reader.texts(trainer.get("command"), _TRAINER.child("command")),
            *_rendezvous(info, pods, per_node, gpus),
            recipe.name,
            "--config",
            _model(info) + recipe.config_suffix,
            *_settings_of_the_runtime(info),
        ]
        spec = {**info.trainjob.spec, "trainer": {**trainer, "command": command}}
        return replace(info, trainjob=replace(info.trainjob, spec=spec))


def _errors(info: Info, trainer: Json) -> Iterator[FieldError]:
    model = _model(info)
    name = runtime_ref.of(info.trainjob.spec).name
    if model not in _SUPPORTED:
        detail = f"must have a supported pretrained model, invalid model configured: {model}".rstrip()
        yield FieldError(ErrorType.INVALID, _RUNTIME_NAME, name, detail)

    path = _TRAINER.child("numNodes")
    nodes = 1 if info.nodes is None else info.nodes
    if nodes > 1 and model != _MULTI_NODE:
        yield FieldError(ErrorType.INVALID, str(path), nodes, f"must be 1 for {model} model")

    arguments = _arguments(trainer)
    method = _method(arguments)
    if nodes == 1 and method == _QLORA:
        yield from _qlora_errors(info, trainer, model, arguments)
    if nodes > 1 and (method == _QLORA or _has_lora(arguments)):
        detail = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
        yield FieldError(ErrorType.INVALID, str(path), nodes, detail)

    for position, argument in enumerate(arguments):
        key = _key(argument)
        if key in _IMMUTABLE:
            detail = f'must not set immutable config "{key}" in trainer args; it is managed by the runtime'
            yield FieldError(ErrorType.INVALID, str(_TRAINER.child("args").index(position)), argument, detail)


def _qlora_errors(info: Info, trainer: Json, model: str, arguments: Sequence[str]) -> Iterator[FieldError]:
    path = _TRAINER.child("numProcPerNode")
    shown: Any = AUTO if info.processes is None else info.processes
    if model == _WITHOUT_QLORA:
        name = runtime_ref.of(info.trainjob.spec).name
        yield FieldError(ErrorType.INVALID, _RUNTIME_NAME, name, f"QLoRA is not supported for {model} model")
    gpus = resources.gpu_count(resources.per_node(info))
    single = _recipe(1, str(shown), gpus, arguments) is _SINGLE_DEVICE[_QLORA]
    if model in _LLAMA_3_2 and not single:
        detail = f"must be auto or 1 for {model} model when using QLoRA"
        yield FieldError(ErrorType.INVALID, str(path), shown, detail)
        detail = f"must have gpu resource with value 1 for {model} model when using QLoRA"
        path = _TRAINER.child("resourcesPerNode")
        yield FieldError(ErrorType.INVALID, str(path), trainer.get("resourcesPerNode"), detail)


def _model(info: Info) -> str:
    """The pretrained model: `llama3_2/1B` for `torchtune-llama3.2-1b`; empty for other names."""
    parts = runtime_ref.of(info.trainjob.spec).name.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def _recipe(nodes: int, per_node: str, gpus: int, arguments: Sequence[str]) -> _Recipe:
    if nodes > 1:
        return _MULTI_NODE_RECIPE
    if nodes == 1 and (per_node == "1" or gpus == 1):
        return _SINGLE_DEVICE[_method(arguments)]
    return _DISTRIBUTED[_method(arguments) if nodes == 1 else _FULL]


def _rendezvous(info: Info, pods: PodSet, per_node: str, gpus: int) -> tuple[str, ...]:
    several = gpus > 1 if per_node == AUTO else int(per_node) > 1
    if pods.count <= 1 and not several:
        return ()
    return (f"--rdzv_endpoint={info.rendezvous(pods)}:{names.TRAINER_PORT}",)


def _settings_of_the_runtime(info: Info) -> Iterator[str]:
    for job in info.jobs:
        container = templates.container(job, names.NODE)
        if templates.ancestor(job) == names.ANCESTOR_TRAINER and container is not None:
            yield from (word for word in container.get("command") or () if _key(word) in _IMMUTABLE)


def _arguments(trainer: Json) -> Sequence[str]:
    return json_reader.texts(trainer.get("args"), _TRAINER.child("args"))


def _method(arguments: Sequence[str]) -> str:
    """QLoRA is LoRA with a quantized base, unless DoRA is requested."""
    if _is_on(arguments, "model.quantize_base") and not _is_on(arguments, "model.use_dora"):
        return _QLORA
    return _LORA if _has_lora(arguments) else _FULL


def _has_lora(arguments: Sequence[str]) -> bool:
    return any("model.lora_attn_modules" in argument for argument in arguments)


def _is_on(arguments: Sequence[str], setting: str) -> bool:
    pairs = (argument.partition("=") for argument in arguments)
    return any(setting in key and value.strip().lower() == "true" for key, _, value in pairs)


def _key(word: str) -> str:
    return word.partition("=")[0]
