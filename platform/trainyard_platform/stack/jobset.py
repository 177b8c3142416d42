"""Settings of JobSet."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import ComputeResources, Image, PullPolicy


class JobSet(StrictModel):
    """JobSet's controller, which runs what a TrainJob becomes."""

    enabled: bool = True
    """False: the cluster has JobSet already, with its CRDs, and whoever installed it keeps it."""
    image: Image | None = None
    """Its image; the pinned one from the artifacts' source if left out."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the controller; one leads, the others answer webhooks and wait."""
    resources: ComputeResources = ComputeResources(cpu="250m", memory="512Mi")
    """CPU and memory of a replica."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's chart; what the platform states there itself stands."""
