"""Findings of a stack's rules about one runtime of the catalog, as the stack installs it: pure.

Called by `runtimes new` and `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from trainyard_api.documents import Document
from trainyard_api.json_types import copied
from trainyard_platform.artifacts import ImagePin
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.catalog.images import Images
from trainyard_platform.stack.settings import StackSettings
from trainyard_policies import engine
from trainyard_policies.engine import Violation
from trainyard_policies.settings import Policies

from . import stackfile


class NotInstalledError(Exception):
    """The stack does not install the runtime."""


def violations(
    runtime: Runtime,
    examples: Sequence[Document],
    settings: StackSettings,
    *,
    policies: Policies,
    pins: Mapping[str, ImagePin],
    today: date,
) -> Iterator[Violation]:
    """Findings about a runtime and the TrainJobs in its header.

    Args:
        runtime: As its file has it.
        examples: The TrainJobs.
        settings: What the stack makes of the runtime.
        policies: The rules that it is held to.
        pins: The digests that the catalog knows.
        today: The day that the ends of exceptions are compared with.

    Raises:
        NotInstalledError: The stack leaves it out.
        PlatformError: The runtime does not fit the stack.
    """
    registry = stackfile.artifacts(settings).registry
    installed = stack_runtimes.adapt(runtime, settings, Images(pins, registry))
    if installed is None:
        raise NotInstalledError(runtime.name)
    yield from engine.check(installed.manifest, today, policies)
    for example in examples:
        yield from engine.check(from_registry(registry, example).value, today, policies)


def from_registry(registry: Callable[[str], str], example: Document) -> Document:
    """The example of a header, which names upstream's image, where a stack has images from elsewhere."""
    value = copied(dict(example.value))
    trainer = value["spec"].get("trainer") or {}
    if "image" in trainer:
        trainer["image"] = registry(trainer["image"])
    return replace(example, value=value)
