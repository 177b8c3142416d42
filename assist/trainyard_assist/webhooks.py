"""What an API server means that reaches nobody behind a webhook: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard_api import names

_ADDRESS: Final = '"https://'
_CONTROLLERS: Final[Mapping[str, str]] = {
    names.SYSTEM_NAMESPACE: "Trainyard's operator",
    names.KUEUE_NAMESPACE: "Kueue",
    names.JOBSET_NAMESPACE: "JobSet's controller",
}
"""By the namespace of the Service that the API server calls."""


def in_words(message: str) -> str:
    """The API server's message, and if a controller of the platform does not answer, which and what to do.

    The message names a webhook, which says little to who sends a TrainJob.
    """
    _, failed, rest = message.partition(names.UNANSWERED)
    host = rest.partition(_ADDRESS)[2].partition("/")[0].partition(":")[0].split(".")
    controller = _CONTROLLERS.get(host[1]) if failed and len(host) > 1 else None
    if controller is None:
        return message
    return (
        f"{controller} does not answer, and until it does nobody can create or change a TrainJob. Try again "
        f"in a minute, or have the platform team look at it: kubectl -n {host[1]} get pods ({message})"
    )
