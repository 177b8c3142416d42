"""What a stack tells the rules about itself: `policies.parameters` in a stack file, or a pack's config.

Closed and typed: a key that does not exist is an error with its path, in a
stack file as in `--policy-pack-config`.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from trainyard_api import names

Quantity = Annotated[
    str,
    Field(
        pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
        description="A Kubernetes quantity, such as 500m or 2Gi.",
    ),
]


class Model(BaseModel):
    """Base of every part: closed, immutable, camelCase in YAML."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class Taint(Model):
    """A taint of a pool's nodes, in Kubernetes' words."""

    key: str = Field(min_length=1)
    """Its key, such as nvidia.com/gpu."""
    value: str = ""
    """Its value."""
    effect: str = Field(default="NoSchedule", pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")
    """NoSchedule, PreferNoSchedule or NoExecute."""


class Pool(Model):
    """Nodes of one make that training may land on."""

    name: str = Field(min_length=1)
    """Name of the pool, for messages."""
    labels: dict[str, str] = {}
    """Labels that each of its nodes has."""
    taints: tuple[Taint, ...] = ()
    """Taints that each of its nodes has."""
    adds_tolerations: bool = False
    """True where its pods get tolerations on the way, from Kueue's flavor or an admission plug-in."""
    resources: dict[str, Quantity] = {}
    """What one of its nodes offers, by resource name, such as nvidia.com/gpu: "8"."""


class Parameters(Model):
    """What the rules compare manifests with."""

    registries: tuple[str, ...] = (
        "docker.io",
        "ghcr.io",
        "mcr.microsoft.com",
        "nvcr.io",
        "public.ecr.aws",
        "quay.io",
        "registry.k8s.io",
    )
    """Registries, or prefixes in them such as ghcr.io/example, that images may come from."""
    max_nodes: int | None = Field(default=None, ge=1)
    """The most nodes that a runtime or a TrainJob may ask for; no bound if left out."""
    max_resources: dict[str, Quantity] = {}
    """The most that one training node may ask for, by resource name; no bound for those left out."""
    pools: tuple[Pool, ...] = ()
    """The pools of nodes; without any, nothing is compared with them."""
    exceptions_in: tuple[str, ...] = (names.CLUSTER_TRAINING_RUNTIME,)
    """Kinds whose annotations may make exceptions: those that are written by review, not by their users."""
