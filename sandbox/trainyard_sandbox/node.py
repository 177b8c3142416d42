"""A node as components: containerd, kubelet, kube-proxy, and kube-router, which enforces NetworkPolicies.

Pure: the text of their configuration files and their command lines. All paths
and addresses are those inside the node's namespaces (`isolation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from .isolation import CLUSTER_ADDRESS, POD_RANGE, SERVICE_RANGE, Space, run_folder
from .pki import KeyPair
from .supervisor import Component

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"
PAUSE_IMAGE = "docker.io/trainyard/pause:sandbox"


@dataclass(frozen=True)
class Node:
    """A node's identity and folders.

    Attributes:
        name: The Node object's name.
        number: 1 for the first, which shares its namespaces with the control plane.
        dir: Folder of everything that it writes.
        config: Folder of its configuration files.
        cgroup: The control group of the sandbox.
        ca: The authority that clients of kubelet are checked against.
        serving: kubelet's own serving certificate.
    """

    name: str
    number: int
    dir: Path
    config: Path
    cgroup: str
    ca: Path
    serving: KeyPair

    @property
    def containerd_root(self) -> Path:
        """Images and their unpacked layers."""
        return self.dir / "containerd"

    @property
    def kubelet_dir(self) -> Path:
        """What /var/lib/kubelet is inside."""
        return self.dir / "kubelet"

    @property
    def space(self) -> Space:
        """What it has for itself on the machine."""
        first = self.number == 1
        return Space(
            name=f"node-{self.number}",
            cgroup=self.cgroup if first else f"{self.cgroup}/node-{self.number}",
            kubelet_dir=str(self.kubelet_dir),
            var_log=str(self.dir / "log"),
            address=address(self.number),
            pods=str(list(ip_network(POD_RANGE).subnets(new_prefix=24))[self.number]),
        )

    def files(self) -> dict[str, str]:
        """Name and text of each configuration file, for the folder `config`."""
        return {
            "containerd.toml": containerd_config(self.containerd_root, self.config / "cni"),
            "cni/10-trainyard.conflist": json.dumps(self._cni(), indent=1),
            "kubelet.json": json.dumps(self._kubelet(), indent=1),
            "kube-proxy.json": json.dumps(self._kube_proxy(), indent=1),
            "resolv.conf": f"nameserver {CLUSTER_ADDRESS}\n",
        }

    def components(self, binary: Callable[[str], Path]) -> list[Component]:
        """The four components, in starting order; those of a further node end in its number."""
        space, containerd = self.space, containerd_name(self.number)
        kubelet, proxy, router = (
            numbered(name, self.number) for name in ("kubelet", "kube-proxy", "kube-router")
        )
        run = Path("/run") if self.number == 1 else run_folder(space)
        arguments = [
            str(binary("kubelet")),
            f"--config={self.config / 'kubelet.json'}",
            f"--kubeconfig={self.config / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={space.address}",
        ]
        return [
            Component(
                containerd,
                ["/usr/bin/containerd", f"--config={self.config / 'containerd.toml'}"],
                ready=str(run / Path(CONTAINERD_SOCKET).relative_to("/run")),
                space=space.name,
            ),
            Component(
                kubelet,
                arguments,
                after=("kube-apiserver", containerd),
                ready=f"{space.address}:10248",
                space=space.name,
            ),
            Component(
                proxy,
                [str(binary("kube-proxy")), f"--config={self.config / 'kube-proxy.json'}"],
                after=("kube-apiserver",),
                ready=f"{space.address}:10256",
                space=space.name,
            ),
            Component(
                router,
                [
                    str(binary("kube-router-netpol")),
                    str(self.config / "kube-router.kubeconfig"),
                    self.name,
                    SERVICE_RANGE,
                ],
                after=("kube-apiserver", kubelet),
                space=space.name,
            ),
        ]

    def _cni(self) -> dict[str, Any]:
        # Point-to-point, not a bridge: every packet between pods passes the
        # host's rules, so Services work whatever br_netfilter is set to.
        return {
            "cniVersion": "1.0.0",
            "name": "trainyard",
            "plugins": [
                {
                    "type": "ptp",
                    "ipam": {
                        "type": "host-local",
                        "subnet": self.space.pods,
                        "dataDir": "/run/cni",
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.ca)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(self.serving.cert),
            "tlsPrivateKeyFile": str(self.serving.key),
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.space.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [CLUSTER_ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.config / "resolv.conf"),
            # Images come from no registry: a garbage-collected one is lost.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "500Mi"},
            # A process without CAP_SYS_RESOURCE may not lower its score.
            "oomScoreAdj": 0,
            "readOnlyPort": 0,
            "healthzBindAddress": self.space.address,
            # Jobs and pods end often here; grace periods would add up.
            "shutdownGracePeriod": "0s",
            "syncFrequency": "10s",
        }

    def _kube_proxy(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": POD_RANGE,
            "hostnameOverride": self.name,
            "clientConnection": {"kubeconfig": str(self.config / "kube-proxy.kubeconfig")},
            "healthzBindAddress": f"{self.space.address}:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "oomScoreAdj": 0,
            # The host decides the size of the table.
            "conntrack": {"maxPerCore": 0, "min": 0},
        }


def containerd_name(number: int) -> str:
    """What the component containerd of a node is called."""
    return numbered("containerd", number)


def numbered(name: str, number: int) -> str:
    """What something of a node is called: of a further node, with its number."""
    return name if number == 1 else f"{name}-{number}"


def address(number: int) -> str:
    """The address of a node; the first shares the control plane's."""
    return str(ip_address(CLUSTER_ADDRESS) + number - 1)


def containerd_config(root: Path, cni: Path, socket: str = CONTAINERD_SOCKET) -> str:
    """containerd's configuration (version 2, as containerd 1.6 reads it)."""
    return f"""\
version = 2
root = "{root}"
state = "{Path(socket).parent}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", \
"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE no process may get a lower score than it has.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = false
"""
