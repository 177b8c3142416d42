"""Settings of the data cache: what a runtime needs to stream a table to its trainers."""

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import ComputeResources, Image, PullPolicy

ACCOUNT = "kubeflow-trainer-cache-initializer"
"""ServiceAccount that Kubeflow Trainer's runtime with a cache runs its initializer as."""


class DataCache(StrictModel):
    """LeaderWorkerSet, which runs a cache, and in each tenant's namespace the right to start one."""

    enabled: bool = False
    """True installs it; without it, runtimes that start a cache are not rolled out."""
    image: Image | None = None
    """Image of LeaderWorkerSet's controller; the pinned one from the artifacts' source if left out."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the controller; one leads, the others answer webhooks and wait."""
    resources: ComputeResources = ComputeResources(cpu="100m", memory="256Mi")
    """CPU and memory of a replica."""
