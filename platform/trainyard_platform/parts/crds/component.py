"""The CustomResourceDefinitions of everything that the platform installs.

They come before everything that uses them and stay when the stack is removed:
with a CRD every object of its kind would be deleted, running jobs included.
Charts are installed without theirs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from trainyard_api import names

from ...artifacts import Artifacts
from ...assembly import Assembly
from ...objects import retention
from ...objects.annotations import KEPT, RETAINED
from ...objects.declare import annotated, declare
from ...stack.observability import MonitoringCrds
from ...stack.settings import StackSettings
from ..kueue import manifests as kueue
from . import pods, runtimes, trainjob

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"


class Crds(pulumi.ComponentResource):
    """Installs CRDs, waits until the API server serves them, never deletes or replaces one."""

    names: list[str]

    def __init__(
        self, name: str, opts: pulumi.ResourceOptions, *, manifests: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__("trainyard:platform:Crds", name, {}, opts)
        self.names = []
        for manifest in manifests:
            metadata = manifest["metadata"]
            annotations = {**KEPT, **RETAINED, "pulumi.com/waitFor": "condition=Established"}
            # Without the status that some of upstream's files have.
            whole = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": manifest["spec"]}
            declare(annotated(whole, annotations), retention.options(self), metadata["name"])
            self.names.append(metadata["name"])
        self.register_outputs({"names": self.names})


def install(assembly: Assembly) -> None:
    """Install the CRDs of everything that the stack installs."""
    manifests = _manifests(assembly.stack, assembly.artifacts)
    assembly.deleted_with = assembly.add(Crds("crds", assembly.options, manifests=manifests))


def _manifests(stack: StackSettings, artifacts: Artifacts) -> list[Mapping[str, Any]]:
    """The CRDs as upstream publishes them, except for the changes of `pods`, `runtimes` and `trainjob`."""
    manifests = [trainjob.with_state(runtimes.changeable(crd)) for crd in artifacts.manifests("trainer")]
    if stack.jobset.enabled:
        manifests += artifacts.manifests("jobset")
    if stack.kueue.installs:
        manifests += kueue.crds(artifacts.manifests("kueue"))
    if stack.volcano.enabled:
        manifests += artifacts.manifests("volcano")
    if stack.data_cache.enabled:
        manifests += artifacts.manifests("lws")
    if stack.observability.enabled and stack.observability.crds is MonitoringCrds.INSTALL:
        manifests += artifacts.manifests("prometheus-operator")
    if stack.coscheduling.enabled:
        manifests += artifacts.manifests(names.SCHEDULER_PLUGINS)
    return [pods.brief(crd) for crd in manifests]
