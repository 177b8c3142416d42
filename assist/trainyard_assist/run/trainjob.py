"""Settings and a runtime make a TrainJob: a plain one of Trainer's API, which kubectl shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

from trainyard_api import names, runtime_ref
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json

from .. import read, resend
from ..workspace import without_workspace
from . import starters
from .runtime import Runtime
from .settings import Settings

GPU: Final = "nvidia.com/gpu"
"""The resource of a GPU, where neither the runtime, the job that is copied nor the queue has another."""
LONGEST_BASE: Final = 30
"""Characters of a generated name before its suffix: names of pods add a suffix."""
_JOB: Final = "job"
SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of the end of a generated name, as Kubernetes has them: they make no words."""
SUFFIX_LENGTH: Final = 5
_GENERATED: Final = re.compile(rf"-[{SUFFIX}]{{{SUFFIX_LENGTH}}}$")
_OTHERS: Final = re.compile(r"[^a-z0-9]+")
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        names.QUEUE_GATES_ANNOTATION,
        names.PREBUILT_WORKLOAD,
        names.MULTIKUEUE_ORIGIN_LABEL,
    }
)
"""Labels and annotations that others wrote about a TrainJob."""


def base_name(words: Sequence[str], copied: str = "") -> str:
    """How a generated name begins: as the script is called, the module, or the program.

    Args:
        words: The command.
        copied: The name of the TrainJob that it is a copy of, for a command that has none of these.
    """
    script = starters.script_of(words)
    stem = PurePosixPath(script).stem if script else _module(words) or _GENERATED.sub("", copied)
    name = _OTHERS.sub("-", stem.lower()).strip("-")[:LONGEST_BASE].strip("-")
    return name if name[:1].isalpha() else f"{_JOB}-{name}".strip("-")


def _module(words: Sequence[str]) -> str:
    """The last part of the name of the module that Python runs; empty for none."""
    modules = (word for option, word in pairwise(words) if option == "-m")
    return next(modules, "").rpartition(".")[2]


def trainjob(
    settings: Settings,
    runtime: Runtime,
    *,
    namespace: str,
    name: str,
    folder: str = "",
    secret_keys: Mapping[str, Sequence[str]] = {},
    copied: Json | None = None,
    gpu: str = GPU,
) -> dict[str, Any]:
    """The TrainJob of these settings.

    Args:
        settings: What the run says.
        runtime: What it runs on.
        namespace: Where it goes.
        name: Its name.
        folder: The label of the folder that it is run from; empty for none.
        secret_keys: Of each Secret that the settings name, the keys that become variables.
        copied: The TrainJob that it is a copy of; what the settings do not say is as there.
        gpu: The resource of a GPU, if neither that one nor the runtime names one.

    Raises:
        UserError: There is nothing to start.
    """
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    labels, annotations = _copied_metadata(copied)
    labels |= {names.FOLDER_LABEL: folder} if folder else {}
    labels |= {names.QUEUE_LABEL: settings.queue} if settings.queue else {}
    labels |= {names.PRIORITY_CLASS_LABEL: settings.priority} if settings.priority else {}
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"annotations": annotations} if annotations else {}
    spec = _copied_spec(copied)
    reference: dict[str, Any] = {"name": runtime.name}
    # Trainer's default is the other kind.
    reference |= {"kind": runtime.kind} if runtime.kind == names.TRAINING_RUNTIME else {}
    trainer = _trainer(settings, runtime, dict(spec.pop("trainer", {})), secret_keys, gpu)
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINJOB,
        "metadata": metadata,
        "spec": {**spec, "runtimeRef": reference, **({"trainer": trainer} if trainer else {})},
    }


def comparable(trainjob: Json) -> dict[str, Any]:
    """A TrainJob's own settings, without fields of other clients: to compare two TrainJobs.

    Raises:
        InvalidFieldError: It is no TrainJob where a workspace is looked for.
    """
    labels, annotations = (read.texts(trainjob, "metadata", part) for part in ("labels", "annotations"))
    return {
        "runtime": runtime_ref.of(read.at(trainjob, "spec") or {}).shown(),
        "queue": labels.get(names.QUEUE_LABEL, ""),
        "priority": labels.get(names.PRIORITY_CLASS_LABEL, ""),
        "workspace": annotations.get(names.WORKSPACE, ""),
        "commit": annotations.get(names.GIT_COMMIT_ANNOTATION, ""),
        "requirements": annotations.get(names.REQUIREMENTS_ANNOTATION, ""),
        **_copied_spec(without_workspace(trainjob)),
    }


def _trainer(
    settings: Settings,
    runtime: Runtime,
    trainer: dict[str, Any],
    secret_keys: Mapping[str, Sequence[str]],
    gpu: str,
) -> dict[str, Any]:
    if starters.names_program(settings.command):  # all that a copy started gives way to it
        trainer = {field: value for field, value in trainer.items() if field not in ("command", "args")}
    env = _env(settings, secret_keys, trainer.get("env") or ())
    own = trainer.get("command")
    words = [_as_given(word) for word in settings.command]
    if own == []:  # the image's own starts, with the arguments if there are some
        trainer |= {"args": words} if words else {}
    elif settings.command or not (own or trainer.get("args")):
        variables = [str(variable["name"]) for variable in env]
        start = starters.start(settings.command, runtime.policy, own or runtime.command, variables)
        trainer |= {"command": [_as_given(word) for word in start.command]} if start.command else {}
        trainer |= {"args": [_as_given(word) for word in start.args]} if start.args else {}
    trainer |= {"numNodes": settings.nodes} if settings.nodes is not None else {}
    trainer |= {"image": settings.image} if settings.image else {}
    trainer |= {"env": env} if env else {}
    if amounts := _amounts(settings, runtime, trainer, gpu):
        trainer["resourcesPerNode"] = amounts
    return trainer


def _env(
    settings: Settings, secret_keys: Mapping[str, Sequence[str]], before: Sequence[Json]
) -> list[dict[str, Any]]:
    """The variables by their names: those of Secrets, then the plain ones, which win."""
    env = {str(variable.get("name")): dict(variable) for variable in before}
    for secret, keys in secret_keys.items():
        for key in keys:
            env[key] = {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
    env |= {name: {"name": name, "value": _as_given(value)} for name, value in settings.env.items()}
    return list(env.values())


def _as_given(text: str) -> str:
    """The text that reaches the container as it was given: the kubelet makes `$` of `$$`.

    `$(NAME)` still stands for a variable.
    """
    return text.replace("$$", "$$$$")


def _amounts(settings: Settings, runtime: Runtime, trainer: Json, gpu: str) -> dict[str, Any]:
    """`resourcesPerNode`; empty if no setting needs it.

    Trainer counts processes only by these, not by the runtime's: so they are complete.
    As in the SDK, each amount is request and limit.
    """
    resources = _resources(runtime, trainer)
    own_gpu = _gpu_in(resources)
    amounts = {"cpu": settings.cpus, "memory": settings.memory}
    if settings.gpus is not None and (settings.gpus or own_gpu):
        amounts[own_gpu or gpu] = str(settings.gpus)
    given = {name: amount for name, amount in amounts.items() if amount is not None}
    return {part: {**resources[part], **given} for part in resources} if given else {}


def _resources(runtime: Runtime, trainer: Any) -> dict[str, dict[str, str]]:
    """Those of a node, before the settings."""
    before = read.at(trainer, "resourcesPerNode") or runtime.container.get("resources") or {}
    return {part: dict(read.texts(before, part)) for part in ("requests", "limits")}


def _gpu_in(resources: Mapping[str, Mapping[str, str]]) -> str | None:
    return next((name for part in resources.values() for name in part if _is_gpu(name)), None)


def _is_gpu(resource: str) -> bool:
    return "gpu" in resource.lower()


def names_gpu(runtime: Runtime, copied: Json | None) -> bool:
    """Whether the TrainJob that is copied, or the runtime, says which resource a GPU is."""
    return _gpu_in(_resources(runtime, read.at(copied, "spec", "trainer"))) is not None


def gpu_of(cluster_queue: Json) -> str:
    """The resource of a GPU in a ClusterQueue: its only one, else NVIDIA's.

    Raises:
        UserError: It has several, and NVIDIA's is none of them.
    """
    covered = [
        str(resource)
        for group in read.objects(cluster_queue, "spec", "resourceGroups")
        for resource in group.get("coveredResources") or ()
    ]
    gpus = sorted(filter(_is_gpu, covered))
    if len(gpus) < 2 or GPU in gpus:
        return gpus[0] if len(gpus) == 1 else GPU
    raise UserError(
        f"ClusterQueue {read.name(cluster_queue)} has several kinds of GPUs, and --gpus does not say which: "
        f"name a runtime with a limit of {' or '.join(gpus)}"
    )


def _copied_metadata(copied: Json | None) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the user outside the TrainJob's spec."""
    labels, annotations = (
        {
            name: value
            for name, value in resend.unmarked(read.texts(copied, "metadata", part)).items()
            if name not in _NOT_COPIED
        }
        for part in ("labels", "annotations")
    )
    return labels, annotations


def _copied_spec(copied: Json | None) -> dict[str, Any]:
    """The spec without what Kueue and Trainer's defaults have put there, and not held as that one may be."""
    spec = read.at(copied, "spec")
    kept = {
        name: value
        for name, value in (spec.items() if isinstance(spec, dict) else ())
        if value is not None and name not in ("suspend", "runtimeRef", "runtimePatches")
    }
    if kept.get("managedBy") == names.MANAGED_BY_TRAINER:
        del kept["managedBy"]
    patches = [] if copied is None else list(resend.patches(copied))
    return kept | ({"runtimePatches": patches} if patches else {})
