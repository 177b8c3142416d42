"""The StorageClasses that the platform creates for the roles of the catalog's claims.

The API server refuses to change most fields of a StorageClass. With other
settings it is therefore replaced, and volumes created from the old one stay as
they are. The provider does so itself for `provisioner` and `parameters` alone.
"""

import pulumi

from ...assembly import Assembly
from ...objects.declare import declare
from ...stack.storage import Storage as Settings
from . import manifests


class Storage(pulumi.ComponentResource):
    """Declares the StorageClasses."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions, *, settings: Settings) -> None:
        super().__init__("trainyard:platform:Storage", name, {}, opts)
        for manifest in manifests.storage_classes(settings):
            # The name stays the same: a new one can only follow the old one.
            declare(
                manifest,
                pulumi.ResourceOptions(
                    parent=self,
                    replace_on_changes=["reclaimPolicy", "volumeBindingMode"],
                    delete_before_replace=True,
                ),
            )
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the StorageClasses that the platform creates."""
    assembly.add(Storage("storage", assembly.options, settings=assembly.stack.storage))
