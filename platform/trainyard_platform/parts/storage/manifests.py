"""From a stack's storage to its StorageClasses: pure."""

from trainyard_api.json_types import Manifest
from trainyard_api.names import StorageRole

from ...stack.storage import Storage, StorageClass, class_name


def storage_classes(storage: Storage) -> list[Manifest]:
    """The StorageClasses that the platform creates."""
    return [
        _storage_class(role, settings)
        for role in StorageRole
        if (settings := storage.of(role)) and settings.provisioner
    ]


def _storage_class(role: StorageRole, settings: StorageClass) -> Manifest:
    optional = {"parameters": dict(settings.parameters), "mountOptions": list(settings.mount_options)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": class_name(role, settings)},
        "provisioner": settings.provisioner,
        "reclaimPolicy": str(settings.reclaim_policy),
        "volumeBindingMode": str(settings.volume_binding_mode),
        "allowVolumeExpansion": settings.allow_volume_expansion,
        **{key: value for key, value in optional.items() if value},
    }
