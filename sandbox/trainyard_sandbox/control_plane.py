"""The control plane as components: etcd, API server, controller manager, scheduler.

Pure: from certificates and addresses to command lines. TLS with client
certificates everywhere, RBAC and NodeRestriction on, no anonymous user, and an
audit log, by which tests and benchmarks count writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .isolation import SERVICE_RANGE
from .pki import Authority, KeyPair, signing_key
from .supervisor import Component

API_SERVICE_ADDRESS = "10.96.0.1"
FRONT_PROXY = "front-proxy-client"
"""The API server's name to aggregated API servers, such as Kueue's."""

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

_ONLY_ONE = {
    "bind-address": "127.0.0.1",
    "secure-port": "0",
    "leader-elect": "false",
    "profiling": "false",
    # With their defaults, jobs would wait for them in a burst.
    "kube-api-qps": 500,
    "kube-api-burst": 1000,
}
"""Flags of the controller manager and of the scheduler: a sandbox has only one of each."""


@dataclass(frozen=True)
class Credentials:
    """All certificates of a control plane."""

    ca: Authority
    etcd_ca: Authority
    front_proxy_ca: Authority
    front_proxy: KeyPair
    etcd: KeyPair
    etcd_client: KeyPair
    apiserver: KeyPair
    kubelet_client: KeyPair
    service_accounts: KeyPair
    admin: KeyPair
    controller_manager: KeyPair
    scheduler: KeyPair

    @classmethod
    def make(cls, folder: Path, address: str) -> Credentials:
        """Make the missing certificates in `folder`, for an API server at `address`."""
        ca, etcd_ca = Authority(folder, "ca"), Authority(folder, "etcd-ca")
        front_proxy_ca = Authority(folder, "front-proxy-ca")
        services = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        names = ("localhost", *services, "kubernetes.default.svc.cluster.local")
        return cls(
            ca=ca,
            etcd_ca=etcd_ca,
            front_proxy_ca=front_proxy_ca,
            front_proxy=front_proxy_ca.issue("front-proxy", FRONT_PROXY),
            etcd=etcd_ca.issue("etcd", "etcd", hosts=("localhost", "127.0.0.1")),
            etcd_client=etcd_ca.issue("etcd-client", "kube-apiserver"),
            apiserver=ca.issue(
                "apiserver", "kube-apiserver", hosts=(*names, "127.0.0.1", API_SERVICE_ADDRESS, address)
            ),
            kubelet_client=ca.issue("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
            service_accounts=signing_key(folder, "service-accounts"),
            admin=ca.issue("admin", "kubernetes-admin", groups=("system:masters",)),
            controller_manager=ca.issue("controller-manager", "system:kube-controller-manager"),
            scheduler=ca.issue("scheduler", "system:kube-scheduler"),
        )


@dataclass(frozen=True)
class ControlPlane:
    """Where a control plane listens and keeps its files.

    Attributes:
        address: The API server's address for the node and for pods.
        port: Its port.
        etcd_port: Client port of etcd; its peer port is the next one.
        data: Folder of etcd's data.
        config: Folder of the kubeconfigs and the audit policy.
        audit_log: File that the API server appends to.
        with_node: Whether pods can run: only then Endpoints for the API server make sense.
    """

    address: str
    port: int
    etcd_port: int
    data: Path
    config: Path
    audit_log: Path
    with_node: bool

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{self.address}:{self.port}"

    def components(self, binary: Callable[[str], Path], creds: Credentials) -> list[Component]:
        """The four components, in starting order."""
        return [
            self._etcd(binary, creds),
            self._apiserver(binary, creds),
            self._controller_manager(binary, creds),
            self._scheduler(binary),
        ]

    def _etcd(self, binary: Callable[[str], Path], creds: Credentials) -> Component:
        client, peer = (f"https://127.0.0.1:{port}" for port in (self.etcd_port, self.etcd_port + 1))
        flags = {
            "name": "sandbox",
            "data-dir": self.data,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            # There is no peer, but etcd requires an address for one, and would let anybody in.
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"sandbox={peer}",
            "cert-file": creds.etcd.cert,
            "key-file": creds.etcd.key,
            "client-cert-auth": "true",
            "trusted-ca-file": creds.etcd_ca.pair.cert,
            "peer-cert-file": creds.etcd.cert,
            "peer-key-file": creds.etcd.key,
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": creds.etcd_ca.pair.cert,
            "log-level": "warn",
            # A sandbox's data need not outlive a power cut.
            "unsafe-no-fsync": "true",
        }
        return Component("etcd", _argv(binary("etcd"), flags), ready=f"127.0.0.1:{self.etcd_port}")

    def _apiserver(self, binary: Callable[[str], Path], creds: Credentials) -> Component:
        flags = {
            "advertise-address": self.address,
            "bind-address": self.address,
            "secure-port": self.port,
            "etcd-servers": f"https://127.0.0.1:{self.etcd_port}",
            "etcd-cafile": creds.etcd_ca.pair.cert,
            "etcd-certfile": creds.etcd_client.cert,
            "etcd-keyfile": creds.etcd_client.key,
            "client-ca-file": creds.ca.pair.cert,
            "tls-cert-file": creds.apiserver.cert,
            "tls-private-key-file": creds.apiserver.key,
            "proxy-client-cert-file": creds.front_proxy.cert,
            "proxy-client-key-file": creds.front_proxy.key,
            "requestheader-client-ca-file": creds.front_proxy_ca.pair.cert,
            "requestheader-allowed-names": FRONT_PROXY,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "kubelet-certificate-authority": creds.ca.pair.cert,
            "kubelet-client-certificate": creds.kubelet_client.cert,
            "kubelet-client-key": creds.kubelet_client.key,
            "kubelet-preferred-address-types": "InternalIP",
            "anonymous-auth": "false",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "service-cluster-ip-range": SERVICE_RANGE,
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": creds.service_accounts.cert,
            "service-account-signing-key-file": creds.service_accounts.key,
            "audit-policy-file": self.config / "audit-policy.yaml",
            "audit-log-path": self.audit_log,
            # MB. Whoever reads the log reads one file: the default of 100 moves its past to another.
            "audit-log-maxsize": "10000",
            "profiling": "false",
            **({} if self.with_node else {"endpoint-reconciler-type": "none"}),
        }
        return Component(
            "kube-apiserver",
            _argv(binary("kube-apiserver"), flags),
            after=("etcd",),
            ready=f"{self.address}:{self.port}",
        )

    def _controller_manager(self, binary: Callable[[str], Path], creds: Credentials) -> Component:
        flags = {
            "kubeconfig": self.config / "controller-manager.kubeconfig",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": creds.service_accounts.key,
            "root-ca-file": creds.ca.pair.cert,
            **_ONLY_ONE,
        }
        argv = _argv(binary("kube-controller-manager"), flags)
        return Component("kube-controller-manager", argv, after=("kube-apiserver",))

    def _scheduler(self, binary: Callable[[str], Path]) -> Component:
        flags = {"kubeconfig": self.config / "scheduler.kubeconfig", **_ONLY_ONE}
        return Component("kube-scheduler", _argv(binary("kube-scheduler"), flags), after=("kube-apiserver",))


def _argv(binary: Path, flags: dict[str, Any]) -> list[str]:
    return [str(binary), *(f"--{name}={value}" for name, value in flags.items())]
