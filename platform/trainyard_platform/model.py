"""What every part of the settings is made of: the base class, and values that many parts have.

Parts that belong together have a module of their own beside this one; all of
them meet in `settings`.
"""

import difflib
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
Quantity = Annotated[str, Field(pattern=QUANTITY, description="A Kubernetes quantity, such as 500m or 2Gi.")]
IMAGE = r"^([a-z0-9.-]+\.[a-z0-9-]+|localhost)(:[0-9]+)?/[^\s]+(:[^\s/]+|@sha256:[0-9a-f]{64})$"
Image = Annotated[
    str,
    Field(
        pattern=IMAGE,
        description="An image with its registry and its tag or digest: docker.io/library/busybox:1.37.",
    ),
]


class PullPolicy(StrEnum):
    """When a node pulls an image, in Kubernetes' words."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Settings(BaseModel):
    """Base of every part: closed, immutable, camelCase in YAML."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class ComputeResources(Settings):
    """CPU and memory of a controller's container."""

    cpu: Quantity
    """Requested CPU; a controller has no CPU limit, which would only slow it down."""
    memory: Quantity
    """Requested memory, and its limit."""


def nearest(name: str, allowed: Sequence[str]) -> str:
    """`; did you mean 'x'?` if one of the allowed names is near, else nothing."""
    close = difflib.get_close_matches(name, allowed, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
