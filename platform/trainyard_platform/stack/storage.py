"""Settings of storage: what a stack has for each of the roles that claims of the catalog name."""

from enum import StrEnum

from pydantic import Field, model_validator

from trainyard_api.names import StorageRole
from trainyard_api.strict import StrictModel


class ReclaimPolicy(StrEnum):
    """What becomes of a volume whose claim is gone, in Kubernetes' words."""

    DELETE = "Delete"
    RETAIN = "Retain"


class VolumeBindingMode(StrEnum):
    """When a volume is made, in Kubernetes' words."""

    IMMEDIATE = "Immediate"
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class StorageClass(StrictModel):
    """Where the volumes of a role come from: a StorageClass that is there, or one that the platform makes."""

    class_name: str | None = Field(default=None, min_length=1)
    """A StorageClass of the cluster."""
    provisioner: str | None = Field(default=None, min_length=1)
    """Who makes the volumes of the platform's own StorageClass, such as efs.csi.aws.com."""
    parameters: dict[str, str] = Field(default={})
    """What the provisioner is told."""
    mount_options: tuple[str, ...] = ()
    """How nodes mount the volumes."""
    reclaim_policy: ReclaimPolicy = ReclaimPolicy.DELETE
    """What becomes of a volume when its job is deleted."""
    volume_binding_mode: VolumeBindingMode = VolumeBindingMode.WAIT_FOR_FIRST_CONSUMER
    """WaitForFirstConsumer makes a volume where its first pod goes."""
    allow_volume_expansion: bool = True
    """Whether a claim may grow later."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "StorageClass":
        if (self.class_name is None) is (self.provisioner is None):
            raise ValueError("needs either className, of an existing StorageClass, or provisioner")
        if self.class_name is not None and self.model_fields_set != {"class_name"}:
            raise ValueError("an existing StorageClass stays as it is: remove the keys besides className")
        return self


class ObjectStore(StrictModel):
    """The S3 that jobs talk to, where it is not Amazon's."""

    endpoint: str = Field(pattern=r"^https?://\S+[^/]$")
    """Its address."""
    region: str | None = Field(default=None, min_length=1)
    """Its region, if it has any."""


class Storage(StrictModel):
    """What there is for each role; a claim whose role has no entry gets the default StorageClass."""

    shared: StorageClass | None = None
    """Volumes that many nodes write at once (ReadWriteMany): datasets and checkpoints."""
    scratch: StorageClass | None = None
    """Volumes of one node at a time: what is fetched or computed once and thrown away."""
    object_store: ObjectStore | None = None
    """Told to initializers and trainers of the catalog, unless they say something else themselves."""

    def of(self, role: StorageRole) -> StorageClass | None:
        """The stack's settings for a role."""
        return {StorageRole.SHARED: self.shared, StorageRole.SCRATCH: self.scratch}[role]


def class_name(role: StorageRole, settings: StorageClass) -> str:
    """The StorageClass of a role: the cluster's own, or the platform's."""
    return settings.class_name or f"trainyard-{role}"
