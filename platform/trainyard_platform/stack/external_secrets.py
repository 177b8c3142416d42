"""Secrets that a store outside the cluster holds, by reference: no value is in git or in a state.

The External Secrets Operator, which the cluster has already, fetches them and
keeps them up to date. Source: external-secrets.io/v1, ExternalSecret.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from trainyard_api.strict import StrictModel

from .value_types import ObjectName

KEY = r"^[-._a-zA-Z0-9]{1,253}$"
KEY_WORDS = {KEY: "must be a key of a Secret: letters, digits, dots, hyphens and underscores"}
SecretKey = Annotated[str, Field(pattern=KEY)]


class StoreKind(StrEnum):
    """Who may use a store: its namespace, or the whole cluster."""

    CLUSTER = "ClusterSecretStore"
    NAMESPACE = "SecretStore"


class Store(StrictModel):
    """Where a secret comes from."""

    kind: StoreKind = StoreKind.CLUSTER
    """Whether the store is the cluster's, or one of the namespace that the Secret is in."""
    name: ObjectName
    """Its name."""


class Reference(StrictModel):
    """One value in a store."""

    key: str = Field(min_length=1)
    """The secret there, in the store's words."""
    property: str | None = Field(default=None, min_length=1)
    """Which field of it; the whole if left out."""


class ExternalSecret(StrictModel):
    """A Secret that is made of what a store holds."""

    store: Store
    """Which store."""
    key: str | None = Field(default=None, min_length=1)
    """A secret of the store, each of whose fields becomes a key."""
    data: dict[SecretKey, Reference] = Field(default={})
    """Keys, each with where its value is."""
    type: str = Field(default="Opaque", min_length=1)
    """Its type, such as kubernetes.io/dockerconfigjson."""
    refresh_interval: str = Field(default="1h", pattern=r"^([0-9]+(h|m|s))+$")
    """How often the store is asked anew."""

    @model_validator(mode="after")
    def _one_way(self) -> "ExternalSecret":
        if (self.key is None) is not bool(self.data):
            raise ValueError("needs either `key`, which uses all fields of a secret, or `data`")
        return self
