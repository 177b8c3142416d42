"""The node as components: containerd, kubelet, kube-proxy, and CoreDNS for the cluster's names.

Pure: the text of their configuration files and their command lines. All paths
and addresses are those inside the sandbox's namespaces (`isolation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .isolation import NODE_ADDRESS, POD_RANGE
from .pki import KeyPair
from .supervisor import Component

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"
PAUSE_IMAGE = "docker.io/trainyard/pause:sandbox"

COREFILE = f"""\
cluster.local:53 in-addr.arpa:53 {{
    bind {NODE_ADDRESS}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {{kubeconfig}}
        ttl 5
    }}
}}
.:53 {{
    bind {NODE_ADDRESS}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
"""No cache: ranks look each other up in the moment that their names appear.
Names outside the cluster get a plain no, there being no way out."""


@dataclass(frozen=True)
class Node:
    """Where the node keeps its things.

    Attributes:
        name: The Node object's name.
        dir: Folder of all it writes.
        config: Folder of its configuration files.
        cgroup: The control group that pods live under.
        ca: The authority that clients of kubelet are checked against.
        serving: kubelet's own serving certificate.
    """

    name: str
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
    def var_log(self) -> Path:
        """What /var/log is inside: pods' logs."""
        return self.dir / "log"

    def files(self) -> dict[str, str]:
        """Name and text of each configuration file, for the folder `config`."""
        return {
            "containerd.toml": containerd_config(self.containerd_root, self.config / "cni"),
            "cni/10-trainyard.conflist": json.dumps(self._cni(), indent=1),
            "kubelet.json": json.dumps(self._kubelet(), indent=1),
            "kube-proxy.json": json.dumps(self._kube_proxy(), indent=1),
            "Corefile": COREFILE.replace("{kubeconfig}", str(self.config / "coredns.kubeconfig")),
            "resolv.conf": f"nameserver {NODE_ADDRESS}\n",
        }

    def components(self, binary: Callable[[str], Path]) -> list[Component]:
        """The four components, in starting order."""
        kubelet = [
            str(binary("kubelet")),
            f"--config={self.config / 'kubelet.json'}",
            f"--kubeconfig={self.config / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={NODE_ADDRESS}",
        ]
        return [
            Component(
                "containerd",
                ["/usr/bin/containerd", f"--config={self.config / 'containerd.toml'}"],
                ready=CONTAINERD_SOCKET,
            ),
            Component("kubelet", kubelet, after=("kube-apiserver", "containerd"), ready="127.0.0.1:10248"),
            Component(
                "kube-proxy",
                [str(binary("kube-proxy")), f"--config={self.config / 'kube-proxy.json'}"],
                after=("kube-apiserver",),
                ready="127.0.0.1:10256",
            ),
            Component(
                "coredns",
                [str(binary("coredns")), "-conf", str(self.config / "Corefile")],
                after=("kube-apiserver",),
                ready=f"{NODE_ADDRESS}:53",
            ),
        ]

    def _cni(self) -> dict[str, Any]:
        # Point-to-point, not a bridge: every packet between pods passes the
        # host's rules, so that Services work whatever br_netfilter is set to.
        return {
            "cniVersion": "1.0.0",
            "name": "trainyard",
            "plugins": [
                {
                    "type": "ptp",
                    "ipam": {
                        "type": "host-local",
                        "subnet": POD_RANGE,
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
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [NODE_ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.config / "resolv.conf"),
            # Images come from no registry: one that is collected is gone.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "500Mi"},
            # A process without CAP_SYS_RESOURCE may not lower its score.
            "oomScoreAdj": 0,
            "readOnlyPort": 0,
            # Jobs end and pods go often here; seconds of politeness add up.
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
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "oomScoreAdj": 0,
            # The table's size is the host's affair.
            "conntrack": {"maxPerCore": 0, "min": 0},
        }


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
