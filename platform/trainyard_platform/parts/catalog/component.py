"""The catalog's ClusterTrainingRuntimes, one resource each.

They are data that a TrainJob refers to: deleting one, as `destroy` does, stops
no job that has started, because a job keeps the revision it started with.
"""

from collections.abc import Mapping, Sequence
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


class Catalog(pulumi.ComponentResource):
    """Installs the runtimes."""

    runtimes: list[str]

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        runtimes: Sequence[Runtime],
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Catalog", name, {}, opts)
        for runtime in runtimes:
            declare(
                {**runtime.manifest, "metadata": _metadata(runtime.manifest["metadata"])},
                pulumi.ResourceOptions(parent=self, depends_on=after),
                runtime.name,
            )
        self.runtimes = [runtime.name for runtime in runtimes]
        self.register_outputs({"runtimes": self.runtimes})


def install(assembly: Assembly) -> None:
    """Install the stack's runtimes."""
    after = assembly.after(Crds, JobSet, Storage, PolicyRules)
    catalog = assembly.add(Catalog("catalog", assembly.options, runtimes=assembly.runtimes, after=after))
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
