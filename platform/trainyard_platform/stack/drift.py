"""The section `drift`: foreign objects in the cluster that a stack accepts."""

from __future__ import annotations

from pydantic import Field

from trainyard_api.strict import StrictModel


class Known(StrictModel):
    """An object that affects the platform, is not in git, and is accepted."""

    kind: str = Field(min_length=1)
    """Kind of the object, such as MutatingWebhookConfiguration."""
    name: str = Field(min_length=1)
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object. Default: any namespace, or none for a cluster-scoped object."""
    reason: str = Field(min_length=1)
    """Why the object is accepted, for readers of the stack file."""


class Drift(StrictModel):
    """Settings of `trainyard drift`, which compares the cluster with git."""

    known: list[Known] = Field(default=[])
    """Accepted objects that are not in git but affect the platform. Drift does not report them."""
