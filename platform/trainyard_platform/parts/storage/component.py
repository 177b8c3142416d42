"""The StorageClasses that the platform creates for the roles of the catalog's claims.

A StorageClass never changes: with other settings it is replaced, and volumes
created from the old one stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from ...assembly import Assembly
from ...objects.declare import declare
from ...stack.storage import Storage as Settings
from . import manifests


@dataclass(frozen=True, kw_only=True)
class StorageArgs:
    """What the stack says about storage."""

    storage: Settings
    after: Sequence[pulumi.Resource] = ()


class Storage(pulumi.ComponentResource):
    """Declares the StorageClasses."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Storage", name, {}, opts)
        for manifest in manifests.storage_classes(args.storage):
            declare(manifest, pulumi.ResourceOptions(parent=self, depends_on=list(args.after)))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the StorageClasses that the platform creates."""
    assembly.add(Storage("storage", StorageArgs(storage=assembly.stack.storage), assembly.options))
