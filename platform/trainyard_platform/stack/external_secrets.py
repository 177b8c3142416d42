"""References to secrets in a store outside the cluster: no value is in git or in Pulumi's state.

The External Secrets Operator, which the cluster must have, fetches the values and
keeps them up to date. Source: external-secrets.io/v1, ExternalSecret.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from trainyard_api.strict import StrictModel

from .value_types import DURATION, ObjectName

KEY = r"^[-._a-zA-Z0-9]{1,253}$"
KEY_WORDS = {KEY: "must be a key of a Secret: letters, digits, dots, hyphens and underscores"}
SecretKey = Annotated[str, Field(pattern=KEY)]


class StoreKind(StrEnum):
    """Kind of a store: for one namespace, or for the whole cluster."""

    CLUSTER = "ClusterSecretStore"
    NAMESPACE = "SecretStore"


class Store(StrictModel):
    """A store of the External Secrets Operator."""

    kind: StoreKind = StoreKind.CLUSTER
    """ClusterSecretStore: a store for all namespaces. SecretStore: a store in the namespace of the Secret."""
    name: ObjectName
    """Name of the store."""


class Reference(StrictModel):
    """One value in a store."""

    key: str = Field(min_length=1)
    """Name of the secret in the store."""
    property: str | None = Field(default=None, min_length=1)
    """Field of that secret. Default: the whole secret."""


class ExternalSecret(StrictModel):
    """A Secret whose values come from a store."""

    store: Store
    """The store to read."""
    key: str | None = Field(default=None, min_length=1)
    """Name of a secret in the store. Each of its fields becomes a key of the Secret."""
    data: dict[SecretKey, Reference] = Field(default={})
    """Keys of the Secret, each with the place of its value in the store."""
    type: str = Field(default="Opaque", min_length=1)
    """Type of the Secret, such as kubernetes.io/dockerconfigjson."""
    refresh_interval: str = Field(default="1h", pattern=DURATION)
    """How often the value is fetched again from the store."""

    @model_validator(mode="after")
    def _one_way(self) -> "ExternalSecret":
        if (self.key is None) is not bool(self.data):
            raise ValueError("needs either `key`, which uses all fields of a secret, or `data`")
        return self
