"""Settings of Volcano."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import REGISTRY, ComputeResources, PullPolicy


class Volcano(StrictModel):
    """Volcano's scheduler, controllers and webhooks."""

    enabled: bool = False
    """Whether the stack installs Volcano."""
    image_registry: str | None = Field(default=None, pattern=REGISTRY)
    """Registry of Volcano's images, with an optional prefix. Default: docker.io, or your mirror of it."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the images."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of each of Volcano's Deployments. One scheduler and one controller are active."""
    resources: ComputeResources = ComputeResources(cpu="100m", memory="512Mi")
    """CPU and memory of each replica."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's Helm chart. Values that the platform sets take precedence."""
