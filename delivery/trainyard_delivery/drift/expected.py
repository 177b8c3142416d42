"""The objects that a stack asks for, exactly as they are sent to the cluster, from Pulumi's own state."""

from __future__ import annotations

from typing import Final

from trainyard_api.json_types import Json, JsonValue
from trainyard_platform.errors import PlatformError

from .. import pulumi_state

_SECRET: Final = "4dabf18193072939515e22adb298388d"  # noqa: S105 - marks what a state keeps encrypted


def objects(state: Json) -> tuple[dict[str, JsonValue], ...]:
    """The manifests in an export of a stack, in its order, with the annotations that Pulumi reads.

    Raises `PlatformError` if a value is encrypted: there is nothing to compare with.
    """
    return tuple(map(_manifest, pulumi_state.objects(state)))


def _manifest(resource: Json) -> dict[str, JsonValue]:
    if _is_encrypted(resource["inputs"]):
        urn = resource["urn"]
        raise PlatformError(f"{urn}: one of its values is secret, so it cannot be compared with the cluster")
    return pulumi_state.inputs(resource)


def _is_encrypted(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return _SECRET in value or any(_is_encrypted(item) for item in value.values())
    return isinstance(value, list) and any(_is_encrypted(item) for item in value)
