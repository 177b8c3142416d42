"""From documents to what admission would answer about them.

Called by `trainyard validate`. The answers come from `validation`, as those of
the webhooks do; this module only selects the objects. Reads no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from trainyard_api.documents import Document
from trainyard_api.errors import InvalidFieldError, UserError
from trainyard_operator.core.admit import validation
from trainyard_operator.core.admit.validation import Answer
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.model import TrainJob

from . import offline
from .offline import DEFAULT_NAMESPACE, Runtimes

_AS_WRITTEN: Final = replace(DEFAULT_SETTINGS, queue_holds_jobset=True)
"""In a file `suspend` is its user's, as where the queue holds JobSets: no webhook of Kueue has set it."""


class NothingToValidateError(UserError, ValueError):
    """The documents hold neither a TrainJob nor a runtime, or too many TrainJobs."""


def validate(
    given: Sequence[Document], catalog: Sequence[Document] = (), namespace: str = DEFAULT_NAMESPACE
) -> Answer:
    """Admission's answer about the TrainJobs in `given`, or about the runtimes if there are none.

    Of two TrainJobs in one file, the second is the old object of an update. A
    runtime is looked up in `given` first, then in `catalog`; `namespace` is
    that of objects that name none.

    Raises:
        NothingToValidateError: There is nothing to validate, or too much.
        offline.UnreadableError: The API server could not even read it.
    """
    if jobs := offline.trainjob_documents(given):
        runtimes = offline.runtime_documents((*catalog, *given), namespace)
        sources = dict.fromkeys(job.source for job in jobs)
        requests = [[job for job in jobs if job.source == source] for source in sources]
        return _together(_trainjob_answer(request, runtimes, namespace) for request in requests)
    own = offline.runtime_documents(given, namespace)
    if not own:
        reasons = ("no TrainJob and no runtime in the files", *offline.inside_others(given))
        raise NothingToValidateError("; ".join(reasons))
    return _together(_runtime_answer(document, namespace) for document in own.values())


def _trainjob_answer(request: Sequence[Document], runtimes: Runtimes, namespace: str) -> Answer:
    if len(request) > 2:
        place = request[2].place
        raise NothingToValidateError(f"{place}: a file may hold one TrainJob and its old object")
    job, *before = (offline.trainjob(document, namespace) for document in request)
    old: TrainJob | None = before[0] if before else None
    runtime_document = offline.runtime_document(job, runtimes)
    try:
        runtime = None if runtime_document is None else offline.runtime(runtime_document, namespace)
    except InvalidFieldError as error:
        return Answer(errors=error.errors)
    elsewhere = runtime is None and offline.is_of_the_other_kind(job, runtimes)
    return validation.validate(job, old, runtime, settings=_AS_WRITTEN, of_the_other_kind=elsewhere)


def _runtime_answer(document: Document, namespace: str) -> Answer:
    try:
        return validation.validate_runtime(offline.runtime(document, namespace))
    except InvalidFieldError as error:
        return Answer(errors=error.errors)


def _together(answers: Iterable[Answer]) -> Answer:
    every = tuple(answers)
    return Answer(
        tuple(warning for answer in every for warning in answer.warnings),
        tuple(error for answer in every for error in answer.errors),
    )
