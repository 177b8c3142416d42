"""The StorageClasses that the platform creates for the roles of the catalog's claims.

A StorageClass never changes: with other settings it is replaced, and volumes
created from the old one stay as they are.
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
            declare(manifest, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the StorageClasses that the platform creates."""
    assembly.add(Storage("storage", assembly.options, settings=assembly.stack.storage))
