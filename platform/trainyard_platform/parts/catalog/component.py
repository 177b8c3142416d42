"""The catalog's ClusterTrainingRuntimes, one resource each.

They are data that a TrainJob refers to: deleting one, as `destroy` does, stops
no job that has started, because a job keeps the revision it started with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainyard_api import names

from ...assembly import Assembly
from ...catalog.files import Runtime
from ...objects.annotations import KEPT
from ...objects.declare import declare
from ..crds.component import Crds
from ..jobset.component import JobSet
from ..policies.component import PolicyRules
from ..storage.component import Storage


@dataclass(frozen=True, kw_only=True)
class CatalogArgs:
    """The runtimes as the stack wants them."""

    runtimes: Sequence[Runtime]
    after: Sequence[pulumi.Resource] = ()


class Catalog(pulumi.ComponentResource):
    """Installs the runtimes."""

    runtimes: list[str]

    def __init__(self, name: str, args: CatalogArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Catalog", name, {}, opts)
        for runtime in args.runtimes:
            declare(
                {**runtime.manifest, "metadata": _metadata(runtime.manifest["metadata"])},
                pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
                runtime.name,
            )
        self.runtimes = [runtime.name for runtime in args.runtimes]
        self.register_outputs({"runtimes": self.runtimes})


def install(assembly: Assembly) -> None:
    """Install the stack's runtimes."""
    args = CatalogArgs(runtimes=assembly.runtimes, after=assembly.after(Crds, JobSet, Storage, PolicyRules))
    catalog = assembly.add(Catalog("catalog", args, assembly.options))
    pulumi.export("runtimes", catalog.runtimes)


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that lets a runtime pass the webhook, and takes over one of Kubeflow Trainer's.

    The catalog is checked before it is applied; an `up` that repairs a broken
    operator must not wait for that operator's webhook first. Trainer ships its
    own runtimes with this label, under names that the catalog also has.
    """
    return {
        **metadata,
        "labels": {**metadata["labels"], names.WEBHOOK_VALIDATION_LABEL: "disabled"},
        "annotations": {**metadata.get("annotations", {}), **KEPT},
    }
