"""Settings of Volcano."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import ComputeResources, PullPolicy


class Volcano(StrictModel):
    """Volcano's scheduler, controllers and webhooks."""

    enabled: bool = False
    """True installs it."""
    image_registry: str | None = Field(default=None, pattern=r"^[^\s:/]+(:[0-9]+)?(/[^\s]+[^/])?$")
    """Registry of its images, with a prefix if need be; docker.io or the mirror of it if left out."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the images."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of each of the three; of scheduler and controllers one leads and the others wait."""
    resources: ComputeResources = ComputeResources(cpu="100m", memory="512Mi")
    """CPU and memory of a replica."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's chart; what the platform states there itself stands."""
