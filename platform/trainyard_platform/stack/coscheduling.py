"""Settings of coscheduling."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import ComputeResources


class Coscheduling(StrictModel):
    """The coscheduling plugin of scheduler-plugins: a second scheduler, and its PodGroups' controller."""

    enabled: bool = False
    """True installs it."""
    image_repository: str | None = Field(default=None, pattern=r"^[^\s:/]+(:[0-9]+)?(/[^\s]+[^/])?$")
    """Where its images `kube-scheduler` and `controller` lie; upstream's, or its mirror, if left out."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of both; one leads, the others wait."""
    resources: ComputeResources = ComputeResources(cpu="100m", memory="256Mi")
    """CPU and memory of a replica."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's chart; what the platform states there itself stands."""
