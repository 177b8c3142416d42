"""What a stack changes in a runtime of the catalog."""

from enum import StrEnum

from pydantic import Field, model_validator

from trainyard_api.pools import TaintEffect
from trainyard_api.strict import Quantity, StrictModel

from .value_types import Image, PullPolicy


class TolerationOperator(StrEnum):
    """How a toleration compares a taint's value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class Toleration(StrictModel):
    """A taint that does not keep the pods off."""

    key: str = Field(min_length=1)
    """Key of the taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Exists takes any value of the taint, Equal the one named."""
    value: str | None = None
    """Value of the taint."""
    effect: TaintEffect | None = None
    """Effect of the taint; any if left out."""


class Placement(StrictModel):
    """How close to each other Kueue puts the pods: a level of the pool's topology, by its label."""

    required: str | None = Field(default=None, min_length=1)
    """All within one domain of this level; the job waits until one has room."""
    preferred: str | None = Field(default=None, min_length=1)
    """Within one domain of this level where one has room, else within as few as can be."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "Placement":
        if (self.required is None) is (self.preferred is None):
            raise ValueError("needs one of the keys 'required' and 'preferred'")
        return self


class RuntimeOverlay(StrictModel):
    """What a stack changes in one runtime of the catalog."""

    enabled: bool | None = None
    """Whether this stack installs it; if left out it does, unless the file calls itself optional."""
    image: Image | None = None
    """Image of the trainer's containers, taken as it is: neither pinned nor mirrored."""
    image_pull_policy: PullPolicy | None = None
    """When nodes pull that image."""
    env: dict[str, str] = Field(default={})
    """Environment variables of the trainer's containers; they win over the catalog's of the same name."""
    resources: dict[str, Quantity] = Field(default={})
    """Requests and limits of the trainer's containers, by resource name, such as nvidia.com/gpu; "0" takes
    away what the catalog asks for."""
    node_selector: dict[str, str] = Field(default={})
    """Labels that the trainer's nodes must have, beside the catalog's."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the trainer's pods tolerate, beside the catalog's."""
    topology: Placement | None = None
    """How close together Kueue puts the trainer's pods, instead of what the catalog says."""
