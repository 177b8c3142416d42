"""Values of a stack for upstream's charts, in addition to those that the platform sets: pure.

No chart here has a schema of its own, so each is checked against its own
`values.yaml`: the keys in it, and whether each is a mapping, a list, true or
false, or one number or text. A key named like a part of a pod, such as
`resources`, is left to Kubernetes. `chart_values.yaml` holds these keys, so that a
stack file is checked without the chart. `make generate SANDBOX=1` writes it again,
from the charts of the pinned versions.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard_api import names
from trainyard_api.similar import hint

CHARTS: Final = {
    "jobset": "jobset",
    "kueue": "kueue",
    "volcano": "volcano",
    "coscheduling": names.SCHEDULER_PLUGINS,
}
"""Parts of a stack whose charts accept values from it, and the artifact of each chart."""
FILE: Final = Path(__file__).with_name("chart_values.yaml")
"""The values of each chart."""
_ANY: Final = "any"
_SCALAR: Final = "a number or text"
_KINDS: Final = {bool: "true or false", int: _SCALAR, float: _SCALAR, str: _SCALAR, list: "a list"}
_OF_PODS: Final = re.compile(
    r"(securityContext|_c?sc|probe|resources|affinity|nodeSelector|annotations|labels|capabilities)$", re.I
)
"""Keys whose values a chart passes to Kubernetes unchanged."""
_HEADER: Final = "# The values that upstream's charts know. Made by `make generate SANDBOX=1`; do not edit.\n"

Tree = Mapping[str, Any]


@cache
def trees() -> Mapping[str, Tree]:
    """By artifact, the values of its chart: a mapping for those with keys, else the kind of value."""
    text = FILE.read_text(encoding="utf-8")
    document: Mapping[str, Tree] = yaml.load(text, Loader=yaml.CSafeLoader)
    return document


def problems(artifact: str, values: Mapping[str, Any], place: str) -> Iterator[str]:
    """Values that the chart does not have, or has with another kind, each with its path.

    Args:
        artifact: Name of the chart's artifact.
        values: Values in the stack file.
        place: Path of the values in the stack's settings.
    """
    yield from _problems(values, trees()[artifact], place)


def merged(stack_values: Mapping[str, Any], platform_values: Mapping[str, Any]) -> dict[str, Any]:
    """The stack's values, overridden by the platform's."""
    both = {
        key: merged(stack_values[key], platform_values[key])
        for key in stack_values.keys() & platform_values.keys()
        if isinstance(stack_values[key], Mapping) and isinstance(platform_values[key], Mapping)
    }
    return {**stack_values, **platform_values, **both}


def overruled(
    stack_values: Mapping[str, Any], platform_values: Mapping[str, Any], place: str
) -> Iterator[str]:
    """Paths of the stack's values that have no effect, because the platform sets another value."""
    for key in sorted(stack_values.keys() & platform_values.keys()):
        path = f"{place}.{key}"
        if isinstance(stack_values[key], Mapping) and isinstance(platform_values[key], Mapping):
            yield from overruled(stack_values[key], platform_values[key], path)
        elif stack_values[key] != platform_values[key]:
            yield path


def tree(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a chart's `values.yaml`, with the kind of each value that has no keys."""
    return {str(key): _tree(str(key), value) for key, value in values.items()}


def _tree(key: str, value: Any) -> Any:
    if _OF_PODS.search(key):
        return _ANY
    return tree(value) if value and isinstance(value, dict) else _kind(value)


def _problems(values: Mapping[str, Any], chart_values: Tree, place: str) -> Iterator[str]:
    for key, value in values.items():
        path = f"{place}.{key}"
        expected = chart_values.get(key)
        if expected is None:
            yield f"{path}: the chart has no such value{hint(str(key), chart_values)}"
        elif isinstance(expected, Mapping):
            if isinstance(value, Mapping):
                yield from _problems(value, expected, path)
            elif value is not None:
                yield f"{path}: must be a mapping, of {', '.join(sorted(expected))}; is {value!r}"
        elif expected != _ANY and value is not None and _kind(value) != expected:
            yield f"{path}: must be {expected}; is {value!r}"


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), _ANY)


def text(chart_trees: Mapping[str, Tree]) -> str:
    """The file as it is checked in, from the `tree` of each chart, by artifact."""
    return _HEADER + yaml.safe_dump(dict(chart_trees), sort_keys=True, width=110)
