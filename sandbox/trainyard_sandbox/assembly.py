"""From a sandbox's folders, binaries and images to the plan that its supervisor runs.

Also writes certificates and configuration files, and each node's copy of the
images; starts nothing.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from random import SystemRandom

import yaml

from .control_plane import AUDIT_POLICY, ControlPlane, Credentials
from .errors import SandboxError
from .images import Store
from .isolation import CLUSTER_ADDRESS
from .node import Node, address, numbered
from .paths import Instance
from .pki import KeyPair, write_private
from .services import Services
from .supervisor import Component, Plan
from .toolchain import Toolchain

_SERVER_PORTS = range(20_000, 30_000)
"""Below the kernel's own (32768 to 60999, see ip(7)) and below a node's (30000 to 32767)."""


def assemble(instance: Instance, toolchain: Toolchain, port: int, store: Store | None, nodes: int) -> Plan:
    """Prepare the files and the plan of a sandbox that starts.

    Args:
        instance: The sandbox whose folders get the files.
        toolchain: The binaries, already built.
        port: Loopback port of the API server.
        store: The images; None for only a control plane.
        nodes: How many nodes run pods; 0 for only a control plane.
    """
    control_plane = ControlPlane(
        address=CLUSTER_ADDRESS if store else "127.0.0.1",
        port=6443 if store else port,
        etcd_port=2379 if store else free_port(2),
        data=instance.dir / "etcd",
        config=instance.config,
        audit_log=instance.logs / "audit.log",
        with_node=store is not None,
    )
    creds = Credentials.make(instance.pki, control_plane.address)
    files = {"audit-policy.yaml": yaml.safe_dump(AUDIT_POLICY)}
    clients = {
        "controller-manager": creds.controller_manager,
        "scheduler": creds.scheduler,
        "kwok": creds.admin,
    }
    components: list[Component] = control_plane.components(toolchain.binary, creds)
    components.append(_kwok(toolchain, instance))
    members: list[Node] = []
    if store:
        services = Services(instance.config, instance.dir / "volumes", _node_name(instance, 1))
        services.volumes.mkdir(exist_ok=True)
        files |= services.files()
        clients |= {
            "coredns": creds.ca.issue("coredns", "trainyard:coredns"),
            "local-path-provisioner": creds.ca.issue("local-path-provisioner", "trainyard:volumes"),
        }
        components += services.components(toolchain.binary)
        members = [_node(instance, creds, number) for number in range(1, nodes + 1)]
        for node in members:
            _lay_out(instance, creds, control_plane.server, node, store)
            components += node.components(toolchain.binary)
    for name, text in files.items():
        write_private(instance.config / name, text.encode())
    for name, client in clients.items():
        creds.ca.kubeconfig(instance.config / f"{name}.kubeconfig", control_plane.server, client, instance.id)
    creds.ca.kubeconfig(instance.kubeconfig, f"https://127.0.0.1:{port}", creds.admin, instance.id)
    return Plan(
        components=components,
        logs=str(instance.logs),
        state_file=str(instance.state_file),
        cgroup=instance.id if members else None,
        spaces=[node.space for node in members],
        listen=port,
        forward=f"{control_plane.address}:{control_plane.port}",
    )


def node_names(instance: Instance, nodes: int) -> list[str]:
    """The names of the Node objects: the first is `<sandbox>-node`, the second `<sandbox>-node-2`."""
    return [_node_name(instance, number) for number in range(1, nodes + 1)]


def _node_name(instance: Instance, number: int) -> str:
    return numbered(f"{instance.name}-node", number)


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive free loopback ports.

    None of them is a port that the kernel gives to outgoing connections, or to a server that names
    none: such a connection could take the port before its server listens, or while it restarts.

    Raises `SandboxError` if there are none.
    """
    first_ports = list(_SERVER_PORTS)
    SystemRandom().shuffle(first_ports)
    for first in first_ports:
        with suppress(OSError), ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise SandboxError(
        f"No port of 127.0.0.1 is free between {_SERVER_PORTS.start} and {_SERVER_PORTS.stop}: "
        "end what listens on them, or name a port with --port."
    )


def _node(instance: Instance, creds: Credentials, number: int) -> Node:
    name = _node_name(instance, number)
    folder = f"node-{number}"
    return Node(
        name=name,
        number=number,
        dir=instance.dir / folder,
        config=instance.config / folder,
        cgroup=instance.id,
        ca=creds.ca.pair.cert,
        serving=creds.ca.issue(f"kubelet-serving-{number}", name, hosts=(name, address(number))),
    )


def _lay_out(instance: Instance, creds: Credentials, server: str, node: Node, store: Store) -> None:
    """The files of one node, and its copy of the images."""
    clients: Mapping[str, KeyPair] = {
        "kubelet": creds.ca.issue(
            f"kubelet-{node.number}", f"system:node:{node.name}", groups=("system:nodes",)
        ),
        "kube-proxy": creds.ca.issue("kube-proxy", "system:kube-proxy"),
        "kube-router": creds.ca.issue("kube-router", "trainyard:network-policies"),
    }
    for name, text in node.files().items():
        write_private(node.config / name, text.encode())
    for name, client in clients.items():
        creds.ca.kubeconfig(node.config / f"{name}.kubeconfig", server, client, instance.id)
    store.clone(node.containerd_root)
    # After a crash pods start from scratch, as after a reboot.
    shutil.rmtree(node.kubelet_dir, ignore_errors=True)


def _kwok(toolchain: Toolchain, instance: Instance) -> Component:
    """Plays the kubelet of simulated nodes, and leaves every other node alone."""
    arguments = [
        f"--kubeconfig={instance.config / 'kwok.kubeconfig'}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
    ]
    return Component("kwok", [str(toolchain.binary("kwok")), *arguments], after=("kube-apiserver",))
