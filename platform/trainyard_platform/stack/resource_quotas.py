"""Limits of a ResourceQuota that the API server would refuse, or accept and never enforce.

Source: `ValidateResourceQuotaSpec` and the evaluators of quota in Kubernetes 1.35.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from trainyard_api import quantity
from trainyard_api.similar import hint
from trainyard_api.strict import KEY

_COUNTED: Final = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_MEASURED: Final = frozenset(
    {
        *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")),
        *(f"{prefix}ephemeral-storage" for prefix in ("", "requests.", "limits.")),
        "requests.storage",
    }
)
_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_REQUESTS: Final = "requests."
_COUNT: Final = "count/"
_OF_CLASSES: Final = (
    ".storageclass.storage.k8s.io/persistentvolumeclaims",
    ".storageclass.storage.k8s.io/requests.storage",
    ".deviceclass.resource.k8s.io/devices",
)
_KEY: Final = re.compile(KEY)


def problems(limits: Mapping[str, str]) -> Iterator[str]:
    """Limits without effect, each with its key."""
    for key, amount in limits.items():
        if problem := _problem(key):
            yield f"{key}: {problem}"
        elif _is_whole(key) and quantity.parse(amount).nano % 10**9:
            yield f"{key}: must be a whole number; is {amount!r}"


def _problem(key: str) -> str | None:
    """Why nothing would count what the key names, or None."""
    domain, slash, resource = key.partition("/")
    if not slash:
        known = _COUNTED | _MEASURED
        if key in known or key.startswith(_HUGE_PAGES):
            return None
        return (
            "no ResourceQuota has this limit. Of other objects it is count/<resource>.<group>, and of "
            f"devices requests.<domain>/<resource>{hint(key, sorted(known))}"
        )
    if not _KEY.fullmatch(key):
        return "must be a key such as requests.nvidia.com/gpu or count/jobs.batch"
    if key.startswith((_COUNT, _REQUESTS)) or key.endswith(_OF_CLASSES):
        return None
    return f"Kubernetes would not enforce it: write {_REQUESTS}{domain.removeprefix('limits.')}/{resource}"


def _is_whole(key: str) -> bool:
    """Whether Kubernetes counts it in whole numbers."""
    return key in _COUNTED or ("/" in key and not key.startswith(_REQUESTS))
