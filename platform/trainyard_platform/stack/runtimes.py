"""Settings that change a runtime of the catalog."""

from pydantic import Field, model_validator

from trainyard_api.strict import Quantity, StrictModel

from .tolerations import Toleration
from .value_types import Image, PullPolicy


class Placement(StrictModel):
    """How close together Kueue places the pods: a level of the pool's topology, by its node label."""

    required: str | None = Field(default=None, min_length=1)
    """Node label of a topology level. Kueue places all pods in one domain of this level. The job waits until
    a domain has room."""
    preferred: str | None = Field(default=None, min_length=1)
    """Node label of a topology level. If one domain of this level has room, Kueue places all pods in it.
    Otherwise, Kueue uses as few domains as possible."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "Placement":
        if (self.required is None) is (self.preferred is None):
            raise ValueError("needs one of the keys 'required' and 'preferred'")
        return self


class RuntimeOverlay(StrictModel):
    """Changes to one runtime of the catalog."""

    enabled: bool | None = None
    """Whether the stack installs the runtime. Default: true, unless the runtime is marked optional."""
    image: Image | None = None
    """Image of the trainer's containers. It is used unchanged: neither pinned nor mirrored."""
    image_pull_policy: PullPolicy | None = None
    """When nodes pull the image."""
    env: dict[str, str] = Field(default={})
    """Environment variables of the trainer's containers. They take precedence over the catalog's."""
    resources: dict[str, Quantity] = Field(default={})
    """Limits of the trainer's containers, by resource name, such as nvidia.com/gpu. They are the requests
    too. "0" removes a resource of the catalog."""
    node_selector: dict[str, str] = Field(default={})
    """Node labels that the trainer's pods require, in addition to the catalog's."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of the trainer's pods, in addition to the catalog's."""
    topology: Placement | None = None
    """How close together Kueue places the trainer's pods. Replaces the catalog's setting."""
