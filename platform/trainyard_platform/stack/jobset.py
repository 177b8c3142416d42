"""Settings of JobSet."""

from typing import Any

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import ComputeResources, Image, PullPolicy


class JobSet(StrictModel):
    """JobSet's controller. The operator turns each TrainJob into a JobSet."""

    enabled: bool = True
    """Whether the stack installs JobSet. If not, the cluster must already have JobSet and its CRDs."""
    image: Image | None = None
    """Image of the controller. Default: the pinned image, from the source in `artifacts`."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the controller. One is the leader; the others answer webhooks and are on standby."""
    resources: ComputeResources = ComputeResources(cpu="250m", memory="512Mi")
    """CPU and memory of each replica."""
    values: dict[str, Any] = Field(default={})
    """Further values of upstream's Helm chart. Values that the platform sets take precedence."""
