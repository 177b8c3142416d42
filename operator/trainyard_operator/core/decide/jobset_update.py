"""The PUT that updates an existing JobSet: the built spec, with the defaults that the JobSet already has.

Called by `apply`. JobSet's webhook fills in defaults when a JobSet is created
and never again, and then every field is immutable but the few with which a
queue places a suspended job. A PUT of the bare manifest would therefore change
what nobody asked to change, and be refused. So whatever the wanted manifest is
silent about stays as it is; only those few fields are exactly as wanted, so
that an evicted job loses the node selector of the flavor it had. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..model import Json

PLACEMENT: Final = frozenset({"annotations", "labels", "nodeSelector", "schedulingGates", "tolerations"})
"""Fields that JobSet v1alpha2 allows to change in the pod template of a suspended JobSet."""

_KEYS: Final = ("name", "containerPort", "mountPath")
"""Keys of list items, in order of preference."""


def spec_over(live: Json, target: Json) -> Json:
    """The spec to write over `live` so that it becomes `target`; neither is changed."""
    kept = {name: value for name, value in live.items() if name not in target and name not in PLACEMENT}
    return kept | {
        name: value if name in PLACEMENT else _over(live.get(name), value) for name, value in target.items()
    }


def _over(live: Any, target: Any) -> Any:
    if isinstance(live, Mapping) and isinstance(target, Mapping):
        return spec_over(live, target)
    if _is_list(live) and _is_list(target) and len(live) == len(target):
        return [
            _over(old, new) if _same_item(old, new) else new for old, new in zip(live, target, strict=True)
        ]
    return target


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same_item(live: Any, target: Any) -> bool:
    if not isinstance(live, Mapping) or not isinstance(target, Mapping):
        return False
    key = next((key for key in _KEYS if key in target), None)
    return key is not None and live.get(key) == target[key]
