"""The CRDs that embed pods, without what `kubectl explain pod` says as well: docs/adr/0028.

Half of all that the platform sends to a cluster was the documentation of
Kubernetes' own PodSpec, eight times over; Pulumi passes each CRD around a
dozen times in a roll-out, and the API server keeps its text in memory. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

_OF_A_POD: Final = frozenset({"containers", "restartPolicy"})
"""Properties that only a PodSpec has together."""


def brief(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    """A CRD without the descriptions inside its PodSpecs; what it accepts, and its own fields, unchanged."""
    return {**crd, "spec": _brief(crd["spec"], in_a_pod=False)}


def _brief(value: Any, *, in_a_pod: bool) -> Any:
    if isinstance(value, list):
        return [_brief(item, in_a_pod=in_a_pod) for item in value]
    if not isinstance(value, dict):
        return value
    # A property named `description` has a schema; the text is a string.
    entries = {key: item for key, item in value.items() if not (in_a_pod and _is_text(key, item))}
    inside = in_a_pod or _is_a_pod(value)
    return {key: _brief(item, in_a_pod=inside) for key, item in entries.items()}


def _is_text(key: str, item: Any) -> bool:
    return key == "description" and isinstance(item, str)


def _is_a_pod(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, dict) and properties.keys() >= _OF_A_POD
