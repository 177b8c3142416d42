"""Field ownership: metadata.managedFields, rewritten so that the platform owns all fields.

Server-side apply removes only fields that its own manager applied before and no
longer applies. It leaves what others own, so `pulumi up` would end with a
mixture of two installations: the fields change their owner first. The values
do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json

from . import model

_STAY: Final = frozenset({"trainyard", "cert-manager-cainjector", model.WEBHOOK_MANAGER})
"""Managers that keep their fields: our operator, who writes a webhook's CA bundle, and `LetPass`."""


def handed_over(managed_fields: Sequence[Json]) -> tuple[Json, ...]:
    """The entries, with those of others merged into one of the platform; those of subresources stay.

    The merged entry has the latest of their times: runtimes are dated by it,
    and no value is newer than before.
    """
    theirs = [entry for entry in managed_fields if not _stays(entry)]
    rest = [entry for entry in managed_fields if _stays(entry)]
    fields: Json = {}
    for entry in theirs:
        fields = _united(fields, entry.get("fieldsV1") or {})
    own: dict[str, Any] = {
        "manager": names.PLATFORM_MANAGER,
        "operation": "Apply",
        "apiVersion": theirs[-1]["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if times := [entry["time"] for entry in theirs if entry.get("time")]:
        own["time"] = max(times)
    return (own, *rest)


def owners(managed_fields: Sequence[Json]) -> tuple[str, ...]:
    """The managers other than the platform that own fields, each once; subresources do not count."""
    return tuple(
        dict.fromkeys(
            entry.get("manager") or "somebody"
            for entry in managed_fields
            if not _stays(entry)
            and (entry.get("manager"), entry.get("operation")) != (names.PLATFORM_MANAGER, "Apply")
        )
    )


def _stays(entry: Json) -> bool:
    return bool(entry.get("subresource")) or entry.get("manager") in _STAY


def _united(first: Json, second: Json) -> Json:
    both = {
        key: _united(first[key], second[key])
        for key in first
        if key in second and isinstance(first[key], Mapping) and isinstance(second[key], Mapping)
    }
    return {**first, **second, **both}
