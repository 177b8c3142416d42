"""Values that many parts of the settings have.

Those of one section are in its module; all of them meet in `settings`.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from trainyard_api.strict import Quantity, StrictModel

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

DURATION = r"^([0-9]+(h|m|s))+$"
Duration = Annotated[str, Field(pattern=DURATION, description="A duration, such as 30m or 1h30m.")]

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


class ComputeResources(StrictModel):
    """CPU and memory of a controller's container."""

    cpu: Quantity
    """Requested CPU; a controller has no CPU limit, which would only slow it down."""
    memory: Quantity
    """Requested memory, and its limit."""


class SelectorOperator(StrEnum):
    """How a label selector's expression compares, in Kubernetes' words."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorExpression(StrictModel):
    """One requirement of a label selector."""

    key: str = Field(min_length=1)
    """The label."""
    operator: SelectorOperator
    """How its value compares."""
    values: tuple[str, ...] = ()
    """What it is compared with."""

    @model_validator(mode="after")
    def _values_where_they_belong(self) -> "SelectorExpression":
        needs = self.operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
        if needs is not bool(self.values):
            raise ValueError(f"operator {self.operator} {'needs' if needs else 'has no use for'} values")
        return self


class LabelSelector(StrictModel):
    """A label selector; with nothing in it, it selects everything."""

    match_labels: dict[str, str] = Field(default={})
    """Labels that must have these values."""
    match_expressions: tuple[SelectorExpression, ...] = ()
    """Requirements that must all hold."""

    def manifest(self) -> dict[str, object]:
        """The selector as Kubernetes expects it, without empty fields."""
        return self.model_dump(by_alias=True, mode="json", exclude_defaults=True)
