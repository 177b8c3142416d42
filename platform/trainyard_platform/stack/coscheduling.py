"""Settings of coscheduling."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import REGISTRY, ComputeResources


class Coscheduling(StrictModel):
    """Coscheduling of scheduler-plugins: a second scheduler, and the controller of its PodGroups."""

    enabled: bool = False
    """Whether the stack installs coscheduling."""
    image_repository: str | None = Field(default=None, pattern=REGISTRY)
    """Repository of the images `kube-scheduler` and `controller`. Default: upstream's, or your mirror."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the scheduler and of the controller. One of each is active."""
    resources: ComputeResources = ComputeResources(cpu="100m", memory="256Mi")
    """CPU and memory of each replica."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's Helm chart. Values that the platform sets take precedence."""
