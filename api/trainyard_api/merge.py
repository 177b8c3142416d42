"""Strategic merge patch for pod specs and for the JobSet spec around them.

Called by the operator to apply a TrainJob's runtimePatches, with the rules of
`k8s.io/apimachinery/pkg/util/strategicpatch`: objects merge, null deletes, a
list is replaced unless its field has a merge key, and `$patch: delete`,
`$patch: replace` and `$retainKeys` say otherwise for one object. Which field
has which merge key is data: the `Schema` tables at the end.

`$setElementOrder` and `$deleteFromPrimitiveList` are left out: kubectl writes
them into patches that it computes itself, people do not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import FieldPath, invalid, required
from .json_types import Json

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE: Final = "delete"
_REPLACE: Final = "replace"
_ROOT: Final = FieldPath()


@dataclass(frozen=True, slots=True)
class Schema:
    """How the fields of one object merge; fields that are not listed merge as plain JSON."""

    fields: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas of the fields, for objects and for the elements of lists."""
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    """List fields whose elements are merged, with their merge key."""


def strategic_merge(live: Json, patch: Json, schema: Schema, path: FieldPath = _ROOT) -> dict[str, Any]:
    """`live` changed by `patch`; neither is modified, though the result shares their values.

    Raises `InvalidFieldError` naming the place in `patch` that cannot be
    applied: an element without its merge key, an unknown directive.
    """
    directive = patch.get(_PATCH)
    if directive == _REPLACE:
        return {name: value for name, value in patch.items() if name != _PATCH}
    if directive == _DELETE:
        return {}
    if directive is not None:
        raise invalid(path.child(_PATCH), directive, "must be delete or replace")
    merged = _retained(live, patch, path)
    for name, value in patch.items():
        if name == _RETAIN_KEYS:
            continue
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged_value(merged.get(name), value, name, schema, path.child(name))
    return merged


def _merged_value(live: Any, patch: Any, name: str, schema: Schema, path: FieldPath) -> Any:
    inner = schema.fields.get(name, _PLAIN)
    if isinstance(live, Mapping) and isinstance(patch, Mapping):
        return strategic_merge(live, patch, inner, path)
    key = schema.merge_keys.get(name)
    if key is not None and isinstance(live, list | tuple) and isinstance(patch, list | tuple):
        return _merged_list(live, patch, key, inner, path)
    return _new_value(patch)


def _merged_list(
    live: Sequence[Any], patch: Sequence[Any], key: str, schema: Schema, path: FieldPath
) -> list[Any]:
    """Match elements by `key`, then put them in order: the patch's own, with each
    element that is only live before the first patched one that it preceded."""
    patches: list[Json] = []
    deleted: set[Any] = set()
    replace = False
    for position, item in enumerate(patch):
        if not isinstance(item, dict | Mapping):
            raise invalid(path.index(position), type(item).__name__, "must be an object")
        directive = item.get(_PATCH)
        if directive == _REPLACE:
            replace = True
        elif item.get(key) is None:
            raise required(path.index(position).child(key), "elements of this list are matched by it")
        elif directive == _DELETE:
            deleted.add(_hashable(item[key]))
        elif directive is not None:
            raise invalid(path.index(position).child(_PATCH), directive, "must be delete or replace")
        else:
            patches.append(item)
    if replace:
        return [_new_value(item) for item in patches]
    names = _keys(live, key, path)
    if deleted:
        live = [item for item, name in zip(live, names, strict=True) if name not in deleted]
        names = [name for name in names if name not in deleted]
    patched_names = {_hashable(item[key]) for item in patches}
    touched = [position for position, name in enumerate(names) if name in patched_names]
    first = {names[position]: position for position in reversed(touched)}
    patched: dict[Any, Any] = {}
    for position, item in enumerate(patches):
        name = _hashable(item[key])
        base = patched.get(name, live[first[name]] if name in first else None)
        patched[name] = (
            _new_value(item) if base is None else strategic_merge(base, item, schema, path.index(position))
        )
    return _ordered(live, names, patched, touched, first)


def _ordered(
    live: Sequence[Any],
    names: Sequence[Any],
    patched: Mapping[Any, Any],
    touched: Sequence[int],
    first: Mapping[Any, int],
) -> list[Any]:
    """The elements in order; `touched`: patched positions in `live`, `first`: the first of them by name."""
    repeated: dict[Any, list[Any]] = {}
    for position in touched:
        if position != first[names[position]]:
            repeated.setdefault(names[position], []).append(live[position])
    live_only = [item for item, name in zip(live, names, strict=True) if name not in patched]
    result: list[Any] = []
    waiting = 0
    for name, item in patched.items():
        if name in first:
            preceding = first[name] - bisect_left(touched, first[name])
            result += live_only[waiting:preceding]
            waiting = max(waiting, preceding)
        result += [item, *repeated.get(name, ())]
    return result + live_only[waiting:]


def _keys(items: Sequence[Any], key: str, path: FieldPath) -> list[Any]:
    """The merge key of each item; fast for valid items, because lists may be very long."""
    try:
        keys = [item[key] for item in items]
        if None not in keys:
            return keys if _HASHABLE.issuperset(map(type, keys)) else [_hashable(value) for value in keys]
    except (IndexError, KeyError, TypeError):
        pass
    return [_hashable(_key_of(item, key, path)) for item in items]


def _retained(live: Json, patch: Json, path: FieldPath) -> dict[str, Any]:
    """A copy of `live`, without what `$retainKeys` does not list."""
    listed = patch.get(_RETAIN_KEYS)
    if listed is None:
        return dict(live)
    if not isinstance(listed, list | tuple):
        raise invalid(path.child(_RETAIN_KEYS), type(listed).__name__, "must be a list")
    for name in patch:
        if name != _RETAIN_KEYS and name not in listed:
            raise invalid(path.child(_RETAIN_KEYS), list(listed), f"must list {name}, which the patch sets")
    return {name: value for name, value in live.items() if name in listed}


def _new_value(value: Any) -> Any:
    """The patch as a new value: without nulls and directives."""
    if type(value) in _HASHABLE or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_new_value(item) for item in value if not _deletes(item)]
    if isinstance(value, dict | Mapping):
        return {
            name: _new_value(item)
            for name, item in value.items()
            if item is not None and name not in (_PATCH, _RETAIN_KEYS)
        }
    return value


def _deletes(item: Any) -> bool:
    return type(item) not in _HASHABLE and isinstance(item, dict | Mapping) and item.get(_PATCH) == _DELETE


def _key_of(item: Any, key: str, path: FieldPath) -> Any:
    if not isinstance(item, Mapping) or item.get(key) is None:
        raise required(path.child(key), "elements of this list are matched by it")
    return item[key]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else repr(value)


_HASHABLE: Final = frozenset({str, int, float, bool})
_PLAIN: Final = Schema()

CONTAINER: Final = Schema(
    merge_keys={
        "env": "name",
        "ports": "containerPort",
        "volumeDevices": "devicePath",
        "volumeMounts": "mountPath",
    },
)

POD_SPEC: Final = Schema(
    fields={"containers": CONTAINER, "initContainers": CONTAINER, "ephemeralContainers": CONTAINER},
    merge_keys={
        "containers": "name",
        "ephemeralContainers": "name",
        "hostAliases": "ip",
        "imagePullSecrets": "name",
        "initContainers": "name",
        "resourceClaims": "name",
        "schedulingGates": "name",
        "topologySpreadConstraints": "topologyKey",
        "volumes": "name",
    },
)

POD: Final = Schema(fields={"spec": POD_SPEC})
"""core/v1 Pod, and every pod template."""

WORKLOAD: Final = Schema(fields={"spec": Schema(fields={"template": POD})})
"""apps/v1 Deployment, batch/v1 Job, and whatever else has `spec.template`."""

JOBSET_SPEC: Final = Schema(
    fields={"replicatedJobs": Schema(fields={"template": WORKLOAD})},
    merge_keys={"replicatedJobs": "name"},
)
"""jobset.x-k8s.io/v1alpha2 JobSetSpec. Its volumes have no retainKeys, as in Trainer v2.3."""
