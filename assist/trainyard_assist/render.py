"""From documents to the child objects that the operator would create.

Called by `trainyard render`. The objects come from the framework that
reconciliation uses, without the operator's own annotations and labels;
placeholders stand for what only a cluster knows. Reads and writes no files.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainyard_api import runtime_ref
from trainyard_api.documents import Document
from trainyard_api.errors import InvalidFieldError, UserError
from trainyard_api.json_types import Json
from trainyard_operator.core.build import framework, plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, Settings
from trainyard_operator.core.decide import revisions

from . import offline
from .offline import DEFAULT_NAMESPACE, Runtimes


class RenderError(UserError, ValueError):
    """Nothing can be rendered; its message begins with `file:line:` where there is one."""

    exit_code = 1


class NothingToRenderError(RenderError):
    """The documents hold no TrainJob."""

    exit_code = 2


def render(
    given: Sequence[Document],
    catalog: Sequence[Document] = (),
    settings: Settings = DEFAULT_SETTINGS,
    namespace: str = DEFAULT_NAMESPACE,
) -> tuple[Json, ...]:
    """The child objects of every TrainJob in `given`, sorted by kind and name.

    A runtime is looked up in `given` first, then in `catalog`. `namespace` is
    that of objects that name none.

    Raises:
        RenderError: A runtime is missing, or a TrainJob or runtime is invalid.
    """
    jobs = offline.trainjob_documents(given)
    if not jobs:
        raise NothingToRenderError("; ".join(("no TrainJob in the files", *offline.inside_others(given))))
    try:
        runtimes = offline.runtime_documents((*catalog, *given), namespace)
        children = [child for job in jobs for child in _children(job, runtimes, settings, namespace)]
    except offline.UnreadableError as error:
        raise RenderError(str(error)) from error
    return tuple(sorted(children, key=_order))


def _children(document: Document, runtimes: Runtimes, settings: Settings, namespace: str) -> Sequence[Json]:
    job = offline.trainjob(document, namespace)
    group, kind, name = runtime_ref.of(job.spec)
    if not revisions.supported(job):
        raise RenderError(f"{document.place}: unsupported runtime: {kind}.{group}")
    runtime = offline.runtime_document(job, runtimes)
    if runtime is None:
        other = offline.is_of_the_other_kind(job, runtimes)
        way = f". {revisions.say_the_other_kind(kind)}" if other else ""
        raise RenderError(
            f'{document.place}: {kind} "{name}" is neither in the files nor in the catalog{way}'
        )
    try:
        return plugins.ALL.build(job, offline.runtime(runtime, namespace), settings)
    except (InvalidFieldError, framework.UnsupportedPolicyError) as error:
        raise RenderError(f"{document.place}: with the runtime of {runtime.place}: {error}") from error


def _order(child: Json) -> tuple[str, str, str]:
    metadata = child["metadata"]
    return child["kind"], metadata["name"], metadata["namespace"]
