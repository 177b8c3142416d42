"""Settings of the data cache: what a runtime needs to stream a table to its trainers."""

from pydantic import Field

from trainyard_api.strict import StrictModel

from .value_types import ComputeResources, Image, PullPolicy

GROUP = "leaderworkerset.x-k8s.io"
"""API group of LeaderWorkerSets."""
ACCOUNT = "kubeflow-trainer-cache-initializer"
"""ServiceAccount that Kubeflow Trainer's runtime with a cache runs its initializer as."""


class DataCache(StrictModel):
    """LeaderWorkerSet, which runs data caches, and the right to start a cache in each tenant's namespace."""

    enabled: bool = False
    """Whether the stack installs LeaderWorkerSet. If not, it leaves out runtimes that start a cache."""
    initializer_image: Image | None = None
    """Image that starts a cache. It replaces the image in the runtime's file. Default: the image
    `initializers` in `artifacts.images`."""
    cache_image: Image | None = None
    """Image of the cache. It replaces the image in the runtime's file. Default: the image `data-cache` in
    `artifacts.images`."""
    image: Image | None = None
    """Image of LeaderWorkerSet's controller. Default: the pinned image, from the source in `artifacts`."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=3)
    """Replicas of the controller. One is the leader; the others answer webhooks and are on standby."""
    resources: ComputeResources = ComputeResources(cpu="100m", memory="256Mi")
    """CPU and memory of each replica."""
