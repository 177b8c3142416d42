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
_SERVICES: Final[Mapping[str, str]] = {
    names.OPERATOR: "Trainyard's operator",
    "kueue-webhook-service": "Kueue",
    "jobset-webhook-service": "JobSet's controller",
}
"""By the name of this Service. With another release name of upstream's chart, it is the end of the name."""


def in_words(message: str) -> str:
    """The API server's message, and if a controller of the platform does not answer, which and what to do.

    The message names a webhook, which says little to who sends a TrainJob.
    """
    _, failed, rest = message.partition(names.UNANSWERED)
    host = rest.partition(_ADDRESS)[2].partition("/")[0].partition(":")[0].split(".")
    controller = _controller(host[0], host[1]) if failed and len(host) > 1 else None
    if controller is None:
        return message
    return (
        f"{controller} does not answer, and until it does nobody can create or change a TrainJob. Try again "
        f"in a minute, or have the platform team look at it: kubectl -n {host[1]} get pods ({message})"
    )


def _controller(service: str, namespace: str) -> str | None:
    """What serves a webhook. A site's own release of Kueue or JobSet may be in any namespace."""
    for name, controller in _SERVICES.items():
        if service == name or service.endswith(f"-{name}"):
            return controller
    return _CONTROLLERS.get(namespace)
