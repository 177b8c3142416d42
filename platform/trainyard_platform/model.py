"""Values that many parts of the settings have.

Parts that belong together have a module of their own beside this one; all of
them meet in `settings`.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainyard_api.closed import Closed, Quantity

IMAGE = r"^([a-z0-9.-]+\.[a-z0-9-]+|localhost)(:[0-9]+)?/[^\s]+(:[^\s/]+|@sha256:[0-9a-f]{64})$"
Image = Annotated[
    str,
    Field(
        pattern=IMAGE,
        description="An image with its registry and its tag or digest: docker.io/library/busybox:1.37.",
    ),
]

OBJECT = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
KEY = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
VALUE = r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$"
NAME_WORDS = {
    OBJECT: "must be the name of an object: small letters, digits, hyphens and dots, such as registry.vision",
    KEY: "must be the key of a label or an annotation, such as cost-center or example.com/cost-center",
    VALUE: "must be a label's value: at most 63 letters, digits, hyphens, underscores and dots",
}

ObjectName = Annotated[str, Field(pattern=OBJECT)]
Key = Annotated[str, Field(pattern=KEY)]
LabelValue = Annotated[str, Field(pattern=VALUE)]
Labels = dict[Key, LabelValue]
Annotations = dict[Key, str]


class PullPolicy(StrEnum):
    """When a node pulls an image, in Kubernetes' words."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class ComputeResources(Closed):
    """CPU and memory of a controller's container."""

    cpu: Quantity
    """Requested CPU; a controller has no CPU limit, which would only slow it down."""
    memory: Quantity
    """Requested memory, and its limit."""
