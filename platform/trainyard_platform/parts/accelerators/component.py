"""The device plugins that tell the kubelet which accelerators a node has.

A plugin runs on the nodes of the pools that have its accelerator. Drivers are
part of the node image: a plugin finds them there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from trainyard_api.pools import NodePool

from ...artifacts import Chart
from ...assembly import Assembly
from ...charts import helm
from ...objects import manifest
from ...objects.declare import declare
from ...stack.accelerators import Accelerator, AcceleratorKind, DevicePlugin, facts
from ...stack.pod_settings import Controllers
from . import manifests

NAMESPACE = "trainyard-accelerators"


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One device plugin."""

    accelerator: Accelerator
    chart: Chart
    image: str


class Accelerators(pulumi.ComponentResource):
    """Installs device plugins."""

    namespaces: Mapping[str, pulumi.Resource] = {}
    """Of the plugins, by name: none without a plugin."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        plugins: Mapping[AcceleratorKind, Plugin],
        pools: Mapping[str, NodePool],
        controllers: Controllers,
    ) -> None:
        super().__init__("trainyard:platform:Accelerators", name, {}, opts)
        if plugins:
            namespace = declare(
                # A device plugin talks to the kubelet through a folder of the node.
                manifest.namespace(NAMESPACE, "privileged"),
                pulumi.ResourceOptions(parent=self),
                NAMESPACE,
            )
            self.namespaces = {NAMESPACE: namespace}
            for kind, plugin in plugins.items():
                helm.install(
                    f"{kind}-device-plugin",
                    plugin.chart,
                    NAMESPACE,
                    manifests.values(kind, plugin.accelerator, helm.image(plugin.image), pools),
                    pulumi.ResourceOptions(parent=self, depends_on=[namespace]),
                    controllers=controllers,
                    restricted=False,
                )
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Install the device plugins of the stack's accelerators, with the pinned images where it names none."""
    stack, artifacts = assembly.stack, assembly.artifacts
    plugins = {
        kind: Plugin(
            accelerator=accelerator,
            chart=artifacts.chart(artifact),
            image=accelerator.image or artifacts.image(artifact),
        )
        for kind, accelerator in stack.accelerators.items()
        if accelerator.device_plugin is DevicePlugin.INSTALL and (artifact := facts()[kind].artifact)
    }
    accelerators = Accelerators(
        "accelerators",
        assembly.options,
        plugins=plugins,
        pools=stack.node_pools,
        controllers=stack.controllers,
    )
    assembly.unserved |= assembly.add(accelerators).namespaces
