"""What all nodes depend on: names (CoreDNS) and volumes (local-path-provisioner).

Pure: the text of their configuration files and their command lines. Both run
beside the control plane; `manifests` has their rights in the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .isolation import CLUSTER_ADDRESS
from .manifests import HELPER_SCRIPTS, STORAGE_NAMESPACE
from .supervisor import Component

BUSYBOX_IMAGE = "docker.io/trainyard/busybox:sandbox"

COREFILE = f"""\
cluster.local:53 in-addr.arpa:53 {{
    bind {CLUSTER_ADDRESS}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {{kubeconfig}}
        ttl 5
    }}
}}
.:53 {{
    bind {CLUSTER_ADDRESS}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
"""No cache: ranks look each other up as soon as their names appear.
Names outside the cluster get NXDOMAIN, since there is no way out."""


@dataclass(frozen=True)
class Services:
    """Where they keep their files.

    Attributes:
        config: Folder of their configuration files.
        volumes: Folder of the volumes, the same on every node: all nodes are on one machine.
        node: The node where volumes are made and removed: the one that exists as long as the sandbox.
    """

    config: Path
    volumes: Path
    node: str

    def files(self) -> dict[str, str]:
        """Name and text of each configuration file, for the folder `config`."""
        return {
            "Corefile": COREFILE.replace("{kubeconfig}", _quoted(self.config / "coredns.kubeconfig")),
            "local-path.json": json.dumps({"sharedFileSystemPath": str(self.volumes)}),
            "volume-helper.json": json.dumps(self._helper()),
        }

    def components(self, binary: Callable[[str], Path]) -> list[Component]:
        """The two components."""
        provisioner = [
            str(binary("local-path-provisioner")),
            "start",
            f"--kubeconfig={self.config / 'local-path-provisioner.kubeconfig'}",
            f"--config={self.config / 'local-path.json'}",
            f"--helper-pod-file={self.config / 'volume-helper.json'}",
            f"--namespace={STORAGE_NAMESPACE}",
            f"--configmap-name={HELPER_SCRIPTS}",
            "--service-account-name=default",
        ]
        return [
            Component(
                "coredns",
                [str(binary("coredns")), "-conf", str(self.config / "Corefile")],
                after=("kube-apiserver",),
                ready=f"{CLUSTER_ADDRESS}:53",
            ),
            Component("local-path-provisioner", provisioner, after=("kube-apiserver",)),
        ]

    def _helper(self) -> dict[str, Any]:
        """The pod that makes or removes a volume's folder."""
        container = {"name": "helper", "image": BUSYBOX_IMAGE, "imagePullPolicy": "IfNotPresent"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "volume-helper"},
            "spec": {
                "automountServiceAccountToken": False,
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "containers": [container],
            },
        }


def _quoted(path: Path) -> str:
    """The path as one word of a Corefile, whatever characters it has."""
    return '"' + str(path).replace('"', r"\"") + '"'
