"""Settings of storage: a StorageClass for each role that the catalog's claims name."""

from enum import StrEnum

from pydantic import Field, model_validator

from trainyard_api.names import StorageRole
from trainyard_api.strict import StrictModel


class ReclaimPolicy(StrEnum):
    """What happens to a volume whose claim is deleted: Kubernetes' reclaim policy."""

    DELETE = "Delete"
    RETAIN = "Retain"


class VolumeBindingMode(StrEnum):
    """When a volume is provisioned: Kubernetes' volume binding mode."""

    IMMEDIATE = "Immediate"
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class StorageClass(StrictModel):
    """StorageClass of a role: an existing one, or one that the platform creates."""

    class_name: str | None = Field(default=None, min_length=1)
    """Name of an existing StorageClass."""
    provisioner: str | None = Field(default=None, min_length=1)
    """Provisioner of the StorageClass that the platform creates, such as efs.csi.aws.com."""
    parameters: dict[str, str] = Field(default={})
    """Parameters of the provisioner."""
    mount_options: tuple[str, ...] = ()
    """Mount options of the volumes."""
    reclaim_policy: ReclaimPolicy = ReclaimPolicy.DELETE
    """What happens to a volume when its job is deleted."""
    volume_binding_mode: VolumeBindingMode = VolumeBindingMode.WAIT_FOR_FIRST_CONSUMER
    """WaitForFirstConsumer provisions a volume in the zone of its first pod."""
    allow_volume_expansion: bool = True
    """Whether a claim may be enlarged later."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "StorageClass":
        if (self.class_name is None) is (self.provisioner is None):
            raise ValueError("needs either className, of an existing StorageClass, or provisioner")
        if self.class_name is not None and self.model_fields_set != {"class_name"}:
            raise ValueError("an existing StorageClass stays as it is: remove the keys besides className")
        return self


class ObjectStore(StrictModel):
    """An object store with the S3 API, other than Amazon's."""

    endpoint: str = Field(pattern=r"^https?://\S+[^/]$")
    """URL of the object store."""
    region: str | None = Field(default=None, min_length=1)
    """Region of the object store, if it has one."""


class Storage(StrictModel):
    """The StorageClass of each role. A claim whose role has none gets the cluster's default."""

    shared: StorageClass | None = None
    """Volumes that many nodes write at the same time (ReadWriteMany), for datasets and checkpoints."""
    scratch: StorageClass | None = None
    """Volumes that one node at a time uses, for temporary files."""
    object_store: ObjectStore | None = None
    """Object store for the catalog's initializers and trainers, unless they configure another."""

    def of(self, role: StorageRole) -> StorageClass | None:
        """The stack's settings for a role."""
        return {StorageRole.SHARED: self.shared, StorageRole.SCRATCH: self.scratch}[role]


def class_name(role: StorageRole, settings: StorageClass) -> str:
    """Name of a role's StorageClass: an existing one, or the platform's."""
    return settings.class_name or f"trainyard-{role}"
