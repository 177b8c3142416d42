"""The CRDs of the two kinds of runtimes, so that a runtime can be changed: docs/adr/0011.

A runtime embeds JobSet's own type, and with it rules that make fields of a
JobSet immutable. A JobSet needs them; in a template for JobSets they would
keep git from changing it. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from trainyard_api import names

_NAMES: Final = frozenset(f"{kind.lower()}s.{names.TRAINER_GROUP}" for kind in names.RUNTIME_KINDS)
_RULES: Final = "x-kubernetes-validations"


def changeable(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    """A runtime's CRD without the rules that compare a field with its old value; another CRD unchanged."""
    if crd["metadata"]["name"] not in _NAMES:
        return crd
    return {**crd, "spec": _without_transitions(crd["spec"])}


def _without_transitions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_transitions(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {key: _without_transitions(item) for key, item in value.items() if key != _RULES}
    if rules := [rule for rule in value.get(_RULES, ()) if "oldSelf" not in rule["rule"]]:
        schema[_RULES] = rules
    return schema
