"""Tolerations, of flavors and of pods."""

from enum import StrEnum

from pydantic import model_validator

from trainyard_api.pools import TaintEffect
from trainyard_api.strict import Key, LabelValue, StrictModel


class TolerationOperator(StrEnum):
    """How a toleration matches the value of a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class Toleration(StrictModel):
    """A toleration of pods."""

    key: Key
    """Key of the taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Equal compares the taint's value; Exists accepts any value."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: TaintEffect | None = None
    """Effect of the taint. Default: every effect."""

    @model_validator(mode="after")
    def _values_are_compared(self) -> "Toleration":
        if self.operator is TolerationOperator.EXISTS and self.value:
            raise ValueError(
                f"operator {self.operator} has no use for the value {self.value!r}: remove one of the two"
            )
        return self
