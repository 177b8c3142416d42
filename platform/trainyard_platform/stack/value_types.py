"""Types of values that several sections of the settings share.

The types of one section are in its module; `settings` combines all sections.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from trainyard_api.strict import KEY, VALUE, Key, LabelValue, Quantity, StrictModel

IMAGE = r"^([a-z0-9.-]+\.[a-z0-9-]+|localhost)(:[0-9]+)?/[^\s]+(:[^\s/]+|@sha256:[0-9a-f]{64})$"
Image = Annotated[
    str,
    Field(
        pattern=IMAGE,
        examples=["docker.io/library/busybox:1.37"],
    ),
]

REGISTRY = r"^[^\s:/]+(:[0-9]+)?(/[^\s]+[^/])?$"
"""A registry, or a repository in it, without a scheme."""

OBJECT = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
NAME_WORDS = {
    OBJECT: "must be the name of an object: small letters, digits, hyphens and dots, such as registry.vision",
    KEY: "must be the key of a label or an annotation, such as cost-center or example.com/cost-center",
    VALUE: "must be a label's value: at most 63 letters, digits, hyphens, underscores and dots",
}

DURATION = r"^([0-9]+(h|m|s))+$"
Duration = Annotated[str, Field(pattern=DURATION, examples=["30m", "1h30m"])]

ObjectName = Annotated[str, Field(pattern=OBJECT)]
Labels = dict[Key, LabelValue]
Annotations = dict[Key, str]


class PullPolicy(StrEnum):
    """When a node pulls an image: Kubernetes' imagePullPolicy."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class ComputeResources(StrictModel):
    """CPU and memory of a controller's container."""

    cpu: Quantity
    """CPU request. There is no CPU limit, because a limit would only slow the controller down."""
    memory: Quantity
    """Memory request, and memory limit."""


class SelectorOperator(StrEnum):
    """Operator of a label selector's expression, as in Kubernetes."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorExpression(StrictModel):
    """One requirement of a label selector."""

    key: str = Field(min_length=1)
    """Key of the label."""
    operator: SelectorOperator
    """How the label's value is compared with `values`."""
    values: tuple[str, ...] = ()
    """Values for the operators In and NotIn."""

    @model_validator(mode="after")
    def _values_where_they_belong(self) -> "SelectorExpression":
        needs = self.operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
        if needs is not bool(self.values):
            raise ValueError(f"operator {self.operator} {'needs' if needs else 'has no use for'} values")
        return self


class LabelSelector(StrictModel):
    """A label selector. An empty one selects everything."""

    match_labels: dict[str, str] = Field(default={})
    """Labels that must have these values."""
    match_expressions: tuple[SelectorExpression, ...] = ()
    """Requirements that must all hold."""

    def manifest(self) -> dict[str, object]:
        """The selector as Kubernetes expects it, without empty fields."""
        return self.model_dump(by_alias=True, mode="json", exclude_defaults=True)
