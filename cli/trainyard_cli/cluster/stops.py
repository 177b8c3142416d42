"""TrainJobs that are cancelled, suspended or resumed, with the rights of their user.

Called by the commands of these names and by `retry`. `trainyard_assist.stops`
decides. A write names the uid that was seen, so it never meets a TrainJob that
somebody has sent under the same name meanwhile. A deletion names the version
too, so it never meets one that has ended meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist import read, stops, webhooks
from trainyard_assist.stops import Answer, Outcome, Seen
from trainyard_kube.client import (
    ApiError,
    Client,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RetriableError,
    UnauthorizedError,
)
from trainyard_kube.resources import JOBSETS, TRAINJOBS

from .job_names import not_found
from .patience import in_time

TRIES: Final = 5
"""How often a deletion is tried while the status changes."""
_INVALID: Final = 422
_NO_RIGHT: Final = " cannot "
"""In what the API server says of a right that is missing; policies refuse with the same code."""
_GONE: Final = "was deleted meanwhile"
_REPLACED: Final = "was recreated meanwhile: the new one stays"


async def look(client: Client, namespace: str, job: str) -> Seen:
    """The TrainJob with its JobSet.

    Raises:
        UserError: There is none of this name; says the nearest. Or the user may not see it.
        ApiError: It could not be queried.
    """
    try:
        trainjob = await in_time(client.get(TRAINJOBS.path(namespace, job)))
    except NotFoundError as error:
        raise await not_found(client, namespace, job, error) from error
    except ApiError as error:
        if not _lacks_right(error):
            raise
        raise UserError(f"TrainJob {namespace}/{job}: {problem(error, 'get', namespace)}") from error
    jobset, unseen = None, ""
    try:
        jobset = await in_time(client.get(JOBSETS.path(namespace, job)))
    except NotFoundError:
        pass
    except UnauthorizedError:
        raise
    except ApiError as error:
        unseen = "you are not allowed to get its JobSet" if _lacks_right(error) else str(error)
    options = client.credentials.options
    return Seen(trainjob, read.owned(jobset, trainjob), client.time.now(), clean(unseen), options)


async def look_at_all(client: Client, namespace: str, jobs: Sequence[str]) -> list[Seen | Answer]:
    """Each TrainJob, or why it could not be seen, in the order of the names."""

    async def look_at(job: str) -> Seen | Answer:
        try:
            return await look(client, namespace, job)
        except ApiError:
            raise
        except UserError as error:
            return Answer(namespace, job, Outcome.FAILED, str(error))

    return list(await asyncio.gather(*map(look_at, jobs)))


async def cancel(client: Client, seen: Seen) -> Answer:
    """Delete the TrainJob, unless it has ended."""
    answer = stops.not_cancelled(seen) or await delete(client, seen)
    return answer or seen.answer(Outcome.CANCELLED, "is cancelled")


async def delete(client: Client, seen: Seen, *, propagation: str = "Background") -> Answer | None:
    """Delete the TrainJob that was seen; says why it is not deleted.

    Args:
        client: Whose rights are used.
        seen: The TrainJob.
        propagation: `Foreground`: it stays until everything that belongs to it has gone.
    """
    current = seen
    for _ in range(TRIES):
        version = read.text(current.trainjob, "metadata", "resourceVersion")
        request = client.delete(
            _path(seen), uid=read.uid(seen.trainjob), resource_version=version, propagation=propagation
        )
        try:
            await in_time(request)
        except NotFoundError:
            return seen.answer(Outcome.UNCHANGED, _GONE)
        except ConflictError:
            changed = await _look_again(client, seen)
            if isinstance(changed, Answer):
                return changed
            if changed.row.is_over and not seen.row.is_over:
                return changed.answer(Outcome.UNCHANGED, f"is {changed.row.state}: it ended meanwhile")
            current = changed
        except UnauthorizedError:
            raise
        except ApiError as error:
            return refused(seen, error, "delete")
        else:
            return None
    return seen.answer(Outcome.FAILED, "is not deleted: its status changes all the time; try again")


async def suspend(client: Client, seen: Seen) -> Answer:
    """Suspend the TrainJob."""
    return (
        stops.not_suspended(seen)
        or await _set_suspend(client, seen, suspend=True)
        or seen.answer(Outcome.SUSPENDED, stops.how_suspended(seen))
    )


async def resume(client: Client, seen: Seen) -> Answer:
    """Resume the TrainJob."""
    return (
        stops.not_resumed(seen)
        or await _set_suspend(client, seen, suspend=False)
        or seen.answer(Outcome.RESUMED, stops.how_resumed(seen))
    )


async def _set_suspend(client: Client, seen: Seen, *, suspend: bool) -> Answer | None:
    """Set `spec.suspend`; says why it is not set."""
    patch = (
        {"op": "test", "path": "/metadata/uid", "value": read.uid(seen.trainjob)},
        {"op": "add", "path": "/spec/suspend", "value": suspend},
    )
    try:
        trainjob = await in_time(client.patch(_path(seen), patch, kind="json"))
    except NotFoundError:
        return seen.answer(Outcome.REFUSED, _GONE)
    except UnauthorizedError:
        raise
    except ApiError as error:
        # A test that fails has the code of what is invalid.
        if error.code == _INVALID or isinstance(error, ConflictError):
            changed = await _look_again(client, seen)
            if isinstance(changed, Answer):
                return Answer(changed.namespace, changed.name, Outcome.REFUSED, changed.message)
        return refused(seen, error, "patch")
    changed = replace(seen, trainjob=trainjob)
    if changed.row.is_over:
        return changed.answer(Outcome.REFUSED, f"is {changed.row.state}: it ended meanwhile")
    return None


async def _look_again(client: Client, seen: Seen) -> Seen | Answer:
    """The current TrainJob, or the answer that it is gone."""
    try:
        trainjob = await in_time(client.get(_path(seen)))
    except NotFoundError:
        return seen.answer(Outcome.UNCHANGED, _GONE)
    if read.uid(trainjob) != read.uid(seen.trainjob):
        return seen.answer(Outcome.REFUSED, _REPLACED)
    return replace(seen, trainjob=trainjob, now=client.time.now())


def refused(seen: Seen, error: ApiError, verb: str) -> Answer:
    """The answer after a refused or unanswered write to the TrainJob."""
    is_no = not isinstance(error, RetriableError) and not _lacks_right(error)
    outcome = Outcome.REFUSED if is_no else Outcome.FAILED
    return Answer(
        seen.namespace,
        seen.name,
        outcome,
        f"TrainJob {seen.namespace}/{seen.name}: {problem(error, verb, seen.namespace)}",
    )


def problem(error: ApiError, verb: str, namespace: str) -> str:
    """The API server's error about TrainJobs, or the missing right."""
    if _lacks_right(error):
        return f"you are not allowed to {verb} TrainJobs in namespace {namespace}"
    return clean(webhooks.in_words(str(error)))


def _lacks_right(error: ApiError) -> bool:
    return isinstance(error, ForbiddenError) and _NO_RIGHT in error.message


def _path(seen: Seen) -> str:
    return TRAINJOBS.path(seen.namespace, seen.name)
