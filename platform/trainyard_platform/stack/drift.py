"""What a stack says of the objects that it does not have and knows of."""

from __future__ import annotations

from pydantic import Field

from trainyard_api.strict import StrictModel


class Known(StrictModel):
    """An object of somebody else's that reaches into the platform, and is to."""

    kind: str = Field(min_length=1)
    """Its kind, such as MutatingWebhookConfiguration."""
    name: str = Field(min_length=1)
    """Its name."""
    namespace: str = ""
    """Its namespace; if left out, any, and an object of the cluster's."""
    reason: str = Field(min_length=1)
    """Why it is to be there, for whoever reads the stack file."""


class Drift(StrictModel):
    """What `trainyard drift` is told."""

    known: list[Known] = Field(default=[])
    """Objects that git does not have and that may reach into the platform: these are not reported."""
